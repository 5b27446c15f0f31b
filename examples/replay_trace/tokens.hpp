// Keys and values of a token, by its number alone: tokens of a shared prefix have equal numbers, so equal
// rows, and the check can make any row again. Rows are picks out of a table of random ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace replay {

class TokenRows {
 public:
  TokenRows(std::int64_t heads, std::int64_t depth);
  /// Row of a token for K (tensor 0) or V (1), as BF16, [heads, depth].
  std::span<const std::uint16_t> row(std::uint64_t token, int tensor) const;
  std::int64_t row_elements() const { return row_; }

 private:
  std::int64_t row_;
  std::vector<std::uint16_t> table_;
};

/// Number of the token at `position` in block `hash` of a prompt, or of a request's own tokens.
std::uint64_t prompt_token(std::int64_t hash, std::int64_t position);
std::uint64_t own_token(std::int64_t request, std::int64_t position);

float from_bf16(std::uint16_t bits);

}  // namespace replay
