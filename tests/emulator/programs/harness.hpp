// Ordinary CUDA C++ programs on the emulated device: compiled with the toolkit's nvcc at test time, run under
// every policy; results must be right and nothing may be found.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>

namespace programs {

using kiln::emulator::Dim3;

/// Device memory and launches of one run of a program.
class Session {
 public:
  Session(const kiln::emulator::Module& module, kiln::emulator::Policy policy, std::uint64_t seed)
      : module_(module), policy_(policy), seed_(seed) {}

  template <typename T>
  std::uint64_t put(const std::vector<T>& values) {
    const std::uint64_t address = memory_.allocate(values.size() * sizeof(T));
    memory_.write(address, std::as_bytes(std::span(values)));
    return address;
  }
  /// Memory that reads as never written until a kernel writes it.
  template <typename T>
  std::uint64_t empty(std::size_t count) {
    return memory_.allocate(count * sizeof(T));
  }
  template <typename T>
  std::uint64_t zeros(std::size_t count) {
    return put(std::vector<T>(count));
  }
  template <typename T>
  std::vector<T> get(std::uint64_t address, std::size_t count) const {
    std::vector<T> values(count);
    memory_.read(address, std::as_writable_bytes(std::span(values)));
    return values;
  }

  /// Runs the module's only kernel and checks that it ended with nothing found. Arguments are passed as they
  /// are typed.
  template <typename... Args>
  void launch(Dim3 grid, Dim3 block, Args... args) {
    std::vector<std::vector<std::byte>> packed;
    (packed.push_back(bytes_of(args)), ...);
    run(grid, block, std::move(packed));
  }

  std::uint32_t dynamic_shared_bytes = 0;
  Dim3 cluster;
  std::uint32_t num_sms = 0;  ///< 0: the device's usual number

 private:
  template <typename T>
  static std::vector<std::byte> bytes_of(const T& value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    return {p, p + sizeof value};
  }
  void run(Dim3 grid, Dim3 block, std::vector<std::vector<std::byte>> args);

  kiln::emulator::GlobalMemory memory_;
  const kiln::emulator::Module& module_;
  kiln::emulator::Policy policy_;
  std::uint64_t seed_;
};

/// Compiles `name`.cu beside this file (for sm_100a where it starts with tcgen05, else for sm_90a) and calls `body` once a policy (eager, lazy, two random seeds).
/// Without nvcc: a message and nothing.
void run_program(const std::string& name, const std::function<void(Session&)>& body);

/// Deterministic test data: integers in [0, bound).
std::vector<int> integers(std::size_t count, int bound, std::uint32_t seed = 1);
/// Multiples of 1/8 in [-2, 2): sums of a few thousand are exact in f32.
std::vector<float> eighths(std::size_t count, std::uint32_t seed = 1);

/// Largest absolute difference.
template <typename A, typename B>
double max_difference(const std::vector<A>& got, const std::vector<B>& want) {
  double largest = got.size() == want.size() ? 0 : 1e300;
  for (std::size_t i = 0; i < got.size() && i < want.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    largest = difference == difference ? std::max(largest, difference < 0 ? -difference : difference) : 1e300;
  }
  return largest;
}

}  // namespace programs
