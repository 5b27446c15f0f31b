// What a process that a signal ends must not leave behind: files under way, scratch folders, child processes.
#pragma once

#include <sys/types.h>

#include <string>

namespace kiln {

/// Remembered for as long as the object lives; the object itself removes nothing. There is place for 64 at a
/// time and for paths of 1023 bytes; what does not fit is not remembered. Safe to use from several threads.
class Unfinished {
 public:
  enum class Kind : int { file, folder };
  Unfinished(Kind kind, const std::string& path);
  explicit Unfinished(pid_t child);  ///< the leader of a process group of its own
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  int slot_ = -1;
};

/// Ends the remembered children and theirs, then removes the files, and the folders with what is in them.
/// Async-signal-safe.
void remove_unfinished() noexcept;

/// The same for a process that ends next, in the command's Ctrl-C handler: a thread that waits for such a child
/// never returns from run_process(), so that it cannot take the child's end for a failure and report it.
void end_unfinished() noexcept;

}  // namespace kiln
