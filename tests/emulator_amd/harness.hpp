// Compiles HIP programs for the emulated AMD device, and runs them under every completion policy.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <kiln/emulator/amdgcn.hpp>

namespace amd_test {

namespace emu = kiln::emulator;
namespace amd = kiln::emulator::amdgcn;

inline const std::vector<std::string> kTargets = {"gfx90a", "gfx942", "gfx950"};

/// Whether clang and LLVM are there; if not, says so once (tests then have nothing to do).
bool toolchain();

/// The code object (or, with `assembly`, the assembly text) of tests/amd_programs/<name>.hip, after the
/// common prelude.
std::vector<std::byte> compile_program(const std::string& name, const std::string& target,
                                       bool assembly = false);
/// The program's source with the prelude.
std::string program_source(const std::string& name);
/// The same for source text.
std::vector<std::byte> compile_text(const std::string& source, const std::string& target,
                                    bool assembly = false, const std::string& options = "");
/// The code object of a whole assembly file.
std::vector<std::byte> assemble(const std::string& text, const std::string& target);
/// Assembles instructions into a kernel `k(global u32* in, global u32* out)` of 64 lanes; s[0:1] points to
/// the arguments' values: in = s[2:3], out = s[4:5], lane = v0.
amd::Module kernel_from_assembly(const std::string& body, const std::string& target, int lds_bytes = 4096);

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}
template <class T>
std::vector<std::byte> arg(T value) {
  std::vector<std::byte> out(sizeof(T));
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

/// Global memory with typed helpers.
struct Device {
  emu::GlobalMemory memory;
  template <class T>
  std::uint64_t upload(const std::vector<T>& values, const std::string& name) {
    const auto bytes = bytes_of(values);
    const std::uint64_t at = memory.allocate(bytes.size(), name);
    memory.write(at, bytes);
    return at;
  }
  template <class T>
  std::uint64_t reserve(std::size_t count, const std::string& name) {
    return memory.allocate(count * sizeof(T), name);
  }
  template <class T>
  std::vector<T> download(std::uint64_t at, std::size_t count) {
    std::vector<std::byte> bytes(count * sizeof(T));
    memory.read(at, bytes);
    std::vector<T> out(count);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
};

struct Way {
  emu::Policy policy;
  std::uint64_t seed;
  const char* name;
};
inline constexpr Way kWays[] = {{emu::Policy::eager, 0, "eager"},
                                {emu::Policy::lazy, 0, "lazy"},
                                {emu::Policy::random, 1, "random 1"},
                                {emu::Policy::random, 2, "random 2"}};

std::string describe(const emu::Report& report);
bool has_finding(const emu::Report& report, const std::string& kind);

/// Compiles the program for every target and runs `body` under every policy; `body` uploads, launches through
/// the given function and checks results. Findings fail the test.
using Run =
    std::function<emu::Report(emu::Dim3 grid, emu::Dim3 block, std::vector<std::vector<std::byte>> args)>;
void each_way(const std::string& program, const std::vector<std::string>& targets,
              const std::function<void(Device&, const Run&, const std::string& target)>& body);

/// A launch by its essentials.
inline amd::Launch launch_of(emu::Dim3 grid, emu::Dim3 block, std::vector<std::vector<std::byte>> args) {
  amd::Launch l;
  l.grid = grid;
  l.block = block;
  l.args = std::move(args);
  return l;
}

/// Deterministic numbers.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  float unit() { return static_cast<float>(next() % 65536) / 32768.0F - 1.0F; }

 private:
  std::uint64_t state_;
};

}  // namespace amd_test
