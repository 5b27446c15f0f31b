// How instructions see and change the registers of a wave: operand modifiers, SDWA, DPP, EXEC masking, output
// modifiers, and which lanes of a register are defined.
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/amdgcn/machine/machine.hpp"

namespace kiln::emulator::amdgcn {
namespace {

/// For each lane the lane that DPP reads, or -1 where there is none.
/// The lane of its row, or of its four, that `lane` reads under control `c`; -1: none.
int dpp_source_in_row(int c, int lane) {
  const int n = c & 15, row = lane & ~15, in_row = lane & 15;
  switch (c & ~15) {
    case 0x100:
      return in_row + n < 16 ? lane + n : -1;
    case 0x110:
      return in_row - n >= 0 ? lane - n : -1;
    case 0x120:
      return row | ((in_row - n) & 15);
    case 0x150:
      return row | n;
    default:
      return c <= 0xff ? (lane & ~3) | (c >> 2 * (lane & 3) & 3) : -1;
  }
}

/// The same over the wave, and mirrors.
int dpp_source(int c, int lane) {
  switch (c) {
    case 0x100:
    case 0x110:
    case 0x120:
      return -1;
    case 0x130:
      return lane < 63 ? lane + 1 : -1;
    case 0x134:
      return (lane + 1) & 63;
    case 0x138:
      return lane > 0 ? lane - 1 : -1;
    case 0x13c:
      return (lane - 1) & 63;
    case 0x140:
      return lane ^ 15;
    case 0x141:
      return lane ^ 7;
    case 0x142:
      return lane >= 16 ? (lane & ~15) - 1 : -1;
    case 0x143:
      return lane >= 32 ? 31 : -1;
    default:
      return dpp_source_in_row(c, lane);
  }
}

void dpp_lanes(const Modifiers& m, std::int8_t (&from)[kLanes]) {
  for (int lane = 0; lane < kLanes; ++lane)
    from[lane] = static_cast<std::int8_t>(dpp_source(m.dpp_ctrl, lane));
}

/// Lanes of which DPP changes the destination: enabled by the row and bank masks, and with a valid source
/// unless bound_ctrl makes invalid ones read 0.
std::uint64_t dpp_enabled(const Modifiers& m, std::uint64_t exec) {
  std::int8_t from[kLanes];
  dpp_lanes(m, from);
  std::uint64_t mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const bool in_masks = (m.row_mask >> (lane / 16) & 1) && (m.bank_mask >> (lane / 4 % 4) & 1);
    const bool valid = from[lane] >= 0 && (exec >> from[lane] & 1);
    if (in_masks && (valid || m.bound_ctrl)) mask |= std::uint64_t{1} << lane;
  }
  return mask;
}

std::uint32_t select(std::uint32_t x, Select s, bool sext) {
  switch (s) {
    case Select::dword:
      return x;
    case Select::word0:
    case Select::word1: {
      const std::uint32_t w = s == Select::word1 ? x >> 16 : x & 0xffff;
      return sext ? static_cast<std::uint32_t>(static_cast<std::int16_t>(w)) : w;
    }
    default: {
      const std::uint32_t b = x >> 8 * (static_cast<int>(s) - static_cast<int>(Select::byte0)) & 0xff;
      return sext ? static_cast<std::uint32_t>(static_cast<std::int8_t>(b)) : b;
    }
  }
}

/// The bit that neg and abs work on, for the given dword of the operand.
std::uint32_t sign_bit(Num num, int dword) {
  switch (num) {
    case Num::f16:
      return 0x8000;
    case Num::f64:
      return dword == 1 ? 0x80000000U : 0;
    default:
      return 0x80000000U;
  }
}

}  // namespace

