// A thread waits for the signals, which are blocked everywhere else: NVRTC installs handlers of its own while
// it compiles, and those end the process with a status that says nothing.
#include "cli/signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string_view>
#include <system_error>
#include <thread>

#include "runtime/support/unfinished.hpp"

namespace kiln::cli {
namespace {

std::atomic<int> child_process{0};

void say(std::string_view text) {
  // Past stdio, whose lock another thread may hold for ever.
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

[[noreturn]] void end_by(int ending) {
  end_unfinished();
  if (isatty(STDERR_FILENO) != 0) say("\r\x1b[K");
  say(ending == SIGINT    ? "kiln: interrupted\n"
      : ending == SIGTERM ? "kiln: terminated\n"
                          : "kiln: hung up\n");
  // Ending by the signal itself tells a calling shell the truth.
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, ending);
  signal(ending, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(ending);
  _exit(128 + ending);
}

}  // namespace

void end_on_signals() {
  sigset_t endings;
  sigemptyset(&endings);
  for (const int ending : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (sigaction(ending, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&endings, ending);
  }
  pthread_sigmask(SIG_BLOCK, &endings, nullptr);
  try {
    std::thread([endings] {
      for (;;) {
        siginfo_t info{};
        const int ending = sigwaitinfo(&endings, &info);
        if (ending < 0) continue;
        const int child = child_process;
        if (child == 0) end_by(ending);
        if (info.si_code != SI_KERNEL) kill(child, ending);
      }
    }).detach();
  } catch (const std::system_error&) {  // no thread to be had: the signals do what they do by default
    pthread_sigmask(SIG_UNBLOCK, &endings, nullptr);
  }
}

void forward_signals(int child) {
  child_process = child;
}

}  // namespace kiln::cli
