// Settings from the environment, and what memory is left by machine, control groups and limits.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>

#include "runtime/cache/cache_impl.hpp"
#include "runtime/support/memory.hpp"
#include "runtime/support/settings.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;

TEST_CASE("sizes are read with fractions, exponents and units of either case") {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  CHECK(parse_size("0") == 0);
  CHECK(parse_size("1000000") == 1000000);
  CHECK(parse_size("1e9") == 1000000000);
  CHECK(parse_size("64K") == 65536);
  CHECK(parse_size("512M") == kGiB / 2);
  CHECK(parse_size("1.5G") == kGiB + kGiB / 2);
  CHECK(parse_size("1g") == kGiB);
  CHECK(parse_size("2GiB") == 2 * kGiB);
  CHECK(parse_size("2GB") == 2 * kGiB);
  CHECK(parse_size("1t") == kGiB << 10);
  for (const char* wrong : {"", "G", "lots", "-1", "-1G", "1.5", "1G1", "1 G", "1x", "1Gi B", "inf", "nan",
                            "0x10", "1,5G", "9999999999T", "1e99", "+1", "1.G"})
    CHECK_MESSAGE(!parse_size(wrong).has_value(), wrong);
}

TEST_CASE("a setting that cannot be read is an error that names it") {
  const auto refused = [](const char* name, const char* value) {
    const ScopedEnv env(name, value);
    std::string message;
    CHECK(error_of([] { const Runtime runtime(quiet()); }, &message) == ErrorCode::bad_input);
    CHECK_MESSAGE(message.starts_with(std::string(name) + " is "), message);
    CHECK(message.find(value) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  };
  for (const char* value : {"lots", "-1", "1.5", "1Q"}) refused("KILN_CACHE_MAX_SIZE", value);
  for (const char* value : {"1.5", "10s", "-1", "3601", "x"}) refused("KILN_LOCK_TIMEOUT", value);
  refused("KILN_AMD_COMPILER", "gcc");
  const ScopedEnv log("KILN_LOG", "loud");
  RuntimeOptions options;
  options.device = "emulated";
  options.cache_dir = "";
  std::string message;
  CHECK(error_of([&] { const Runtime runtime(options); }, &message) == ErrorCode::bad_input);
  CHECK(message == "KILN_LOG is 'loud'; use error, warn, info or debug");
}

TEST_CASE("the tightest of machine, control groups and limits counts") {
  const Scratch root;
  const auto put = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root / file).parent_path());
    write_file(root / file, text);
  };
  put("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    4000000 kB\nSwapFree:  1000 kB\n");
  CHECK(available_memory(root.path()).bytes == 4001000ull * 1024);
  CHECK(available_memory(root.path()).where == "the machine has");
  // Version 2: a group above this one is tighter, caches of files count as free.
  put("proc/self/cgroup", "0::/user/job\n");
  put("sys/fs/cgroup/user/job/memory.max", "max\n");
  put("sys/fs/cgroup/user/job/memory.current", "1000\n");
  put("sys/fs/cgroup/user/memory.max", "500000000\n");
  put("sys/fs/cgroup/user/memory.current", "300000000\n");
  put("sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file 100000000\n");
  CHECK(available_memory(root.path()).bytes == 300000000);
  CHECK(available_memory(root.path()).where == "the control group leaves");
  // Version 1, seen from inside a container: the path is the host's, the mount is the group.
  put("proc/self/cgroup", "5:cpu,memory:/docker/abc\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "200000000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "250000000\n");
  put("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 60000000\n");
  CHECK(available_memory(root.path()).bytes == 10000000);
  const MemoryLimit limit{std::uint64_t{3} << 29, "the machine has"};
  std::string message;
  CHECK(error_of([&] { require_memory(std::uint64_t{5} << 30, "the problem", limit); }, &message) ==
        ErrorCode::environment);
  CHECK(message == "the problem needs 5.0 GiB of memory, the machine has 1.5 GiB");
  require_memory(limit.bytes, "the problem", limit);
}

TEST_CASE("a limit of the address space is seen, and the emulated device leaves room below it") {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit{std::uint64_t{3} << 30, std::uint64_t{3} << 30};
    setrlimit(RLIMIT_AS, &limit);
    int status = 1;
    try {
      const bool seen = available_memory().where == "the address space limit leaves";
      Runtime runtime(quiet());
      const DeviceBuffer buffer = runtime.allocate(std::size_t{16} << 20, "small");
      // Half of the space and more is left for everything else.
      const bool room = available_memory().bytes > std::uint64_t{1} << 30;
      const auto code = error_of([&] { runtime.allocate(std::size_t{4} << 30, "large"); });
      status = !seen ? 2 : !room ? 3 : code != ErrorCode::environment ? 4 : 0;
    } catch (const std::exception&) {
    }
    _exit(status);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
