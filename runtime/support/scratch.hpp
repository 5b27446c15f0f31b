// Private folders for the length of a task, and the removal of those that killed processes left.
#pragma once

#include <optional>
#include <string>

#include "runtime/support/unfinished.hpp"

namespace kiln {

/// An empty private folder in $TMPDIR (else /tmp) that is removed with the object, or by remove_unfinished().
/// What a killed process leaves, the next process removes when it makes its first folder: a living owner
/// holds a lock on its own, so that only folders of the dead go. Throws Error (environment) when there is no
/// place for it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
  std::optional<Unfinished> remembered_;
};

/// Removes the folders of dead owners below `base`; returns how many. Done once in a process by
/// ScratchFolder.
int sweep_scratch_folders(const std::string& base);

}  // namespace kiln