std::uint32_t Wave::scalar32(const Operand& o) const {
  switch (o.kind) {
    case Operand::Kind::sgpr:
      return s[o.reg];
    case Operand::Kind::literal:
      return static_cast<std::uint32_t>(o.literal);
    case Operand::Kind::scc:
      return scc;
    case Operand::Kind::vccz:
      return s64(kVcc) == 0;
    case Operand::Kind::execz:
      return exec() == 0;
    case Operand::Kind::shared_base:
    case Operand::Kind::shared_limit:
    case Operand::Kind::private_base:
    case Operand::Kind::private_limit:
      return static_cast<std::uint32_t>(scalar64(o));
    default:
      return 0;  // no scalar: "off", or an operand that is not there
  }
}

std::uint64_t Wave::scalar64(const Operand& o) const {
  switch (o.kind) {
    case Operand::Kind::sgpr:
      return o.dwords == 1 ? s[o.reg] : s64(o.reg);
    case Operand::Kind::literal:
      return o.literal;
    case Operand::Kind::shared_base:
      return kSharedAperture;
    case Operand::Kind::shared_limit:
      return kSharedAperture | 0xffffffffU;
    case Operand::Kind::private_base:
      return kPrivateAperture;
    case Operand::Kind::private_limit:
      return kPrivateAperture | 0xffffffffU;
    default:
      return scalar32(o);
  }
}

void Wave::set_scalar32(const Operand& o, std::uint32_t value) {
  if (o.kind == Operand::Kind::sgpr) set_s(o.reg, value);
}
void Wave::set_scalar64(const Operand& o, std::uint64_t value) {
  if (o.kind == Operand::Kind::sgpr) set_s64(o.reg, value);
}

bool Wave::scalar_defined(const Operand& o) const {
  if (o.kind != Operand::Kind::sgpr) return true;
  for (int i = 0; i < o.dwords; ++i) {
    if (!s_is_defined(o.reg + i)) return false;
  }
  return true;
}

View Wave::raw(const Operand& o, int dword, Lanes& buffer) const {
  if (o.kind == Operand::Kind::vgpr) {
    const int reg = o.reg + (o.dwords > 1 ? dword : 0);
    return {v[static_cast<std::size_t>(reg)].l, defined[reg]};
  }
  std::uint32_t value;
  std::uint64_t def = kAllLanes;
  if (o.kind == Operand::Kind::sgpr) {
    const int reg = o.reg + (o.dwords > 1 ? dword : 0);
    value = o.dwords == 1 && dword == 1 ? 0 : s[reg];
    def = s_is_defined(reg) ? kAllLanes : 0;
  } else {
    const std::uint64_t wide = scalar64(o);
    value = static_cast<std::uint32_t>(dword == 0 ? wide : wide >> 32);
  }
  for (std::uint32_t& x : buffer.l) x = value;
  return {buffer.l, def};
}

View Wave::source(const Inst& in, int i, Lanes& buffer, int dword) const {
  const Operand& o = in.ops[static_cast<std::size_t>(i)];
  const Modifiers& m = in.mod;
  const View plain = raw(o, dword, buffer);
  const bool dpp = m.dpp && i == 1, sdwa = m.sdwa && i <= 2;
  if (!o.neg && !o.abs && !dpp && !sdwa) return plain;
  Lanes out;
  std::uint64_t def = plain.defined;
  if (dpp) {
    std::int8_t from[kLanes];
    dpp_lanes(m, from);
    const std::uint64_t active = exec();
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::int8_t f = from[lane];  // below 0: no lane
      const bool valid = f >= 0 && (active >> f & 1);
      out.l[lane] = valid ? plain.l[f] : 0;
      const bool ok = !valid || (plain.defined >> f & 1);
      def = (def & ~(std::uint64_t{1} << lane)) | std::uint64_t{ok} << lane;
    }
  } else {
    std::memcpy(out.l, plain.l, sizeof out.l);
  }
  if (sdwa) {
    const Select sel = i == 1 ? m.src0_sel : m.src1_sel;
    if (sel != Select::dword || o.sext) {
      for (std::uint32_t& x : out.l) x = select(x, sel, o.sext);
    }
  }
  const std::uint32_t sign = sign_bit(in.num, dword);
  if (o.abs) {
    for (std::uint32_t& x : out.l) x &= ~sign;
  }
  if (o.neg) {
    for (std::uint32_t& x : out.l) x ^= sign;
  }
  buffer = out;
  return {buffer.l, def};
}

