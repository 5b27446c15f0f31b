// The cache as a whole: tiers, damage, distrust, limits, packs.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include <kiln/generator.hpp>

#include "runtime/cache/cache_impl.hpp"
#include "runtime/cache/entry.hpp"
#include "tests/runtime/cache_support.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

Binary binary_of(int n, std::size_t bytes = 100) {
  Binary binary;
  binary.name = "kernel" + std::to_string(n);
  binary.entry = "kernel";
  binary.target = "sm_90a";
  binary.compiler = "test";
  // Incompressible, so that sizes on disk are what they seem.
  for (std::size_t i = 0; i < bytes; ++i)
    binary.image += static_cast<char>(key_of(n * 7919 + static_cast<int>(i)).bytes[0]);
  binary.ptx = "ptx " + std::to_string(n);
  return binary;
}

BinaryPtr put(Cache& cache, int n, std::size_t bytes = 100) {
  return cache.impl().get(key_of(n), [&] { return binary_of(n, bytes); });
}
Binary must_not_compile() {
  throw Error(ErrorCode::internal, "compiled what was cached");
}

}  // namespace

TEST_CASE("memory, then disk, then the compiler") {
  const Scratch scratch;
  {
    Cache cache(scratch / "c");
    CHECK(put(cache, 1)->cache == CacheState::miss);
    CHECK(put(cache, 1)->cache == CacheState::memory);
    const CacheStats stats = cache.stats();
    CHECK(stats.entries == 1);
    CHECK(stats.misses == 1);
    CHECK(stats.compiles == 1);
    CHECK(stats.memory_hits == 1);
  }
  Cache cache(scratch / "c");
  const auto found = cache.impl().get(key_of(1), must_not_compile);
  CHECK(found->cache == CacheState::disk);
  CHECK(found->image == binary_of(1).image);
  CHECK(cache.impl().get(key_of(1), must_not_compile)->cache == CacheState::memory);
  CHECK(cache.stats().disk_hits == 1);
}

TEST_CASE("files and folders are private") {
  const Scratch scratch;
  Cache cache(scratch / "deep/er/c");
  put(cache, 1);
  const auto mode = [](const std::string& path) {
    struct stat info {};
    stat(path.c_str(), &info);
    return info.st_mode & 0777u;
  };
  CHECK(mode(scratch / "deep/er/c") == 0700);
  REQUIRE(entry_files(scratch / "deep/er/c").size() == 1);
  CHECK(mode(entry_files(scratch / "deep/er/c")[0]) == 0600);
  CHECK(fs::is_empty(scratch / "deep/er/c/tmp"));
}

TEST_CASE("a damaged entry is quarantined, told once and made anew") {
  const Scratch scratch;
  for (const std::string& damage :
       {std::string("truncate"), std::string("flip"), std::string("empty"), std::string("junk")}) {
    CAPTURE(damage);
    const std::string directory = scratch / damage;
    {
      Cache cache(directory);
      put(cache, 1);
    }
    const std::string file = entry_files(directory).at(0);
    std::string bytes = read_file(file);
    if (damage == "truncate") bytes.resize(bytes.size() / 2);
    if (damage == "flip") bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
    if (damage == "empty") bytes.clear();
    if (damage == "junk") bytes.assign(1000, 'j');
    write_file(file, bytes);
    Cache cache(directory);
    std::vector<std::string> warnings;
    cache.impl().on_warning([&](const std::string& text) { warnings.push_back(text); });
    CHECK(put(cache, 1)->cache == CacheState::miss);
    CHECK(warnings.size() == 1);
    const CacheStats stats = cache.stats();
    CHECK(stats.corrupt == 1);
    CHECK(stats.quarantined == 1);
    CHECK(stats.entries == 1);
    CHECK(cache.verify().bad.empty());
    Cache fresh(directory);
    CHECK(fresh.impl().get(key_of(1), must_not_compile)->cache == CacheState::disk);
  }
}

TEST_CASE("an entry under another's name is not believed") {
  const Scratch scratch;
  {
    Cache cache(scratch / "c");
    put(cache, 1);
    put(cache, 2);
  }
  const auto path = [&](int n) {
    const std::string hex = key_of(n).hex();
    return scratch / "c/v1/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".kiln";
  };
  fs::copy_file(path(1), path(2), fs::copy_options::overwrite_existing);
  {
    Cache cache(scratch / "c");
    const auto result = cache.verify();
    CHECK(result.checked == 2);
    REQUIRE(result.bad.size() == 1);
    CHECK(result.bad[0].find(key_of(2).hex()) == 0);
  }
  fs::copy_file(path(1), path(2));
  Cache cache(scratch / "c");
  const auto made = put(cache, 2);
  CHECK(made->cache == CacheState::miss);
  CHECK(made->name == "kernel2");
}

