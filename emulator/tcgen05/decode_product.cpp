// The PTX forms of tcgen05.mma.
#include <algorithm>

#include "emulator/tcgen05/decode.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

using ptx::Decoder;
using ptx::Operand;

MmaKind kind_of(const Decoder& d) {
  const int kind = d.which({"kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8", "kind::mxf8f6f4",
                            "kind::mxf4", "kind::mxf4nvf4"});
  if (kind < 0) d.fail("a .kind is needed in");
  return static_cast<MmaKind>(kind);
}

/// Scales of a row in one instruction.
int factors_of(const Decoder& d, MmaKind kind) {
  const bool one = d.has("scale_vec::1X"), two = d.has("scale_vec::2X"), four = d.has("scale_vec::4X");
  const bool b32 = d.has("block32"), b16 = d.has("block16");
  if (static_cast<int>(one) + static_cast<int>(two) + static_cast<int>(four) + static_cast<int>(b32) +
          static_cast<int>(b16) >
      1)
    d.fail("more than one size of scaled blocks in");
  switch (kind) {
    case MmaKind::mxf8f6f4:
      if (two || four || b16) d.fail("the blocks must be scale_vec::1X or block32 in");
      return 1;
    case MmaKind::mxf4:
      if (one || four || b16) d.fail("the blocks must be scale_vec::2X or block32 in");
      return 2;
    default:
      if (one || !(two || four || b16 || b32))
        d.fail("the blocks must be scale_vec::2X, scale_vec::4X, block32 or block16 in");
      return four || b16 ? 4 : 2;
  }
}

/// The collector's buffer and what is done with it.
void collector_of(const Decoder& d, ProductForm& f) {
  static constexpr std::string_view kUses[] = {"discard", "fill", "use", "lastuse"};
  int found = 0;
  for (const auto m : d.in->modifiers) {
    if (!m.starts_with("collector::")) continue;
    const std::string_view rest = m.substr(11);
    const bool b = rest.size() > 2 && rest[0] == 'b';
    const std::size_t colons = rest.find("::");
    if (b != f.shape.ws || colons == std::string_view::npos || colons != (b ? 2u : 1u) ||
        (b ? rest[1] < '0' || rest[1] > '3' : rest[0] != 'a'))
      d.fail("no such collector in");
    f.buffer = b ? static_cast<std::uint32_t>(rest[1] - '0') + 1 : 0;
    const std::string_view use = rest.substr(colons + 2);
    bool known = false;
    for (std::size_t i = 0; i < 4; ++i)
      if (kUses[i] == use) {
        f.collector = static_cast<Collector>(i);
        known = true;
      }
    if (!known || ++found > 1) d.fail("no such use of the collector in");
  }
}

void check_row_shift(const Decoder& d, const ProductForm& f) {
  if (!f.shift) return;
  if (is_block_scaled(f.shape.kind) || f.shape.ws || !f.shape.a_in_tensor_memory)
    d.fail(".ashift is for A in tensor memory, without block scaling and .ws, not for");
  if (f.collector == Collector::fill || f.collector == Collector::use)
    d.fail(".ashift and a collector that keeps A exclude each other in");
}

void check_modifiers(const Decoder& d, const ProductForm& f) {
  const bool scaled = is_block_scaled(f.shape.kind);
  const auto known = [&](std::string_view m) {
    static constexpr std::string_view kGeneral[] = {"mma",          "ws",           "sp",
                                                    "cta_group::1", "cta_group::2", "ashift"};
    static constexpr std::string_view kScaled[] = {"block_scale", "block32", "block16"};
    if (m.starts_with("kind::") || m.starts_with("collector::")) return true;
    if (scaled && (m.starts_with("scale_vec::") ||
                   std::find(std::begin(kScaled), std::end(kScaled), m) != std::end(kScaled)))
      return true;
    return std::find(std::begin(kGeneral), std::end(kGeneral), m) != std::end(kGeneral);
  };
  for (const auto m : d.in->modifiers)
    if (!known(m)) d.fail("unexpected ." + std::string(m) + " in");
  if (scaled && !d.has("block_scale")) d.fail("missing .block_scale in");
  if (f.shape.ws && (f.shape.group == 2 || scaled))
    d.fail(scaled ? ".ws has no block scaling in" : ".ws has no cta_group::2 in");
  check_row_shift(d, f);
  if (f.shape.kind == MmaKind::i8 && d.module.target.starts_with("sm_103"))
    d.fail("sm_103 has no kind::i8 of");
}

/// The predicate that says whether D is added to.
void predicate_of(Decoder& d, std::size_t at, ProductForm& f) {
  Operand o = d.operand(at);
  f.predicate_negated = o.negated;
  o.negated = false;
  if (o.kind == Operand::Kind::integer) {
    f.predicate = d.constant(o.value != 0 ? 1 : 0, 3);
    return;
  }
  f.predicate = d.src(o, 3);
}

/// What follows the instruction descriptor.
void trailing(Decoder& d, ProductForm& f, std::size_t i) {
  if (is_block_scaled(f.shape.kind)) {
    count_operands(d, i + 3, i + 3);
    f.scale_a = address_part(d, i++);
    f.scale_b = address_part(d, i++);
    return predicate_of(d, i, f);
  }
  if (f.shape.ws) {
    count_operands(d, i + 1, i + 2);
    predicate_of(d, i++, f);
    if (i < d.operands()) f.zero_mask = d.src(d.operand(i), 8);
    return;
  }
  if (i < d.operands() && d.operand(i).kind == Operand::Kind::vector) {
    for (const Operand& o : d.operand(i).items) f.disabled.push_back(d.src(o, 4));
    if (f.disabled.size() != (f.shape.group == 2 ? 8u : 4u))
      d.fail("wrong number of words in the lane mask of");
    ++i;
  }
  count_operands(d, i + 1, i + 2);
  predicate_of(d, i++, f);
  if (i == d.operands()) return;
  const Operand& scale = d.operand(i);
  if (f.shape.kind != MmaKind::f16 && f.shape.kind != MmaKind::tf32)
    d.fail("scale-input-d is for kind::f16 and kind::tf32, not for");
  if (scale.kind != Operand::Kind::integer || scale.value < 0 || scale.value > 15)
    d.fail("scale-input-d must be an integer from 0 to 15 in");
  f.scale_d = static_cast<int>(scale.value);
}

}  // namespace

void decode_product(Decoder& d) {
  ProductForm f;
  f.shape.ws = d.has("ws");
  f.shape.sparse = d.has("sp");
  f.shape.kind = kind_of(d);
  f.shape.group = group_of(d);
  f.shape.a_in_tensor_memory = d.operand(1).kind == Operand::Kind::address;
  f.shift = d.has("ashift");
  collector_of(d, f);
  check_modifiers(d, f);
  if (is_block_scaled(f.shape.kind)) f.shape.factors = factors_of(d, f.shape.kind);
  f.d = address_part(d, 0);
  if (f.shape.a_in_tensor_memory)
    f.a = address_part(d, 1);
  else
    f.desc_a = d.src(d.operand(1), 8);
  f.desc_b = d.src(d.operand(2), 8);
  if (f.shape.sparse) f.metadata = address_part(d, 3);
  const std::size_t at = f.shape.sparse ? 4 : 3;
  f.instruction = d.src(d.operand(at), 4);
  trailing(d, f, at + 1);
  emit(d, run_product).aux = d.own(f);
}

}  // namespace kiln::emulator::tcgen05
