#include "emulator/tcgen05/descriptor.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

std::uint32_t field(std::uint32_t bits, int shift, int width) {
  return bits >> shift & ((1u << width) - 1);
}

std::string wrong(const char* name, std::uint32_t value, const std::string& expected) {
  return "instruction descriptor: " + std::string(name) + " = " + std::to_string(value) + ", " + expected;
}

bool element_of(MmaKind kind, std::uint32_t code, Element& out) {
  static constexpr Element kSmall[] = {Element::e4m3, Element::e5m2, Element::e4m3,
                                       Element::e2m3, Element::e3m2, Element::e2m1};
  switch (kind) {
    case MmaKind::f16:
      out = code == 0 ? Element::f16 : Element::bf16;
      return code <= 1;
    case MmaKind::tf32:
      out = Element::tf32;
      return code == 2;
    case MmaKind::i8:
      out = code == 0 ? Element::u8 : Element::s8;
      return code <= 1;
    case MmaKind::f8f6f4:
    case MmaKind::mxf8f6f4:
      if (code > 5 || code == 2) return false;
      out = kSmall[code];
      return true;
    default:
      out = Element::e2m1;
      return code == 1;
  }
}

std::string decode_types(MmaKind kind, std::uint32_t bits, InstructionDescriptor& out) {
  const std::string expected = kind == MmaKind::tf32  ? "must be 2 (tf32)"
                               : kind == MmaKind::f16 ? "must be 0 (f16) or 1 (bf16)"
                               : kind == MmaKind::i8  ? "must be 0 (u8) or 1 (s8)"
                               : is_four_bit(kind)    ? "must be 1 (e2m1)"
                                                   : "must be 0, 1, 3, 4 or 5 (e4m3, e5m2, e2m3, e3m2, e2m1)";
  if (!element_of(kind, field(bits, 7, 3), out.a))
    return wrong("atype (bits 7-9)", field(bits, 7, 3), expected);
  if (!element_of(kind, field(bits, 10, 3), out.b))
    return wrong("btype (bits 10-12)", field(bits, 10, 3), expected);
  return {};
}

/// The type of D.
std::string decode_sums(MmaKind kind, std::uint32_t bits, InstructionDescriptor& out) {
  const std::uint32_t d = field(bits, 4, 2);
  const bool half_sums = kind == MmaKind::f8f6f4 || (kind == MmaKind::f16 && out.a == Element::f16);
  if (kind == MmaKind::i8 ? d != 2 : d != 1 && !(d == 0 && half_sums))
    return wrong("dtype (bits 4-5)", d,
                 kind == MmaKind::i8 ? "must be 2 (s32)"
                 : half_sums         ? "must be 0 (f16) or 1 (f32)"
                                     : "must be 1 (f32)");
  out.d = d == 0 ? Accumulator::f16 : d == 1 ? Accumulator::f32 : Accumulator::s32;
  return {};
}

std::string decode_dense(const MmaShape& shape, std::uint32_t bits, InstructionDescriptor& out) {
  const MmaKind kind = shape.kind;
  if (std::string text = decode_sums(kind, bits, out); !text.empty()) return text;
  if (kind == MmaKind::f16 && out.a != out.b)
    return wrong("btype (bits 10-12)", field(bits, 10, 3), "must be that of A in kind::f16");
  out.saturate = field(bits, 3, 1) != 0;
  if (out.saturate && kind != MmaKind::i8) return wrong("saturate (bit 3)", 1, "kind::i8 alone has it");
  if (field(bits, 23, 1) != 0) return wrong("bit 23", 1, "must be 0");
  if (field(bits, 29, 1) != 0) return wrong("bit 29", 1, "must be 0");
  if (!shape.ws && field(bits, 30, 2) != 0)
    return wrong("maximum shift (bits 30-31)", field(bits, 30, 2), "tcgen05.mma.ws alone has it");
  if (const std::uint32_t code = field(bits, 30, 2); code != 0) out.most_shift = 4u << code;
  if (kind == MmaKind::i8 && (out.negate_a || out.negate_b))
    return wrong("negate (bits 13-14)", field(bits, 13, 2), "integers have no negation");
  return {};
}