TEST_CASE("a directory that cannot be trusted or written means memory only, and says why") {
  const Scratch scratch;
  const auto check_unusable = [](const std::string& directory, const std::string& reason) {
    CAPTURE(directory);
    Cache cache(directory);
    std::vector<std::string> warnings;
    cache.impl().on_warning([&](const std::string& text) { warnings.push_back(text); });
    CHECK(put(cache, 1)->cache == CacheState::miss);
    CHECK(put(cache, 2)->cache == CacheState::miss);
    CHECK(put(cache, 1)->cache == CacheState::memory);
    CHECK(cache.stats().problem.find(reason) != std::string::npos);
    CHECK(cache.stats().directory.empty());
    CHECK(cache.list().empty());
    CHECK(warnings.size() == (directory.empty() ? 0 : 1));
    CHECK(error_of([&] { cache.import_from("/nonexistent"); }) == ErrorCode::environment);
  };
  fs::create_directory(scratch / "open");
  fs::permissions(scratch / "open", fs::perms::all);
  check_unusable(scratch / "open", "writable by others");
  fs::create_directory(scratch / "real");
  fs::create_symlink(scratch / "real", scratch / "link");
  check_unusable(scratch / "link", "symbolic link");
  write_file(scratch / "file", "");
  check_unusable(scratch / "file", "cannot");
  check_unusable(scratch / "file/below", "cannot create");
  check_unusable("relative/path", "not an absolute path");
  check_unusable("", "no cache directory");
  if (geteuid() == 0) {
    fs::create_directory(scratch / "theirs");
    REQUIRE(chown((scratch / "theirs").c_str(), 12345, 12345) == 0);
    check_unusable(scratch / "theirs", "another user");
  }
}

TEST_CASE("an entry that is no regular file of ours is a miss") {
  const Scratch scratch;
  {
    Cache cache(scratch / "c");
    put(cache, 1);
  }
  const std::string file = entry_files(scratch / "c").at(0);
  fs::rename(file, scratch / "elsewhere");
  fs::create_symlink(scratch / "elsewhere", file);
  {
    Cache cache(scratch / "c");
    CHECK(put(cache, 1)->cache == CacheState::miss);
  }
  CHECK_FALSE(fs::is_symlink(file));
  fs::remove(file);
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  Cache cache(scratch / "c");
  CHECK(put(cache, 1)->cache == CacheState::miss);  // and does not hang
}

TEST_CASE("the directory comes from the environment, never from /tmp") {
  const ScopedEnv own("KILN_CACHE_DIR", nullptr), xdg("XDG_CACHE_HOME", "/x"), home("HOME", "/h");
  CHECK(Cache::default_directory() == "/x/kiln");
  const ScopedEnv relative("XDG_CACHE_HOME", "x");
  CHECK(Cache::default_directory() == "/h/.cache/kiln");
  const ScopedEnv chosen("KILN_CACHE_DIR", "/k");
  CHECK(Cache::default_directory() == "/k");
  const ScopedEnv none("KILN_CACHE_DIR", nullptr), homeless("HOME", nullptr);
  CHECK(Cache::default_directory().find("/tmp") == std::string::npos);
}

