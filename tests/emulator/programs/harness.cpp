#include "tests/emulator/programs/harness.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <thread>

namespace programs {

namespace {

namespace fs = std::filesystem;
using kiln::emulator::Policy;

/// nvcc of CUDA_HOME, of the usual place, or of the PATH; empty if there is none that runs.
std::string find_nvcc() {
  std::vector<std::string> candidates;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) candidates.push_back(std::string(home) + "/bin/nvcc");
  }
  candidates.insert(candidates.end(), {"/usr/local/cuda/bin/nvcc", "nvcc"});
  for (const std::string& candidate : candidates) {
    if (std::system(("'" + candidate + "' --version > /dev/null 2>&1").c_str()) == 0) return candidate;
  }
  return {};
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Compiled {
  std::string ptx, log;
};

/// All programs, compiled once in parallel; empty without a compiler.
const std::map<std::string, Compiled>& compiled_programs() {
  static const std::map<std::string, Compiled> all = [] {
    std::map<std::string, Compiled> programs;
    const std::string nvcc = find_nvcc();
    if (nvcc.empty()) return programs;
    const fs::path scratch = fs::path(KILN_BINARY_DIR) / "emulator_programs";
    fs::create_directories(scratch);
    std::vector<fs::path> sources;
    for (const auto& entry : fs::directory_iterator(fs::path(KILN_SOURCE_DIR) / "tests/emulator/programs")) {
      if (entry.path().extension() == ".cu") sources.push_back(entry.path());
    }
    for (const fs::path& source : sources) programs[source.stem().string()];
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      workers.emplace_back([&] {
        for (std::size_t at = next++; at < sources.size(); at = next++) {
          const std::string name = sources[at].stem().string();
          const fs::path ptx = scratch / (name + ".ptx"), log = scratch / (name + ".log");
          fs::remove(ptx);
          const std::string command =
              fmt::format("'{}' -arch={} -std=c++17 -lineinfo -ptx -o '{}' '{}' > '{}' 2>&1", nvcc,
                          name.starts_with("tcgen05") ? "sm_100a" : "sm_90a", ptx.string(),
                          sources[at].string(), log.string());
          const int status = std::system(command.c_str());
          Compiled& compiled = programs.find(name)->second;
          compiled.log = read_file(log);
          if (status == 0) compiled.ptx = read_file(ptx);
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    return programs;
  }();
  return all;
}

}  // namespace

void Session::run(Dim3 grid, Dim3 block, std::vector<std::vector<std::byte>> args) {
  kiln::emulator::Launch launch;
  launch.grid = grid;
  launch.block = block;
  launch.cluster = cluster;
  if (num_sms != 0) launch.num_sms = num_sms;
  launch.dynamic_smem_bytes = dynamic_shared_bytes;
  launch.args = std::move(args);
  launch.policy = policy_;
  launch.seed = seed_;
  launch.instruction_budget = 200'000'000;
  const kiln::emulator::Report report = kiln::emulator::launch(memory_, module_, launch);
  CHECK(report.completed);
  for (const auto& finding : report.findings) {
    FAIL_CHECK(fmt::format("{}:{}: {}: {} (block {}, warp {}, lane {}; {}; other party: line {}, {})",
                           finding.site.source_file, finding.site.source_line, finding.kind, finding.message,
                           finding.site.block.x, finding.site.warp, finding.site.lane, finding.site.ptx_text,
                           finding.other.source_line, finding.other.ptx_text));
  }
}

void run_program(const std::string& name, const std::function<void(Session&)>& body) {
  const auto& all = compiled_programs();
  if (all.empty()) {
    MESSAGE("no nvcc (CUDA_HOME, /usr/local/cuda, PATH): " << name << " is not run");
    return;
  }
  const auto found = all.find(name);
  REQUIRE_MESSAGE(found != all.end(), name << ".cu is missing");
  REQUIRE_MESSAGE(!found->second.ptx.empty(), found->second.log);
  std::optional<kiln::emulator::Module> module;
  try {
    module = kiln::emulator::Module::from_ptx(found->second.ptx, name);
  } catch (const kiln::emulator::Error& error) {
    FAIL(name << ".ptx:" << error.line() << ": " << error.what());
  }
  struct Run {
    std::string name;
    Policy policy;
    std::uint64_t seed;
  };
  for (const Run& run : {Run{"eager", Policy::eager, 0}, Run{"lazy", Policy::lazy, 0},
                         Run{"random 1", Policy::random, 1}, Run{"random 2", Policy::random, 2}}) {
    INFO(name << " under " << run.name);
    Session session(*module, run.policy, run.seed);
    try {
      body(session);
    } catch (const kiln::emulator::Error& error) {
      FAIL_CHECK(error.what() << " (line " << error.line() << ")");
    }
  }
}

std::vector<int> integers(std::size_t count, int bound, std::uint32_t seed) {
  std::vector<int> values(count);
  std::uint32_t state = seed * 2654435761u + 12345;
  for (int& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<int>((state >> 8) % static_cast<std::uint32_t>(bound));
  }
  return values;
}

std::vector<float> eighths(std::size_t count, std::uint32_t seed) {
  std::vector<float> values;
  for (const int value : integers(count, 32, seed)) values.push_back(static_cast<float>(value - 16) / 8);
  return values;
}

}  // namespace programs
