// The tensors of a launch as plain values: where they are, and everything else by which a launch is known
// again. Nothing here allocates: it is made anew for every launch.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>

#include <kiln/runtime.hpp>

namespace kiln {

/// Members of AttentionArgs that are tensors.
enum class Operand : std::uint8_t {
  q,
  k,
  v,
  o,
  lse,
  cu_seqlens_q,
  cu_seqlens_k,
  page_table,
  seqlens_k,
  q_scale,
  k_scale,
  v_scale,
  sink,
  mask_bits,
  k_rope,
  captured_0,
  captured_1,
  captured_2,
  captured_3,
  first_keys,
  kv_factors,
  query_ends
};
inline constexpr std::size_t kCaptured = std::tuple_size_v<decltype(AttentionArgs::captured)>;
inline constexpr std::size_t kOperands = static_cast<std::size_t>(Operand::query_ends) + 1;
static_assert(static_cast<std::size_t>(Operand::first_keys) ==
              static_cast<std::size_t>(Operand::captured_0) + kCaptured);
constexpr Operand captured_operand(std::size_t i) {
  return static_cast<Operand>(static_cast<std::size_t>(Operand::captured_0) + i);
}

class LaunchKey {
 public:
  /// Types, shapes and strides (null: dense), and of the address what the rules ask for: that there is
  /// memory, and its alignment. False where the tensor is none that a launch could take.
  bool add_tensor(Operand operand, DType dtype, std::span<const std::int64_t> shape,
                  const std::int64_t* strides, std::uint64_t address) {
    const std::size_t rank = shape.size();
    if (rank > kMaxRank) return false;
    add(static_cast<std::int64_t>(operand) << 32 | static_cast<std::int64_t>(dtype) << 24 |
        static_cast<std::int64_t>(rank) << 16 | (address == 0 ? 256 : 0) |
        static_cast<std::int64_t>(address % 16));
    for (const std::int64_t extent : shape) add(extent);
    if (strides != nullptr) {
      for (std::size_t i = 0; i < rank; ++i) add(strides[i]);
      return true;
    }
    count_ += rank;
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      words_[count_ - 1 - i] = stride;
      if (__builtin_mul_overflow(stride, shape[rank - 1 - i] > 0 ? shape[rank - 1 - i] : 1, &stride))
        return false;
    }
    return true;
  }
  void add(std::int64_t word) { words_[count_++] = word; }

  bool operator==(const LaunchKey& other) const {
    return count_ == other.count_ &&
           std::memcmp(words_.data(), other.words_.data(), count_ * sizeof words_[0]) == 0;
  }
  LaunchKey() = default;
  LaunchKey(const LaunchKey& other) { *this = other; }
  LaunchKey& operator=(const LaunchKey& other) {
    count_ = other.count_;
    std::memcpy(words_.data(), other.words_.data(), count_ * sizeof words_[0]);
    return *this;
  }

 private:
  static constexpr std::size_t kMaxRank = 4, kOptions = 8;
  std::array<std::int64_t, kOperands*(1 + 2 * kMaxRank) + kOptions> words_;  // `count_` of them are set
  std::size_t count_ = 0;
};

/// One launch: addresses by operand, 0 for what is not given, and the key of the rest.
struct FlatLaunch {
  std::array<std::uint64_t, kOperands> addresses{};
  LaunchKey key;
  bool known = true;  ///< false: no key could be made

  /// Numbers of AttentionArgs; `scale` is null where there is none.
  void add_numbers(std::int64_t max_seqlen_q, std::int64_t max_seqlen_k, const double* scale,
                   const AttentionArgs::Window& window) {
    key.add(max_seqlen_q);
    key.add(max_seqlen_k);
    key.add(scale != nullptr ? std::bit_cast<std::int64_t>(*scale) : std::int64_t{-1});  // the bits of a NaN
    if (window == AttentionArgs::Window{}) return;
    for (const std::int64_t side : {window.left, window.right, window.chunk}) key.add(side);
  }
};

}  // namespace kiln
