// A table in static storage: a signal handler may neither allocate nor lock.
#include "runtime/support/unfinished.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kiln {
namespace {

enum State : int { kFree, kFilling, kFile, kFolder, kChild };

struct Slot {
  std::atomic<int> state{kFree};
  std::atomic<pid_t> child{0};
  std::array<char, 1024> path{};
};
std::array<Slot, 64> slots;
std::atomic<bool> process_ends{false};

/// A slot that nobody else has, or -1.
int take() {
  for (int i = 0; i < static_cast<int>(slots.size()); ++i) {
    int free = kFree;
    if (slots[i].state.compare_exchange_strong(free, kFilling)) return i;
  }
  return -1;
}

constexpr int kMaxLevels = 4;

/// What is in a folder, then the folder. readdir() allocates, the system call below it does not.
void remove_folder(int parent, const char* path, int level = 0) {
  const int folder = ::openat(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  struct Entry {  // linux_dirent64, which no header declares
    std::uint64_t inode;
    std::int64_t offset;
    std::uint16_t length;
    std::uint8_t type;
  };
  constexpr std::size_t kNameAt = 19;  // behind `type`, unaligned
  alignas(Entry) std::array<char, 4096> entries;
  for (;;) {
    const long got = ::syscall(SYS_getdents64, folder, entries.data(), entries.size());
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      std::uint16_t length = 0;
      std::memcpy(&length, entries.data() + at + offsetof(Entry, length), sizeof length);
      const char* name = entries.data() + at + kNameAt;
      const bool dots = std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
      if (!dots && ::unlinkat(folder, name, 0) != 0 && level < kMaxLevels)
        remove_folder(folder, name, level + 1);
      at += length;
    }
  }
  ::close(folder);
  ::unlinkat(parent, path, AT_REMOVEDIR);
}

}  // namespace

Unfinished::Unfinished(Kind kind, const std::string& path) {
  if (path.size() >= slots[0].path.size()) return;
  slot_ = take();
  if (slot_ < 0) return;
  std::copy_n(path.c_str(), path.size() + 1, slots[slot_].path.begin());
  slots[slot_].state = kind == Kind::file ? kFile : kFolder;
}

Unfinished::Unfinished(pid_t child) : slot_(take()) {
  if (slot_ < 0) return;
  slots[slot_].child = child;
  slots[slot_].state = kChild;
  if (process_ends) ::kill(-child, SIGTERM);  // end_unfinished() came between its start and here
}

Unfinished::~Unfinished() {
  if (slot_ < 0) return;
  const int state = slots[slot_].state.exchange(kFree);
  while (state == kChild && process_ends) ::pause();
}

void remove_unfinished() noexcept {
  for (const Slot& slot : slots) {                           // before the folders that they write to
    if (slot.state == kChild) ::kill(-slot.child, SIGTERM);  // compilers remove their own files then
  }
  for (const Slot& slot : slots) {
    const int state = slot.state;
    if (state == kFile) ::unlink(slot.path.data());
    if (state == kFolder) remove_folder(AT_FDCWD, slot.path.data());
  }
}

void end_unfinished() noexcept {
  process_ends = true;
  remove_unfinished();
}

}  // namespace kiln