std::string decode_scaled(const MmaShape& shape, std::uint32_t bits, InstructionDescriptor& out) {
  out.ue8m0 = field(bits, 23, 1) != 0;
  out.factor_b = field(bits, 4, 2);
  out.factor_a = field(bits, 29, 2);
  if (field(bits, 3, 1) != 0) return wrong("bit 3", 1, "must be 0");
  if (!out.ue8m0 && shape.kind != MmaKind::mxf4nvf4)
    return wrong("scale type (bit 23)", 0, "must be 1 (ue8m0) in this kind");
  if (!out.ue8m0 && shape.factors != 4)
    return wrong("scale type (bit 23)", 0, "ue4m3 needs four scales a row (block16, scale_vec::4X)");
  if (field(bits, 31, 1) != 0) return wrong("K size (bit 31)", 1, "must be 0: sm_100a has no K = 96");
  if (is_four_bit(shape.kind) && (out.mn_major_a || out.mn_major_b))
    return wrong("major (bits 15-16)", field(bits, 15, 2), "4-bit kinds are K-major");
  for (const auto& [id, name] : {std::pair{out.factor_a, "scale A id (bits 29-30)"},
                                 std::pair{out.factor_b, "scale B id (bits 4-5)"}}) {
    if (shape.factors == 4 && id != 0) return wrong(name, id, "must be 0 with four scales a row");
    if (shape.factors == 2 && id % 2 != 0) return wrong(name, id, "must be 0 or 2 with two scales a row");
  }
  return {};
}

/// The step of N, and its least value (PTX ISA, table of shapes).
std::pair<int, int> steps_of_n(const MmaShape& shape, const InstructionDescriptor& d) {
  const bool pair = shape.group == 2;
  if (shape.kind == MmaKind::i8) return pair ? std::pair{32, 32} : std::pair{d.n <= 32 ? 8 : 16, 8};
  int step = pair ? 16 : d.m == 64 || is_block_scaled(shape.kind) ? 8 : 16;
  if (bits_of(d.b) < 16 && d.mn_major_b) step = pair ? 32 : 16;
  return {step, step};
}

/// Valid M and N of an instruction.
std::string check_shape(const MmaShape& shape, const InstructionDescriptor& d) {
  const auto m = static_cast<std::uint32_t>(d.m), n = static_cast<std::uint32_t>(d.n);
  if (shape.ws) {
    if (d.m != 32 && d.m != 64 && d.m != 128)
      return wrong("M (bits 24-28)", m, "must be 32, 64 or 128 with .ws");
    return d.n == 64 || d.n == 128 || d.n == 256
               ? ""
               : wrong("N (bits 17-22)", n, "must be 64, 128 or 256 with .ws");
  }
  const int large = 128 * shape.group, small = is_block_scaled(shape.kind) && shape.sparse       ? large
                                               : shape.group == 2 || is_block_scaled(shape.kind) ? 128
                                                                                                 : 64;
  if (d.m != small && d.m != large)
    return wrong("M (bits 24-28)", m,
                 "must be " + std::to_string(small) + (small == large ? "" : " or " + std::to_string(large)) +
                     " with cta_group::" + std::to_string(shape.group));
  const auto [step, least] = steps_of_n(shape, d);
  if (d.n >= least && d.n <= 256 && d.n % step == 0) return {};
  return wrong("N (bits 17-22)", n,
               "must be a multiple of " + std::to_string(step) + " from " + std::to_string(least) +
                   " to 256 for this M, kind and major");
}

}  // namespace

