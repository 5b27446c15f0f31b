#include "emulator/tcgen05/reduction.hpp"

#include <algorithm>

#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

std::uint32_t pick(const Reduction& r, std::uint32_t a, std::uint32_t b) {
  switch (r.type) {
    case Reduction::Type::f32:
      return static_cast<std::uint32_t>(float_extreme(FloatFormat::f32, r.max, a, b, {.nan = r.nan}));
    case Reduction::Type::u32:
      return r.max ? std::max(a, b) : std::min(a, b);
    case Reduction::Type::s32:
      break;
  }
  const auto sa = static_cast<std::int32_t>(a), sb = static_cast<std::int32_t>(b);
  return static_cast<std::uint32_t>(r.max ? std::max(sa, sb) : std::min(sa, sb));
}

}  // namespace

std::uint32_t reduce(const Reduction& r, const std::uint32_t* const* registers, int count, int thread) {
  const auto value = [&](int i) { return r.abs ? registers[i][thread] & 0x7fffffffu : registers[i][thread]; };
  // The first is compared with itself, which makes its NaN canonical.
  std::uint32_t result = value(0);
  for (int i = 0; i < count; ++i) result = pick(r, result, value(i));
  return result;
}

}  // namespace kiln::emulator::tcgen05
