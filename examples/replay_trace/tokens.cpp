#include "tokens.hpp"

#include <bit>
#include <cmath>

namespace replay {
namespace {

constexpr std::int64_t kRows = 509;  // a prime, so that strides meet every row

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

TokenRows::TokenRows(std::int64_t heads, std::int64_t depth) : row_(heads * depth) {
  table_.resize(static_cast<std::size_t>(2 * kRows * row_));
  for (std::size_t i = 0; i < table_.size(); ++i) {
    // The sum of four uniform numbers is normal enough.
    const std::uint64_t bits = mix(i);
    float sum = 0;
    for (int part = 0; part < 4; ++part)
      sum += static_cast<float>(bits >> (16 * part) & 0xffff) / 65536.0F - 0.5F;
    table_[i] = static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(sum * 1.7F) + 0x8000) >> 16);
  }
}

std::span<const std::uint16_t> TokenRows::row(std::uint64_t token, int tensor) const {
  const auto pick = static_cast<std::int64_t>(mix(token) % kRows) + (tensor == 1 ? kRows : 0);
  return std::span(table_).subspan(static_cast<std::size_t>(pick * row_), static_cast<std::size_t>(row_));
}

std::uint64_t prompt_token(std::int64_t hash, std::int64_t position) {
  return mix(static_cast<std::uint64_t>(hash)) + static_cast<std::uint64_t>(position);
}
std::uint64_t own_token(std::int64_t request, std::int64_t position) {
  return mix(~static_cast<std::uint64_t>(request)) + static_cast<std::uint64_t>(position);
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace replay
