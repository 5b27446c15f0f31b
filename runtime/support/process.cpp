// Standard input, output and errors are anonymous files in memory rather than pipes: nothing can block on a
// full pipe, no SIGPIPE can reach the caller, and waiting for the child is all there is to do.
#include "runtime/support/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include <kiln/error.hpp>

#include "runtime/support/scratch.hpp"

extern char** environ;

namespace kiln {
namespace {

constexpr unsigned kExecutable = 0x0010;  // MFD_EXEC, since Linux 6.3

class MemoryFile {
 public:
  explicit MemoryFile(const char* name, bool executable = false) {
    if (executable) fd_ = memfd_create(name, MFD_CLOEXEC | kExecutable);
    if (fd_ < 0) fd_ = memfd_create(name, MFD_CLOEXEC);
  }
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }
  bool fill(std::string_view bytes) const {
    while (fd_ >= 0 && !bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return fd_ >= 0 && lseek(fd_, 0, SEEK_SET) == 0;
  }
  std::string contents() const {
    const off_t size = lseek(fd_, 0, SEEK_END);
    std::string bytes(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
    std::size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t got = pread(fd_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      if (got <= 0) break;
      at += static_cast<std::size_t>(got);
    }
    bytes.resize(at);
    return bytes;
  }

 private:
  int fd_ = -1;
};

struct Actions {
  posix_spawn_file_actions_t raw{};
  Actions() { posix_spawn_file_actions_init(&raw); }
  ~Actions() { posix_spawn_file_actions_destroy(&raw); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
};

/// A child starts with the signals of a shell's command, whatever the caller has blocked or handles: it must
/// end by SIGTERM. Its process group is its own: a Ctrl-C or hang-up of the terminal is for the caller, who may
/// ignore it or end the child, and must not mistake a child that it ended for a program that failed.
struct Attributes {
  posix_spawnattr_t raw{};
  Attributes() {
    sigset_t none, endings;
    sigemptyset(&none);
    sigemptyset(&endings);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&endings, signal);
    posix_spawnattr_init(&raw);
    posix_spawnattr_setsigmask(&raw, &none);
    posix_spawnattr_setsigdefault(&raw, &endings);
    posix_spawnattr_setflags(&raw, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() { posix_spawnattr_destroy(&raw); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> merged_environment(const ProcessRequest& request) {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : request.environment) {
      replaced |= text.starts_with(name) && text.substr(name.size()).starts_with('=');
    }
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : request.environment) all.emplace_back(name).append("=").append(value);
  return all;
}

/// Waits for the child, killing it at the deadline.
void wait_for(pid_t child, int timeout_s, ProcessResult& result) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(timeout_s);
  auto pause = std::chrono::microseconds(200);
  int status = 0;
  for (;;) {
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done == child) break;
    if (done < 0 && errno != EINTR) {  // the caller ignores SIGCHLD: the status is lost, the output is not
      result.status = 0;
      return;
    }
    if (Clock::now() > deadline && !result.timed_out) {
      result.timed_out = true;
      kill(-child, SIGKILL);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
}

}  // namespace

std::string ProcessResult::end() const {
  if (!started) return problem;
  if (timed_out) return "no end in time";
  if (signal != 0) return fmt::format("killed by signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit status {}", status);
}

ProcessResult run_process(const ProcessRequest& request) {
  ProcessResult result;
  const MemoryFile input("input"), output("output"), errors("errors"),
      program("program", !request.program.empty());
  if (!input.fill(request.input) || output.fd() < 0 || errors.fd() < 0 || !program.fill(request.program)) {
    result.problem = fmt::format("no memory file for a child process: {}", std::strerror(errno));
    return result;
  }
  Actions actions;
  const Attributes attributes;
  posix_spawn_file_actions_adddup2(&actions.raw, input.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions.raw, output.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions.raw, errors.fd(), STDERR_FILENO);
  if (!request.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions.raw, request.folder.c_str());
  std::vector<std::string> arguments = request.arguments, environment = merged_environment(request);
  const std::string file =
      request.program.empty() ? request.arguments.at(0) : fmt::format("/proc/self/fd/{}", program.fd());
  pid_t child = 0;
  const auto spawn = [&](const std::string& path) {
    return posix_spawnp(&child, path.c_str(), &actions.raw, &attributes.raw, pointers(arguments).data(),
                        pointers(environment).data());
  };
  int error = spawn(file);
  std::optional<ScratchFolder> folder;
  if (error == EACCES && !request.program.empty()) {  // memory files are not executable here: a real one
    folder.emplace();
    const std::string copy = folder->path() + "/program";
    std::ofstream(copy, std::ios::binary) << request.program;
    chmod(copy.c_str(), S_IRWXU);
    error = spawn(copy);
  }
  if (error != 0) {
    result.problem = fmt::format("{} cannot be started: {}", request.arguments.at(0), std::strerror(error));
    return result;
  }
  result.started = true;
  {
    const Unfinished remembered(child);
    wait_for(child, request.timeout_s, result);
  }
  result.output = output.contents();
  result.errors = errors.contents();
  return result;
}

}  // namespace kiln