TEST_CASE("list, prune and clear") {
  const Scratch scratch;
  Cache cache(scratch / "c");
  for (int n = 0; n < 10; ++n) put(cache, n, 9000);
  auto entries = cache.list();
  REQUIRE(entries.size() == 10);
  CHECK(entries[0].target == "sm_90a");
  CHECK(entries[0].bytes >= 9000);
  CHECK(entries[0].created > 0);
  // Use is kept in the access time: make kernel 3 the oldest but for kernel 5.
  const auto age = [&](int n, std::int64_t hours) {
    const std::string hex = key_of(n).hex();
    const timespec when{std::time(nullptr) - hours * 3600, 0};
    const timespec times[2] = {when, when};
    utimensat(AT_FDCWD, (scratch / "c/v1/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".kiln").c_str(), times,
              0);
  };
  age(3, 10);
  age(5, 20);
  const std::uint64_t each = cache.stats().bytes / 10;
  CHECK(cache.prune(each * 8 + each / 2) == 2);
  std::vector<std::string> names;
  for (const CacheEntryInfo& entry : cache.list()) names.push_back(entry.name);
  CHECK(std::find(names.begin(), names.end(), "kernel3") == names.end());
  CHECK(std::find(names.begin(), names.end(), "kernel5") == names.end());
  CHECK(cache.prune(std::uint64_t{1} << 40) == 0);
  CHECK(cache.clear() == 8);
  CHECK(cache.list().empty());
  CHECK(put(cache, 1)->cache == CacheState::miss);  // memory was cleared too
}

TEST_CASE("a hit refreshes the time of use, so that pruning spares it") {
  const Scratch scratch;
  {
    Cache cache(scratch / "c");
    put(cache, 1);
  }
  const std::string file = entry_files(scratch / "c").at(0);
  const timespec old{std::time(nullptr) - 86400, 0};
  const timespec times[2] = {old, old};
  REQUIRE(utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
  Cache cache(scratch / "c");
  cache.impl().get(key_of(1), must_not_compile);
  CHECK(cache.list().at(0).used > std::time(nullptr) - 60);
}

TEST_CASE("packs carry entries, check all before taking any, and are reproducible") {
  const Scratch scratch;
  Cache from(scratch / "a"), to(scratch / "b");
  for (int n = 0; n < 5; ++n) put(from, n);
  put(to, 0);
  CHECK(from.export_to(scratch / "p1") == 5);
  CHECK(from.export_to(scratch / "p2") == 5);
  CHECK(read_file(scratch / "p1") == read_file(scratch / "p2"));
  CHECK(to.import_from(scratch / "p1") == 4);
  CHECK(to.import_from(scratch / "p1") == 0);
  CHECK(to.impl().get(key_of(3), must_not_compile)->cache == CacheState::disk);
  CHECK(from.export_to(scratch / "one", {key_of(2).hex()}) == 1);
  CHECK(error_of([&] { from.export_to(scratch / "x", {"00"}); }) == ErrorCode::bad_input);
  CHECK(error_of([&] { from.export_to(scratch / "no/such/folder"); }) == ErrorCode::bad_input);

  const std::string pack = read_file(scratch / "p1");
  Cache clean(scratch / "d");
  const auto refused = [&](const std::string& bytes) {
    write_file(scratch / "bad", bytes);
    return error_of([&] { clean.import_from(scratch / "bad"); }) == ErrorCode::bad_input &&
           clean.list().empty();
  };
  CHECK(refused(""));
  CHECK(refused("kilnpack 2\n"));
  CHECK(refused(pack.substr(0, pack.size() - 1)));
  CHECK(refused(pack + "tail"));
  std::string flipped = pack;
  flipped[pack.size() - 5] = static_cast<char>(flipped[pack.size() - 5] ^ 4);
  CHECK(refused(flipped));
}

TEST_CASE("threads that want one kernel compile it once; a failure reaches all and is not kept") {
  const Scratch scratch;
  Cache cache(scratch / "c");
  std::atomic<int> compiles{0}, failures{0};
  const auto stampede = [&](bool fail) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        try {
          const auto got = cache.impl().get(key_of(1), [&] {
            ++compiles;
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            if (fail) throw Error(ErrorCode::compile, "no");
            return binary_of(1);
          });
          if (got->name != "kernel1") ++failures;
        } catch (const Error&) {
          ++failures;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  stampede(true);
  CHECK(failures == 8);
  const int after_failure = compiles;
  CHECK(after_failure >= 1);
  failures = 0;
  stampede(false);
  CHECK(failures == 0);
  CHECK(compiles == after_failure + 1);
}

TEST_CASE("the size limit is read with its suffix") {
  const auto limit = [](const char* text) {
    const ScopedEnv env("KILN_CACHE_MAX_SIZE", text);
    return cache_max_bytes();
  };
  CHECK(limit(nullptr) == std::uint64_t{1} << 30);
  CHECK(limit("64K") == 65536);
  CHECK(limit("1.5M") == 3u << 19);
  CHECK(limit("0") == 0);
  CHECK(error_of([&] { limit("lots"); }) == ErrorCode::bad_input);
}

TEST_CASE("an entry or a folder that others may write is not believed, and told") {
  const Scratch scratch;
  const std::string directory = scratch / "c";
  const auto reopened = [&](std::vector<std::string>& warnings) {
    auto cache = std::make_unique<Cache>(directory);
    cache->impl().on_warning([&](const std::string& text) { warnings.push_back(text); });
    return cache;
  };
  std::vector<std::string> warnings;
  put(*reopened(warnings), 1);
  const std::string file = entry_files(directory).at(0), shard = fs::path(file).parent_path();
  for (const mode_t mode : {0620u, 0602u, 0666u}) {
    REQUIRE(chmod(file.c_str(), mode) == 0);
    warnings.clear();
    CHECK(put(*reopened(warnings), 1)->cache == CacheState::miss);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("is writable by others") != std::string::npos);
    // It was replaced by one that is ours.
    CHECK(put(*reopened(warnings), 1)->cache == CacheState::disk);
  }
  for (const std::string& folder : {shard, directory + "/v1"}) {
    CAPTURE(folder);
    auto cache = reopened(warnings);  // a process that was there before
    REQUIRE(chmod(folder.c_str(), 0770) == 0);
    warnings.clear();
    CHECK(put(*cache, 1)->cache == CacheState::miss);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("is writable by others") != std::string::npos);
    CHECK(cache->verify().bad.size() == (folder == shard ? 1 : 0));
    REQUIRE(chmod(folder.c_str(), 0700) == 0);
  }
}

TEST_CASE("another user's cache is not used, by root either") {
  if (geteuid() != 0) return;  // needs two users
  const Scratch scratch;
  REQUIRE(chmod(scratch.path().c_str(), 0755) == 0);
  const std::string directory = scratch / "c";
  { Cache mine(directory); }
  REQUIRE(chown(directory.c_str(), 65534, 65534) == 0);
  Cache root_cache(directory);
  CHECK(root_cache.stats().problem.find("belongs to another user") != std::string::npos);
  CHECK(put(root_cache, 1)->cache == CacheState::miss);  // in memory
  const std::string other = scratch / "other";
  REQUIRE(mkdir(other.c_str(), 0700) == 0);
  REQUIRE(chown(other.c_str(), 65534, 65534) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    // The other user in its own cache, then in one of root's.
    bool right = setgid(65534) == 0 && setuid(65534) == 0;
    Cache own(other);
    right = right && put(own, 1)->cache == CacheState::miss && own.stats().entries == 1;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a clock that was set back neither keeps entries for ever nor hides their use") {
  const Scratch scratch;
  const std::string directory = scratch / "c";
  {
    Cache cache(directory);
    for (int n = 1; n <= 4; ++n) put(cache, n, 40000);
  }
  const auto date = [](const std::string& file, std::int64_t seconds_from_now) {
    const timespec at{std::time(nullptr) + seconds_from_now, 0};
    const timespec times[2] = {at, at};
    REQUIRE(utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
  };
  for (const std::string& file : entry_files(directory)) date(file, 86400);
  {
    // Used now: the date is right again.
    Cache cache(directory);
    CHECK(cache.impl().get(key_of(3), must_not_compile)->cache == CacheState::disk);
    struct stat info {};
    for (const std::string& file : entry_files(directory)) {
      if (file.find(key_of(3).hex().substr(2)) == std::string::npos) continue;
      REQUIRE(stat(file.c_str(), &info) == 0);
    }
    CHECK(std::abs(info.st_atim.tv_sec - std::time(nullptr)) < 3600);
    // Automatic pruning spares what is young, and a date in the future is not.
    CHECK(cache.impl().prune(1000, 600) > 0);
  }
  fs::create_directory(directory + "/tmp");
  write_file(directory + "/tmp/future", "x");
  date(directory + "/tmp/future", 86400);
  Cache cache(directory);
  CHECK(!fs::exists(directory + "/tmp/future"));
}

TEST_CASE(
    "versions of kiln share a cache: the same entries, others' keys ignored, other formats left alone") {
  const Scratch scratch;
  const std::string directory = scratch / "c";
  const std::string other = directory + "/v2/ab/cdef.kiln";
  {
    Cache cache(directory);
    put(cache, 1);
    // The other version has keys in its metadata that this one does not know, and a format of its own beside it.
    REQUIRE(entry_files(directory).size() == 1);
    const std::string file = entry_files(directory)[0];
    std::string bytes = read_file(file);
    const std::string mine = std::string("\"kiln_version\":\"") + std::string(version()) + "\"";
    const std::string theirs = "\"kiln_version\":\"99.0.0\",\"new_key\":[1,2,3]";
    const std::size_t at = bytes.find(mine);
    REQUIRE(at != std::string::npos);
    bytes.replace(at, mine.size(), theirs);
    bytes[32] =
        static_cast<char>(bytes[32] + static_cast<char>(theirs.size() - mine.size()));  // metadata bytes
    reseal_entry(bytes);
    write_file(file, bytes);
    fs::create_directories(directory + "/v2/ab");
    write_file(other, "an entry of a format to come");
  }
  Cache cache(directory);
  const auto found = cache.impl().get(key_of(1), must_not_compile);
  CHECK(found->cache == CacheState::disk);
  CHECK(found->image == binary_of(1).image);
  REQUIRE(cache.list().size() == 1);
  CHECK(cache.list()[0].kiln_version == "99.0.0");
  CHECK(cache.verify().bad.empty());
  cache.prune(0);
  cache.clear();
  CHECK(cache.list().empty());
  CHECK(read_file(other) == "an entry of a format to come");
}
