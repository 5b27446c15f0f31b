// A fake driver library that fails one chosen call: every failure is an error that somebody hears
// of, nothing is lost, and the next attempt in the same process works.
#pragma once

#include <dlfcn.h>
#include <sys/wait.h>

#include <string_view>

#include "tests/runtime/support.hpp"

namespace kiln::test {

/// What fake_cuda.c and fake_hip.c export beside the driver's calls.
struct Fake {
  explicit Fake(const char* path) : library(dlopen(path, RTLD_NOW)) {}
  template <class F>
  F* symbol(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library, name));
  }
  void fail_at(int call) const { symbol<void(int)>("fakeFailAt")(call); }  ///< from 1; 0: none
  int calls() const { return symbol<int()>("fakeCalls")(); }
  std::string_view failed() const { return symbol<const char*()>("fakeFailed")(); }
  std::string alive() const { return symbol<const char*()>("fakeAlive")(); }

  void* library;
};

/// Nobody can do anything about a failure to release something, but go on.
inline bool is_release(std::string_view call) {
  for (const char* part :
       {"Free", "Destroy", "Unload", "Release", "CtxPop", "CtxGetCurrent", "Finalize", "Abort"})
    if (call.find(part) != std::string_view::npos) return true;
  return false;
}

/// What is wrong when call `n` of `use_device(done)` fails, in a process that has not used the driver before;
/// nothing when all is right, "end" when there are fewer calls. `done` is set when only destructors are left.
template <class Use>
std::string trouble(const Fake& fake, int n, const Use& use_device) {
  fake.fail_at(n);
  bool done = false;
  std::string error;
  try {
    use_device(done);
  } catch (const Error& caught) {
    error = caught.what();
  }
  const std::string name(fake.failed());
  if (name.empty()) return fake.calls() < n ? "end" : "no call failed";
  const bool release = is_release(name);
  if (error.empty() && !done) return name + ": neither an end nor an error";
  if (error.empty() && !release && name.find("CtxPush") == std::string::npos)
    return name + " failed and nobody was told";
  if (!error.empty() && release) return name + ": " + error;
  if (!fake.alive().empty()) return name + " left " + fake.alive();
  fake.fail_at(0);
  done = false;
  try {
    use_device(done);
  } catch (const Error& caught) {
    return "after " + name + " had failed: " + caught.what();
  }
  return fake.alive().empty() ? "" : "after " + name + " had failed there were left " + fake.alive();
}

/// Runs `work` in a child and returns its text.
template <class Work>
std::string in_child(const Work& work) {
  const Scratch scratch;
  const pid_t pid = fork();
  if (pid == 0) {
    try {
      write_file(scratch / "said", work());
    } catch (const std::exception& error) {
      write_file(scratch / "said", std::string("threw ") + error.what());
    }
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return "died with status " + std::to_string(status);
  return read_file(scratch / "said");
}

/// Every call in turn, each in a process of its own. `report(n, what)` hears of trouble; returns the number of calls.
template <class Use, class Report>
int fail_every_call(const Fake& fake, const Use& use_device, const Report& report) {
  for (int n = 1;; ++n) {
    const std::string said = in_child([&] { return trouble(fake, n, use_device); });
    if (said == "end" || n == 2000) return n;
    if (!said.empty()) report(n, said);
  }
}

}  // namespace kiln::test
