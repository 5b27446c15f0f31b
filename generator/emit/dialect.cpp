#include "generator/emit/dialect.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/ascii.hpp"

namespace kiln {
namespace {

bool is_word(char c) {
  return is_ascii_alnum(c) || c == '_';
}

void replace_words(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    if (at > 0 && (is_word(text[at - 1]) || text[at - 1] == '.')) {
      at += from.size() - to.size();  // step over it
      continue;
    }
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string to_cdna(std::string text, int threads) {
  const std::pair<std::string, std::string> names[] = {
      {"__device__ __forceinline__", "DEVICE"},
      {"#pragma unroll 4", "#pragma clang loop vectorize(disable) unroll_count(4)"},
      {"threadIdx.x", "thread_id()"},
      {"blockIdx.x", "block_id()"},
      {"gridDim.x", fmt::format("(__builtin_amdgcn_grid_size_x() / {}u)", threads)},
      {"__shfl_xor_sync(0xffffffffu, ", "shuffle_xor("},
      {"__shfl_up_sync(0xffffffffu, ", "shuffle_up("},
      {"__shfl_sync(0xffffffffu, ", "broadcast("},  // from a lane that is the same for all
      {"__ballot_sync(0xffffffffu, ", "ballot_low("},
      {"__ffs(", "__builtin_ffs("},
      {"fmaf(", "__builtin_fmaf("},
      {"fmaxf(", "__builtin_fmaxf("},
      {"fminf(", "__builtin_fminf("},
      {"min(", "min_of("},
      {"max(", "max_of("},
  };
  for (const auto& [from, to] : names) replace_words(text, from, to);
  return text;
}

}  // namespace kiln
