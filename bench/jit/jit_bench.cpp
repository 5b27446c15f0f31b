// From config to loaded code: generation, a cold compile, and a warm hit, each in a process of its own where
// that is what a user meets. Prints one line per phase with its limit; exit status 1 when a limit is missed.
//   kiln_bench_jit CONFIG.json [--runs N]
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <kiln/kiln.hpp>

extern char** environ;

namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

kiln::RuntimeOptions options(const std::string& directory) {
  kiln::RuntimeOptions result;
  result.cache_dir = directory;
  return result;
}

kiln::KernelSource source_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw kiln::Error(kiln::ErrorCode::bad_input, "cannot read " + path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  return kiln::generate(kiln::make_plan(kiln::parse_config(text, path)));
}

/// A child's whole job: config to binary through the cache. Prints the cache state and its own time.
int child(const std::string& config, const std::string& directory) {
  kiln::Runtime runtime(options(directory));
  const auto binary = runtime.compile(source_of(config));
  return binary->cache == kiln::CacheState::miss ? 10 : binary->cache == kiln::CacheState::disk ? 11 : 12;
}

/// Time of one child process, from spawn to exit; its exit status in `status`.
double spawn_child(const std::string& config, const std::string& directory, int& status) {
  std::string program = "/proc/self/exe", verb = "--child", a = config, b = directory;
  char* arguments[] = {program.data(), verb.data(), a.data(), b.data(), nullptr};
  const auto start = Clock::now();
  pid_t pid = 0;
  if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments, environ) != 0) {
    throw kiln::Error(kiln::ErrorCode::internal, "cannot start a child process");
  }
  waitpid(pid, &status, 0);
  const double ms = ms_since(start);
  status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ms;
}

struct Phase {
  const char* name;
  double ms, limit_ms;
};

int bench(const std::string& config, int runs) {
  std::string directory = (std::filesystem::temp_directory_path() / "kiln-bench-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr)
    throw kiln::Error(kiln::ErrorCode::internal, "no temporary folder");
  struct Remove {
    std::string path;
    ~Remove() { std::filesystem::remove_all(path); }
  } remove{directory};

  std::vector<double> generation, cold, cold_process, warm_process, memory_hit;
  const kiln::KernelSource source = source_of(config);
  int status = 0;
  for (int run = 0; run < runs; ++run) {
    auto start = Clock::now();
    source_of(config);
    generation.push_back(ms_since(start));

    start = Clock::now();
    kiln::Runtime runtime(options(""));
    runtime.compile(source_of(config));
    cold.push_back(ms_since(start));

    const std::string own = directory + "/" + std::to_string(run);
    cold_process.push_back(spawn_child(config, own, status));
    if (status != 10) throw kiln::Error(kiln::ErrorCode::internal, "the cold child did not compile");
    warm_process.push_back(spawn_child(config, own, status));
    if (status != 11)
      throw kiln::Error(kiln::ErrorCode::internal, "the warm child did not hit the disk cache");

    start = Clock::now();
    for (int i = 0; i < 100; ++i) runtime.compile(source);
    memory_hit.push_back(ms_since(start) / 100);
  }
  const Phase phases[] = {
      {"generate (config text to source)", median(generation), 5},
      {"config to cubin, cold, first in the process", cold.front(), 1000},
      {"config to cubin, cold, median", median(cold), 1000},
      {"config to cubin, cold, new process", median(cold_process), 1000},
      {"warm hit on disk, new process, start to exit", median(warm_process), 20},
      {"hit in memory", median(memory_hit), 1},
  };
  bool met = true;
  fmt::print("{} ({} bytes of source, {} runs)\n", source.manifest.name, source.text.size(), runs);
  for (const Phase& phase : phases) {
    const bool ok = phase.ms <= phase.limit_ms;
    met = met && ok;
    fmt::print("  {:<46} {:>9.3f} ms  limit {:>6.0f}  {}\n", phase.name, phase.ms, phase.limit_ms,
               ok ? "ok" : "MISSED");
  }
  return met ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 4 && std::strcmp(argv[1], "--child") == 0) return child(argv[2], argv[3]);
    const bool with_runs = argc == 4 && std::strcmp(argv[2], "--runs") == 0;
    if (argc != 2 && !with_runs) {
      fmt::print(stderr, "usage: kiln_bench_jit CONFIG.json [--runs N]\n");
      return 2;
    }
    return bench(argv[1], with_runs ? std::clamp(std::atoi(argv[3]), 1, 1000) : 5);
  } catch (const kiln::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.code() == kiln::ErrorCode::environment ? 3 : 2;
  }
}
