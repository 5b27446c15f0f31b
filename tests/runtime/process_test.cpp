// Child processes: what they wrote, how they ended, and that none can hang or kill the caller.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/support/process.hpp"
#include "runtime/support/scratch.hpp"
#include "runtime/support/unfinished.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;

namespace {
ProcessResult shell(const std::string& script, const std::string& input = "", int timeout_s = 60) {
  ProcessRequest request;
  request.arguments = {"/bin/sh", "-c", script};
  request.input = input;
  request.timeout_s = timeout_s;
  return run_process(request);
}
}  // namespace

TEST_CASE("a process gets its input and gives its output, however long") {
  const std::string text(3 << 20, 'x');
  const ProcessResult result = shell("cat; echo said >&2", text);
  CHECK(result.ok());
  CHECK(result.output == text);
  CHECK(result.errors == "said\n");
  CHECK(shell("exit 0", text).ok());  // it reads nothing
}

TEST_CASE("how a process ended is told") {
  CHECK(shell("exit 3").end() == "exit status 3");
  CHECK(shell("kill -SEGV $$").signal == 11);
  CHECK(shell("kill -ABRT $$").end().starts_with("killed by signal 6"));
  const ProcessResult slow = shell("sleep 20", "", 1);
  CHECK(slow.timed_out);
  CHECK(!slow.ok());
  CHECK(slow.end() == "no end in time");
  ProcessRequest missing;
  missing.arguments = {"/nowhere/program"};
  CHECK(run_process(missing).end().find("/nowhere/program cannot be started") == 0);
}

TEST_CASE("a process runs in the folder and with the variables it is given, and from bytes") {
  const ScratchFolder scratch;
  ProcessRequest request;
  request.program = "";
  request.arguments = {"sh", "-c", "pwd; echo $KILN_TEST_WORD"};
  request.folder = scratch.path();
  request.environment = {{"KILN_TEST_WORD", "word"}};
  CHECK(run_process(request).output == scratch.path() + "\nword\n");
  const std::string bytes = test::read_file("/bin/true");
  request.program = bytes;
  request.arguments = {"true"};
  CHECK(run_process(request).ok());
}

TEST_CASE("a scratch folder goes with what is in it") {
  std::string path;
  {
    const ScratchFolder scratch;
    path = scratch.path();
    std::filesystem::create_directories(path + "/a/b");
    CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms::owner_all);
  }
  CHECK(!std::filesystem::exists(path));
  const test::ScopedEnv nowhere("TMPDIR", "/nowhere");
  CHECK(test::error_of([] { const ScratchFolder scratch; }) == ErrorCode::environment);
}

TEST_CASE("what a signal would leave behind is removed, and no more") {
  const test::Scratch plain;
  const std::string half = plain / "half", kept = plain / "kept", ready = plain / "ready";
  for (const std::string& file : {half, kept}) std::ofstream(file) << "text";
  { const Unfinished done(Unfinished::Kind::file, kept); }
  const Unfinished under_way(Unfinished::Kind::file, half);
  const ScratchFolder scratch;
  for (int i = 0; i < 300; ++i) std::ofstream(scratch.path() + "/object" + std::to_string(i)) << i;
  std::filesystem::create_directories(scratch.path() + "/a/b/c");
  std::ofstream(scratch.path() + "/a/b/deep") << "text";
  ProcessResult child;
  std::atomic<bool> ended{false};
  std::thread waiting([&] {
    child = shell("touch " + ready + "; exec sleep 20");
    ended = true;
  });
  while (!std::filesystem::exists(ready)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // The child may be ready before this process has noted that it is there.
  for (; !ended; std::this_thread::sleep_for(std::chrono::milliseconds(1))) remove_unfinished();
  waiting.join();
  CHECK(child.signal == SIGTERM);
  CHECK(!std::filesystem::exists(scratch.path()));
  CHECK(!std::filesystem::exists(half));
  CHECK(std::filesystem::exists(kept));
}

TEST_CASE("a thread does not take the end of its child for a failure when the process ends") {
  const test::Scratch base;
  const std::string ready = base / "ready", after = base / "after";
  const pid_t ends = fork();
  if (ends == 0) {
    std::thread([&] {
      shell("touch " + ready + "; exec sleep 20");
      std::ofstream(after) << "text";
    }).detach();
    while (!std::filesystem::exists(ready)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    end_unfinished();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(ends, &status, 0) == ends);
  CHECK(status == 0);
  CHECK(std::filesystem::exists(ready));
  CHECK(!std::filesystem::exists(after));
}

TEST_CASE(
    "what a terminal sends to the caller's group does not reach a child, what ends the child reaches its own") {
  const test::Scratch base;
  const std::string ready = base / "ready", grown = base / "grown";
  const pid_t caller = fork();
  if (caller == 0) {
    setpgid(0, 0);
    std::signal(SIGINT, SIG_IGN);  // as a shell starts what is to run in the background
    const ProcessResult child = shell("touch " + ready + "; sleep 0.2; echo done");
    _exit(child.ok() && child.output == "done\n" ? 0 : 1);
  }
  while (!std::filesystem::exists(ready)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(-caller, SIGINT);
  int status = -1;
  waitpid(caller, &status, 0);
  CHECK(status == 0);
  // The time limit ends what the program has started, too.
  ProcessRequest request;
  request.arguments = {"sh", "-c", "(sleep 2; touch " + grown + ") & wait"};
  request.timeout_s = 1;
  CHECK(run_process(request).timed_out);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  CHECK(!std::filesystem::exists(grown));
}

TEST_CASE("folders of killed processes are removed, those of living ones are not") {
  const test::Scratch base;
  const test::ScopedEnv temporary("TMPDIR", base.path().c_str());
  const ScratchFolder mine;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const ScratchFolder scratch;
    std::ofstream(scratch.path() + "/object") << "text";
    std::filesystem::create_directories(scratch.path() + "/a/b");
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  const auto folders = [&] {
    return std::distance(std::filesystem::directory_iterator(base.path()),
                         std::filesystem::directory_iterator());
  };
  CHECK(folders() == 2);
  CHECK(sweep_scratch_folders(base.path()) == 0);  // both live
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  // Nor are folders that are somebody else's business, nor one in the moment of its making.
  std::filesystem::create_directories(base / "kiln-data");
  std::filesystem::create_directories(base / "kiln-new-abcdef");
  std::filesystem::permissions(base / "kiln-new-abcdef", std::filesystem::perms::owner_all);
  std::filesystem::create_directories(base / "kiln-scratch-shared");  // others may read it: not one of ours
  CHECK(sweep_scratch_folders(base.path()) == 1);
  CHECK(std::filesystem::exists(mine.path()));
  CHECK(folders() == 4);
  const timespec old{std::time(nullptr) - 2 * 86400, 0};
  const timespec times[2] = {old, old};
  REQUIRE(utimensat(AT_FDCWD, (base / "kiln-new-abcdef").c_str(), times, 0) == 0);
  CHECK(sweep_scratch_folders(base.path()) == 1);
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("a child has default signals, whatever its parent blocks or ignores") {
  sigset_t endings, before;
  sigemptyset(&endings);
  sigaddset(&endings, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &endings, &before);
  const auto handler = std::signal(SIGHUP, SIG_IGN);
  CHECK(shell("kill -TERM $$; echo alive").signal == SIGTERM);
  CHECK(shell("kill -HUP $$; echo alive").signal == SIGHUP);
  std::signal(SIGHUP, handler);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
