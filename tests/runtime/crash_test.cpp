// Processes: killed at any moment they leave a cache that hits or misses cleanly; racing for a kernel they
// compile it once; one that holds the lock for ever delays others, and no more.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <chrono>
#include <random>
#include <thread>

#include "runtime/cache/cache_impl.hpp"
#include "tests/runtime/cache_support.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {
/// Where set, file systems have no locks, as NFS without its lock service.
bool without_locks = false;
}  // namespace

// Stands before the C library's.
extern "C" int flock(int fd, int operation) noexcept {
  if (!without_locks) return static_cast<int>(syscall(SYS_flock, fd, operation));
  errno = ENOLCK;
  return -1;
}

namespace {

Binary large_binary_of(int n) {
  Binary binary;
  binary.name = "kernel" + std::to_string(n);
  binary.entry = "kernel";
  binary.target = "sm_90a";
  binary.compiler = "test";
  std::mt19937 random(static_cast<unsigned>(n));
  binary.image.resize(200000);
  for (char& byte : binary.image) byte = static_cast<char>(random());
  return binary;
}

/// Runs `work` in a child that leaves without the parent's atexit handlers.
template <class Work>
pid_t start_child(const Work& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    int status = 1;
    try {
      status = work();
    } catch (...) {
    }
    _exit(status);
  }
  return pid;
}

