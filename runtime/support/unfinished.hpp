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
  explicit Unfinished(pid_t child);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  int slot_ = -1;
};

/// Ends the remembered children, then removes the files, and the folders with what is in them.
/// Async-signal-safe; for the command's Ctrl-C handler.
void remove_unfinished() noexcept;

}  // namespace kiln
