// See atomics.hpp.
#include "emulator/amdgcn/memory/atomics.hpp"

#include <algorithm>

#include "emulator/amdgcn/ops/ops.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {
namespace {

template <class T>
T read(std::uint64_t bits) {
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<T>(bits);
  else
    return std::bit_cast<T>(static_cast<std::uint32_t>(bits));
}
template <class T>
std::uint64_t write(T value) {
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<std::uint64_t>(value);
  else
    return std::bit_cast<std::uint32_t>(value);
}

template <class U, class S, class F>
std::uint64_t typed(Atomic op, std::uint64_t old_bits, std::uint64_t data_bits, std::uint64_t other_bits) {
  const U old = read<U>(old_bits), data = read<U>(data_bits), other = read<U>(other_bits);
  const S so = static_cast<S>(old), sd = static_cast<S>(data);
  const F fo = read<F>(old_bits), fd = read<F>(data_bits);
  switch (op) {
    case Atomic::swap:
      return data;
    case Atomic::cmpswap:
      return old == data ? other : old;
    case Atomic::add:
      return static_cast<U>(old + data);
    case Atomic::sub:
      return static_cast<U>(old - data);
    case Atomic::rsub:
      return static_cast<U>(data - old);
    case Atomic::smin:
      return so < sd ? old : data;
    case Atomic::umin:
      return std::min(old, data);
    case Atomic::smax:
      return so > sd ? old : data;
    case Atomic::umax:
      return std::max(old, data);
    case Atomic::and_:
      return old & data;
    case Atomic::or_:
      return old | data;
    case Atomic::xor_:
      return old ^ data;
    case Atomic::inc:
      return old >= data ? 0 : old + 1;
    case Atomic::dec:
      return old == 0 || old > data ? data : old - 1;
    case Atomic::mskor:
      return (old & ~data) | other;
    case Atomic::wrap:
      return old >= data ? static_cast<U>(old - data) : static_cast<U>(old + other);
    case Atomic::fadd:
      return write<F>(fo + fd);
    case Atomic::fmin:
      return write<F>(min_num(fo, fd));
    case Atomic::fmax:
      return write<F>(max_num(fo, fd));
    case Atomic::fcmpswap:
      return fo == fd ? other : old;
    case Atomic::pk_add_f16:
    case Atomic::pk_add_bf16:
      break;
  }
  std::uint64_t result = 0;
  for (int h = 0; h < 2; ++h) {
    const auto a = static_cast<std::uint16_t>(old_bits >> 16 * h),
               b = static_cast<std::uint16_t>(data_bits >> 16 * h);
    const std::uint16_t sum = op == Atomic::pk_add_f16 ? f32_to_f16(f16_to_f32(a) + f16_to_f32(b))
                                                       : f32_to_bf16(bf16_to_f32(a) + bf16_to_f32(b));
    result |= std::uint64_t{sum} << 16 * h;
  }
  return result;
}

}  // namespace

std::uint64_t apply(Atomic op, int bytes, std::uint64_t old, std::uint64_t data, std::uint64_t other) {
  return bytes == 8 ? typed<std::uint64_t, std::int64_t, double>(op, old, data, other)
                    : typed<std::uint32_t, std::int32_t, float>(op, old, data, other);
}

}  // namespace kiln::emulator::amdgcn
