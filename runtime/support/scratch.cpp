// A folder is made under one name, locked, and renamed to another: whoever finds the second name and gets its
// lock knows that the owner is dead. The first name lasts for microseconds, or where there are no locks; it
// is removed when it is a day old.
#include "runtime/support/scratch.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include <kiln/error.hpp>

#include "runtime/support/environment.hpp"

namespace kiln {
namespace {

constexpr std::string_view kNew = "kiln-new-", kLocked = "kiln-scratch-";
constexpr std::int64_t kDay = 24 * 3600;

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDir> dir(opendir(folder.c_str()));
  while (const dirent* entry = dir ? readdir(dir.get()) : nullptr) names.emplace_back(entry->d_name);
  return names;
}

/// A folder of ours that nobody else may touch, whose owner is dead.
bool abandoned(int fd, bool locked) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || info.st_uid != geteuid() || (info.st_mode & 0077u) != 0) return false;
  // The clock may have been set back since: a day in the future is as strange as a day in the past.
  if (!locked && std::abs(std::time(nullptr) - info.st_mtim.tv_sec) < kDay) return false;
  return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

std::string base_folder() {
  std::string base = environment("TMPDIR");
  return base.empty() || base[0] != '/' ? "/tmp" : base;
}

}  // namespace

int sweep_scratch_folders(const std::string& base) {
  int removed = 0;
  for (const std::string& name : names_in(base)) {
    const bool locked = name.starts_with(kLocked);
    if (!locked && !name.starts_with(kNew)) continue;
    const std::string path = base + "/" + name;
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    if (abandoned(fd, locked)) {
      std::error_code error;
      std::filesystem::remove_all(path, error);
      removed += error ? 0 : 1;
    }
    close(fd);
  }
  return removed;
}

ScratchFolder::ScratchFolder() {
  const std::string base = base_folder();
  static std::once_flag swept;
  std::call_once(swept, [&] { sweep_scratch_folders(base); });
  std::string pattern = base + "/" + std::string(kNew) + "XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    throw Error(ErrorCode::environment, fmt::format("no folder for temporary files in {}: {}; set TMPDIR",
                                                    base, std::strerror(errno)));
  }
  path_ = pattern;
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) == 0) {
    const std::string name = base + "/" + std::string(kLocked) + path_.substr(path_.size() - 6);
    // An empty folder of that name would be replaced, one in use is not.
    if (rename(path_.c_str(), name.c_str()) == 0) path_ = name;
  }
  remembered_.emplace(Unfinished::Kind::folder, path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

}  // namespace kiln
