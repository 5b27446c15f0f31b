// The conformance suite: small PTX kernels, one per instruction form, with inputs derived from fixed seeds.
// The same cases run on a GPU (bench/conformance, which records what they produce) and on the emulated device
// (conformance.cpp, which compares). Depends on the standard library and on the declaration of tensor maps
// only, so the recorder builds anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulator/tensor/tma.hpp"

namespace conformance {

/// How an output may differ from the recording. `exact` compares bytes; the others compare elements of a
/// format, each within absolute + relative * |recorded|, NaN matching any NaN and infinities themselves.
struct Bound {
  enum class Kind : std::uint8_t { exact, f16, bf16, f32, f64 };
  Kind kind = Kind::exact;
  double absolute = 0, relative = 0;
};

struct Case {
  std::string name;    ///< unique; families are separated by '/'
  std::string kernel;  ///< text of one .entry named ENTRY with parameters (in, out[, map])
  unsigned threads = 256;
  unsigned dynamic_shared_bytes = 0;
  std::vector<std::uint8_t> input;
  std::vector<std::uint8_t>
      output;  ///< what the output buffer holds before the launch; its size is the output's
  /// A third parameter: a tensor map whose address counts from the start of the input (or output) buffer.
  std::optional<kiln::emulator::TensorMapRequest> map;
  bool map_on_output = false;
  Bound bound;
};

/// First lines of a module that holds kernels of the suite.
inline constexpr const char* kModuleHeader = ".version 8.7\n.target sm_90a\n.address_size 64\n";
/// The kernel with its entry named.
std::string kernel_text(const Case& c, const std::string& entry);
/// Changes whenever anything that could change the output does: a recording made for another hash is stale.
std::uint64_t case_hash(const Case& c);
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0xcbf29ce484222325ull);

/// Every case, in a fixed order.
std::vector<Case> all_cases();

// The families, one file each.
void add_conversions(std::vector<Case>& cases);
void add_float_arithmetic(std::vector<Case>& cases);
void add_integer_arithmetic(std::vector<Case>& cases);
void add_warp_forms(std::vector<Case>& cases);
void add_atomics(std::vector<Case>& cases);
void add_matrix_forms(std::vector<Case>& cases);
void add_wgmma_forms(std::vector<Case>& cases);
void add_tensor_copies(std::vector<Case>& cases);

}  // namespace conformance