int exit_status(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("kill -9 of writers at random moments leaves every entry whole or absent") {
  const Scratch scratch;
  const std::string directory = scratch / "c";
  std::mt19937 random(7);
  // On a crowded machine the rounds may end before anything is published: then there are more of them, each
  // twice as long.
  const auto published = [&] { return Cache(directory).stats().entries > 0; };
  unsigned times = 1;
  for (int round = 0; round < 30 || !published(); ++round) {
    if (round >= 30) times *= 2;
    const pid_t pid = start_child([&] {
      Cache cache(directory);
      for (int n = 0;; n = (n + 1) % 8) {
        cache.impl().publish(key_of(n), large_binary_of(n));
      }
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + random() % 20000) * times);
    kill(pid, SIGKILL);
    exit_status(pid);
  }
  Cache cache(directory);
  CHECK(cache.verify().bad.empty());
  CHECK(cache.stats().entries > 0);
  for (int n = 0; n < 8; ++n)
    CHECK(cache.impl().get(key_of(n), [&] { return large_binary_of(n); })->image == large_binary_of(n).image);
  CHECK(cache.stats().corrupt == 0);
}

TEST_CASE("racing processes compile each kernel once") {
  const Scratch scratch;
  const std::string directory = scratch / "c", tally = scratch / "tally";
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    children.push_back(start_child([&] {
      Cache cache(directory);
      for (int n = 0; n < 4; ++n) {
        const auto got = cache.impl().get(key_of(n), [&] {
          const int fd = open(tally.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
          const bool counted = write(fd, "x", 1) == 1;
          close(fd);
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          return counted ? large_binary_of(n) : Binary();
        });
        if (got->image != large_binary_of(n).image) return 1;
      }
      return 0;
    }));
  }
  for (const pid_t pid : children) CHECK(exit_status(pid) == 0);
  CHECK(read_file(tally).size() == 4);
}

TEST_CASE("a lock held for ever delays, and no more; a dead holder's lock is gone") {
  const Scratch scratch;
  const std::string directory = scratch / "c";
  { Cache make(directory); }
  const std::string lock = directory + "/locks/" + key_of(1).hex().substr(0, 2);
  std::filesystem::create_directory(directory + "/locks");
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  const ScopedEnv timeout("KILN_LOCK_TIMEOUT", "1");
  Cache cache(directory);
  const auto start = std::chrono::steady_clock::now();
  CHECK(cache.impl().get(key_of(1), [] { return large_binary_of(1); })->cache == CacheState::miss);
  const auto waited = std::chrono::steady_clock::now() - start;
  CHECK(waited >= std::chrono::milliseconds(900));
  CHECK(cache.stats().lock_timeouts == 1);
  close(fd);

  const pid_t holder = start_child([&] {
    Store store(directory);
    const auto held = store.lock(key_of(2), 0);
    pause();
    return held.acquired ? 0 : 1;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(holder, SIGKILL);
  exit_status(holder);
  CHECK(cache.impl().get(key_of(2), [] { return large_binary_of(2); })->cache == CacheState::miss);
  CHECK(cache.stats().lock_timeouts == 1);
}

TEST_CASE("a full disk costs the entry, not the kernel") {
  // Root writes anywhere but past a limit: a file size limit stands in for ENOSPC, in a child of its own.
  const Scratch scratch;
  const pid_t pid = start_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Cache cache(scratch / "c");
    int warnings = 0;
    cache.impl().on_warning([&](const std::string&) { ++warnings; });
    const auto got = cache.impl().get(key_of(1), [] { return large_binary_of(1); });
    cache.impl().get(key_of(2), [] { return large_binary_of(2); });
    const bool ok = got->image == large_binary_of(1).image && warnings == 1 &&
                    cache.stats().write_failures == 2 && cache.stats().entries == 0 &&
                    std::filesystem::is_empty(scratch / "c/tmp");
    return ok ? 0 : 1;
  });
  CHECK(exit_status(pid) == 0);
}

TEST_CASE("temporary files of killed writers are swept after an hour") {
  const Scratch scratch;
  { Cache make(scratch / "c"); }
  std::filesystem::create_directory(scratch / "c/tmp");
  write_file(scratch / "c/tmp/old", "x");
  write_file(scratch / "c/tmp/new", "x");
  const timespec old{std::time(nullptr) - 7200, 0};
  const timespec times[2] = {old, old};
  REQUIRE(utimensat(AT_FDCWD, (scratch / "c/tmp/old").c_str(), times, 0) == 0);
  Cache cache(scratch / "c");
  CHECK_FALSE(std::filesystem::exists(scratch / "c/tmp/old"));
  CHECK(std::filesystem::exists(scratch / "c/tmp/new"));
}

TEST_CASE("without locks processes compile the same kernel side by side, and nothing else changes") {
  const Scratch scratch;
  const std::string directory = scratch / "c";
  without_locks = true;
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    children.push_back(start_child([&] {
      Cache cache(directory);
      for (int round = 0; round < 5; ++round) {
        for (int n = 0; n < 4; ++n) {
          if (cache.impl().get(key_of(n), [&] { return large_binary_of(n); })->image !=
              large_binary_of(n).image)
            return 1;
        }
        cache.impl().forget_memory();
      }
      return cache.stats().lock_timeouts == 0 && cache.stats().corrupt == 0 ? 0 : 2;
    }));
  }
  for (const pid_t pid : children) CHECK(exit_status(pid) == 0);
  Cache cache(directory);
  CHECK(cache.verify().bad.empty());
  CHECK(cache.stats().entries == 4);
  CHECK(std::filesystem::is_empty(directory + "/tmp"));
  without_locks = false;
}

TEST_CASE("a process forked after a load goes on, and so does its parent") {
  const Scratch scratch;
  Runtime runtime(quiet(scratch / "c"));
  const KernelSource source = tiny_source(5, "sm_80");
  const auto binary = runtime.compile(source);
  const DeviceBuffer buffer = runtime.allocate(64, "before");
  const pid_t pid = start_child([&] {
    if (runtime.compile(source)->cache != CacheState::memory) return 1;
    if (runtime.compile(tiny_source(6, "sm_80"))->cache != CacheState::miss) return 2;
    std::vector<std::byte> bytes(64, std::byte{7}), back(64);
    DeviceBuffer own = runtime.allocate(64, "after");
    own.write(bytes);
    own.read(back);
    return back == bytes ? 0 : 3;
  });
  CHECK(exit_status(pid) == 0);
  CHECK(runtime.compile(source)->cache == CacheState::memory);
  CHECK(runtime.compile(tiny_source(6, "sm_80"))->cache == CacheState::disk);
}