const char* name_of(MmaKind kind) {
  static constexpr const char* kNames[] = {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"};
  return kNames[static_cast<std::size_t>(kind)];
}

int k_of(MmaKind kind) {
  return kind == MmaKind::f16 ? 16 : kind == MmaKind::tf32 ? 8 : is_four_bit(kind) ? 64 : 32;
}

std::string decode_instruction(const MmaShape& shape, std::uint32_t bits, InstructionDescriptor& out) {
  out = {};
  out.m = static_cast<int>(field(bits, 24, 5)) << 4;
  out.n = static_cast<int>(field(bits, 17, 6)) << 3;
  out.negate_a = field(bits, 13, 1) != 0;
  out.negate_b = field(bits, 14, 1) != 0;
  out.mn_major_a = field(bits, 15, 1) != 0;
  out.mn_major_b = field(bits, 16, 1) != 0;
  out.selector = field(bits, 0, 2);
  const bool selects = shape.sparse && (shape.kind == MmaKind::f16 || shape.kind == MmaKind::tf32);
  if (out.selector > (selects ? 1u : 0u))
    return wrong("sparsity selector (bits 0-1)", out.selector,
                 selects        ? "must be 0 or 1"
                 : shape.sparse ? "must be 0 in this kind"
                                : "must be 0 without .sp");
  if ((field(bits, 2, 1) != 0) != shape.sparse)
    return wrong("sparsity (bit 2)", field(bits, 2, 1),
                 shape.sparse ? "must be 1 with .sp" : "must be 0 without .sp");
  if (field(bits, 6, 1) != 0) return wrong("bit 6", 1, "must be 0");
  if (std::string text = decode_types(shape.kind, bits, out); !text.empty()) return text;
  std::string text =
      is_block_scaled(shape.kind) ? decode_scaled(shape, bits, out) : decode_dense(shape, bits, out);
  if (!text.empty()) return text;
  if ((out.mn_major_a && is_narrow(out.a)) || (out.mn_major_b && is_narrow(out.b)))
    return wrong("major (bits 15-16)", field(bits, 15, 2), "4- and 6-bit types are K-major");
  if (out.mn_major_a && shape.a_in_tensor_memory)
    return wrong("A major (bit 15)", 1, "A in tensor memory is K-major");
  return check_shape(shape, out);
}

std::string decode_matrix(std::uint64_t bits, MatrixDescriptor& out) {
  const auto part = [&](int shift, int width) {
    return static_cast<std::uint32_t>(bits >> shift & ((std::uint64_t{1} << width) - 1));
  };
  out.start = part(0, 14) << 4;
  out.leading_offset = part(16, 14) << 4;
  out.stride_offset = part(32, 14) << 4;
  out.base_offset = part(49, 3);
  static constexpr SmemSwizzle kModes[8] = {SmemSwizzle::none, SmemSwizzle::b128_atom32, SmemSwizzle::b128,
                                            SmemSwizzle::none, SmemSwizzle::b64,         SmemSwizzle::none,
                                            SmemSwizzle::b32,  SmemSwizzle::none};
  const std::uint32_t mode = part(61, 3);
  out.swizzle = kModes[mode];
  const auto problem = [](const std::string& text) { return "matrix descriptor: " + text; };
  if (part(14, 2) != 0 || part(30, 2) != 0) return problem("bits 14-15 and 30-31 must be 0");
  if (part(46, 3) != 1) return problem("bits 46-48 = " + std::to_string(part(46, 3)) + ", must be 1");
  if (part(52, 1) != 0) return problem("leading dimension mode (bit 52) = 1, sm_100a has only 0");
  if (part(53, 8) != 0) return problem("bits 53-60 must be 0");
  if (mode == 3 || mode == 5 || mode == 7)
    return problem("swizzle (bits 61-63) = " + std::to_string(mode) +
                   ", must be 0, 1 (128B, 32B atoms), 2 (128B), 4 (64B) or 6 (32B)");
  return {};
}

std::string check_matrix(const MatrixDescriptor& d, Element type, bool mn_major, std::uint32_t row_bytes) {
  if (!mn_major && d.swizzle == SmemSwizzle::b32 && row_bytes > 32)
    return "matrix descriptor: the 64 bytes of K of a sparse product do not fit swizzle 6 (32B)";
  const bool atoms32 = d.swizzle == SmemSwizzle::b128_atom32;
  if (mn_major && type == Element::tf32 && !atoms32)
    return "matrix descriptor: MN-major tf32 needs swizzle 1 (128B with 32B atoms)";
  if (atoms32 && !(mn_major && type == Element::tf32))
    return "matrix descriptor: swizzle 1 (128B with 32B atoms) is for MN-major tf32 only";
  return {};
}

}  // namespace kiln::emulator::tcgen05