std::uint64_t Wave::write_mask(const Inst& in) const {
  const std::uint64_t e = exec();
  return in.mod.dpp ? e & dpp_enabled(in.mod, e) : e;
}

void Wave::put(const Inst& in, int i, const Lanes& value, std::uint64_t value_defined, int dword) {
  const Operand& o = in.ops[static_cast<std::size_t>(i)];
  const auto reg = static_cast<std::size_t>(o.reg + dword);
  std::uint32_t* out = v[reg].l;
  const std::uint64_t mask = write_mask(in);
  if (in.mod.sdwa && in.mod.dst_sel != Select::dword) {
    const Modifiers& m = in.mod;
    const bool word = m.dst_sel >= Select::word0;
    const int shift = word ? 16 * (static_cast<int>(m.dst_sel) - static_cast<int>(Select::word0))
                           : 8 * (static_cast<int>(m.dst_sel) - static_cast<int>(Select::byte0));
    const int bits = word ? 16 : 8;
    const std::uint32_t field = ((1U << bits) - 1) << shift;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!(mask >> lane & 1)) continue;
      const std::uint32_t placed = value.l[lane] << shift & field;
      std::uint32_t rest = m.preserve ? out[lane] & ~field : 0;
      if (m.sext_pad && (value.l[lane] >> (bits - 1) & 1)) rest = ~((field - 1) | field);
      out[lane] = placed | rest;
    }
  } else if (mask == kAllLanes) {
    std::memcpy(out, value.l, sizeof value.l);
  } else {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (mask >> lane & 1) out[lane] = value.l[lane];
    }
  }
  defined[reg] = (defined[reg] & ~mask) | (value_defined & mask);
}

void Wave::put_f32(const Inst& in, int i, Lanes& value, std::uint64_t value_defined, int dword) {
  if (in.mod.omod != 0 || in.mod.clamp) {
    const float factor = in.mod.omod == 1 ? 2.0F : in.mod.omod == 2 ? 4.0F : in.mod.omod == 3 ? 0.5F : 1.0F;
    for (std::uint32_t& x : value.l) {
      float f = std::bit_cast<float>(x) * factor;
      if (in.mod.clamp) f = f > 0 ? (f < 1 ? f : 1.0F) : 0.0F;  // NaN clamps to 0 (DX10_CLAMP)
      x = std::bit_cast<std::uint32_t>(f);
    }
  }
  put(in, i, value, value_defined, dword);
}

void Wave::put_f64(const Inst& in, int i, Lanes& low, Lanes& high, std::uint64_t value_defined) {
  if (in.mod.omod != 0 || in.mod.clamp) {
    const double factor = in.mod.omod == 1 ? 2.0 : in.mod.omod == 2 ? 4.0 : in.mod.omod == 3 ? 0.5 : 1.0;
    for (int lane = 0; lane < kLanes; ++lane) {
      double f = std::bit_cast<double>(low.l[lane] | std::uint64_t{high.l[lane]} << 32) * factor;
      if (in.mod.clamp) f = f > 0 ? (f < 1 ? f : 1.0) : 0.0;
      const auto bits = std::bit_cast<std::uint64_t>(f);
      low.l[lane] = static_cast<std::uint32_t>(bits);
      high.l[lane] = static_cast<std::uint32_t>(bits >> 32);
    }
  }
  put(in, i, low, value_defined, 0);
  put(in, i, high, value_defined, 1);
}

}  // namespace kiln::emulator::amdgcn
