// The PTX forms of tcgen05: every spelling of them, and nothing that ptxas refuses for sm_100a.
#include <algorithm>

#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/tcgen05/decode.hpp"
#include "emulator/tcgen05/unit.hpp"

namespace kiln::emulator::tcgen05 {

using ptx::Decoder;
using ptx::Operand;
using ptx::Space;

AddressPart address_part(Decoder& d, std::size_t operand) {
  const auto a = d.address(d.operand(operand), Space::shared);
  if (a.size != 4) d.fail("an address of tensor memory has 32 bits in");
  return {a.ref, 4, a.offset};
}

void only(const Decoder& d, std::initializer_list<std::string_view> modifiers) {
  for (const auto m : d.in->modifiers)
    if (std::find(modifiers.begin(), modifiers.end(), m) == modifiers.end() ||
        std::count(d.in->modifiers.begin(), d.in->modifiers.end(), m) != 1)
      d.fail("unexpected ." + std::string(m) + " in");
}

void need(const Decoder& d, std::initializer_list<std::string_view> modifiers) {
  for (const auto m : modifiers)
    if (!d.has(m)) d.fail("missing ." + std::string(m) + " in");
}

void count_operands(const Decoder& d, std::size_t least, std::size_t most) {
  if (d.operands() < least) d.fail("too few operands of");
  if (d.operands() > most) d.fail("too many operands of");
}

int group_of(const Decoder& d) {
  const bool one = d.has("cta_group::1"), two = d.has("cta_group::2");
  if (one == two) d.fail("one .cta_group is needed in");
  int& known = const_cast<Decoder&>(d).program.tcgen05_group;
  if (known != 0 && known != (two ? 2 : 1)) d.fail("a kernel uses one .cta_group, and this is another, in");
  known = two ? 2 : 1;
  return known;
}

Op& emit(Decoder& d, Handler run) {
  d.program.uses_tcgen05 = true;
  return d.emit(run, Kind::tensor);
}

namespace {

void decode_alloc(Decoder& d) {
  only(d, {"alloc", "cta_group::1", "cta_group::2", "sync", "aligned", "shared::cta", "b32"});
  need(d, {"sync", "aligned", "b32"});
  count_operands(d, 2, 2);
  const int group = group_of(d);
  const Space space = d.has("shared::cta") ? Space::shared : Space::generic;
  const auto a = d.address(d.operand(0), space);
  const Operand& n = d.operand(1);
  if (n.kind == Operand::Kind::integer && (n.value < 32 || n.value > 512 || (n.value & (n.value - 1)) != 0))
    d.fail("the number of columns must be 32, 64, 128, 256 or 512 in");
  const Ref columns = d.src(n, 4);
  Op& op = emit(d, run_alloc);
  op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset,
  op.c = static_cast<Ref>(space);
  op.b = columns, op.flags = static_cast<std::uint16_t>(group == 2 ? 2 : 0);
}

void decode_dealloc(Decoder& d) {
  only(d, {"dealloc", "cta_group::1", "cta_group::2", "sync", "aligned", "b32"});
  need(d, {"sync", "aligned", "b32"});
  count_operands(d, 2, 2);
  const int group = group_of(d);
  const Operand& n = d.operand(1);
  if (n.kind == Operand::Kind::integer && (n.value < 32 || n.value > 512 || (n.value & (n.value - 1)) != 0))
    d.fail("the number of columns must be 32, 64, 128, 256 or 512 in");
  const Ref address = d.src(d.operand(0), 4), columns = d.src(n, 4);
  Op& op = emit(d, run_dealloc);
  op.a = address, op.b = columns, op.flags = static_cast<std::uint16_t>(group == 2 ? 2 : 0);
}

void decode_relinquish(Decoder& d) {
  only(d, {"relinquish_alloc_permit", "cta_group::1", "cta_group::2", "sync", "aligned"});
  need(d, {"sync", "aligned"});
  count_operands(d, 0, 0);
  (void)group_of(d);
  emit(d, run_relinquish);
}

bool fragment_of(const Decoder& d, Fragment& f) {
  static constexpr std::string_view kShapes[] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"};
  static constexpr std::string_view kCounts[] = {"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"};
  int shapes = 0, counts = 0;
  for (const auto m : d.in->modifiers) {
    if (const auto* s = std::find(std::begin(kShapes), std::end(kShapes), m); s != std::end(kShapes)) {
      f.shape = static_cast<Shape>(s - kShapes);
      ++shapes;
    }
    if (const auto* c = std::find(std::begin(kCounts), std::end(kCounts), m); c != std::end(kCounts)) {
      f.count = 1 << (c - kCounts);
      ++counts;
    }
  }
  return shapes == 1 && counts == 1 && f.registers() <= 128;
}

/// What .red does, and nothing that ptxas refuses of it.
std::optional<Reduction> reduction_of(const Decoder& d, const Fragment& f) {
  if (!d.has("red")) return std::nullopt;
  if (const std::string& target = d.module.target; target.starts_with("sm_100"))
    d.fail("target " + target + " has no");
  const auto of = [&](std::initializer_list<std::string_view> names) {
    return std::count_if(names.begin(), names.end(), [&](std::string_view name) { return d.has(name); });
  };
  if (of({"min", "max"}) != 1) d.fail("one of .min and .max is needed in");
  if (of({"f32", "u32", "s32"}) != 1) d.fail("one of .f32, .u32 and .s32 is needed in");
  if (f.count < 2 || (f.shape != Shape::s32x32b && f.shape != Shape::s16x32bx2)) d.fail("no such shape of");
  const Reduction r{d.has("f32")   ? Reduction::Type::f32
                    : d.has("u32") ? Reduction::Type::u32
                                   : Reduction::Type::s32,
                    d.has("max"), d.has("abs"), d.has("NaN")};
  if ((r.abs || r.nan) && r.type != Reduction::Type::f32) d.fail("of integers there are no .abs and .NaN in");
  return r;
}

void check_transfer(const Decoder& d) {
  const bool reduces =
      d.in->modifiers.size() > 1 && d.in->modifiers[0] == "ld" && d.in->modifiers[1] == "red";
  if (reduces)
    only(d, {"ld",  "red", "sync", "aligned", "32x32b", "16x32bx2", "x2",  "x4",  "x8",  "x16",
             "x32", "x64", "x128", "min",     "max",    "abs",      "NaN", "f32", "u32", "s32"});
  else
    only(d, {"ld", "st", "sync", "aligned", "32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2", "x1", "x2",
             "x4", "x8", "x16", "x32", "x64", "x128", d.has("ld") ? "pack::16b" : "unpack::16b", "b32"});
  need(d, {"sync", "aligned"});
  if (!reduces) need(d, {"b32"});
}

std::uint32_t split_of(const Decoder& d, const Operand& o) {
  if (o.kind != Operand::Kind::integer) d.fail("the split offset must be an integer constant in");
  return static_cast<std::uint32_t>(o.value);
}

/// The fragment's registers, then that of a reduction, which is a load's second operand.
std::vector<Ref> transfer_registers(Decoder& d, const TransferForm& form, const Operand& value, bool load) {
  std::vector<Ref> refs;
  const auto add = [&](const Operand& o) {
    const bool sink = o.kind == Operand::Kind::sink;
    if (sink && form.reduction) d.fail("no result may be discarded in");
    refs.push_back(load ? d.dst(o, sink ? 0 : 4) : d.src(o, 4));
  };
  if (value.kind != Operand::Kind::vector) d.fail("expected registers in { } in");
  for (const Operand& o : value.items) add(o);
  if (static_cast<int>(refs.size()) != form.fragment.registers()) d.fail("wrong number of registers in");
  if (form.reduction) add(d.operand(1));
  return refs;
}

void decode_transfer(Decoder& d) {
  check_transfer(d);
  TransferForm form;
  Fragment& f = form.fragment;
  if (!fragment_of(d, f)) d.fail("no such shape of");
  f.packed = d.has("pack::16b") || d.has("unpack::16b");
  form.reduction = reduction_of(d, f);
  const bool split = f.shape == Shape::s16x32bx2, load = !d.has("st");
  const std::size_t results = load ? form.reduction ? 2 : 1 : 0;  // the address follows them
  const std::size_t operands = 2 + (split ? 1u : 0u) + (form.reduction ? 1u : 0u);
  count_operands(d, operands, operands);
  if (split) f.split = split_of(d, d.operand(results + 1));
  const std::vector<Ref> refs = transfer_registers(d, form, d.operand(load ? 0 : split ? 2 : 1), load);
  const AddressPart a = address_part(d, results);
  const std::uint32_t at = d.list(refs);
  Op& op = emit(d, load ? run_load : run_store);
  op.use = load ? Use::load : Use::store;
  op.a = a.ref, op.asize = a.size, op.imm = a.offset, op.target = at;
  op.aux = d.own(form);
}

void decode_wait(Decoder& d) {
  only(d, {"wait::ld", "wait::st", "sync", "aligned"});
  need(d, {"sync", "aligned"});
  count_operands(d, 0, 0);
  emit(d, run_wait).flags = d.has("wait::st");
}

void decode_fence(Decoder& d) {
  only(d, {"fence::before_thread_sync", "fence::after_thread_sync"});
  count_operands(d, 0, 0);
  // It only tells the compiler something: no instruction comes of it.
  d.emit([](Warp&, const Op&) {}, Kind::fence);
}

void decode_copy(Decoder& d) {
  using Name = CopyShape::Name;
  struct Row {
    std::string_view shape, spread;
    Name name;
  };
  static constexpr Row kRows[] = {{"128x256b", "", Name::r128x256b},
                                  {"4x256b", "", Name::r4x256b},
                                  {"128x128b", "", Name::r128x128b},
                                  {"64x128b", "warpx2::02_13", Name::r64x128b_02_13},
                                  {"64x128b", "warpx2::01_23", Name::r64x128b_01_23},
                                  {"32x128b", "warpx4", Name::r32x128b_x4}};
  only(d, {"cp", "cta_group::1", "cta_group::2", "128x256b", "4x256b", "128x128b", "64x128b", "32x128b",
           "warpx2::02_13", "warpx2::01_23", "warpx4", "b8x16.b6x16_p32", "b8x16", "b6x16_p32", "b4x16_p64"});
  count_operands(d, 2, 2);
  CopyForm f;
  f.group = group_of(d);
  const auto spreads = static_cast<int>(d.has("warpx2::02_13")) + static_cast<int>(d.has("warpx2::01_23")) +
                       static_cast<int>(d.has("warpx4"));
  int found = 0;
  for (const Row& r : kRows)
    if (d.has(r.shape) && (r.spread.empty() ? spreads == 0 : spreads == 1 && d.has(r.spread))) {
      f.shape.name = r.name;
      ++found;
    }
  if (found != 1) d.fail("no such shape of");
  const bool four = d.has("b4x16_p64"), six = d.has("b6x16_p32");
  if ((four && six) || (four || six) != d.has("b8x16")) d.fail("no such conversion of");
  f.shape.expand = four ? 4 : six ? 6 : 0;
  f.to = address_part(d, 0);
  f.descriptor = d.src(d.operand(1), 8);
  emit(d, run_copy).aux = d.own(f);
}

void decode_shift(Decoder& d) {
  only(d, {"shift", "cta_group::1", "cta_group::2", "down"});
  need(d, {"down"});
  count_operands(d, 1, 1);
  ShiftForm f;
  f.group = group_of(d);
  f.at = address_part(d, 0);
  emit(d, run_shift).aux = d.own(f);
}

void decode_commit(Decoder& d) {
  only(d, {"commit", "cta_group::1", "cta_group::2", "mbarrier::arrive::one", "shared::cluster",
           "multicast::cluster", "b64"});
  need(d, {"mbarrier::arrive::one", "b64"});
  CommitForm f;
  f.group = group_of(d);
  f.multicast = d.has("multicast::cluster");
  f.shared_space = d.has("shared::cluster");
  count_operands(d, f.multicast ? 2 : 1, f.multicast ? 2 : 1);
  const auto a = d.address(d.operand(0), f.shared_space ? Space::shared : Space::generic);
  f.mbarrier = {a.ref, static_cast<std::uint8_t>(a.size), a.offset};
  if (f.multicast) {
    if (d.size_of_register(d.operand(1), 2) != 2) d.fail("the mask of CTAs has 16 bits in");
    f.mask = d.src(d.operand(1), 2);
  }
  emit(d, run_commit).aux = d.own(f);
}

void decode_tcgen05(Decoder& d) {
  struct Row {
    std::string_view name;
    ptx::DecodeFn decode;
  };
  static constexpr Row kRows[] = {{"mma", decode_product},
                                  {"ld", decode_transfer},
                                  {"st", decode_transfer},
                                  {"wait::ld", decode_wait},
                                  {"wait::st", decode_wait},
                                  {"commit", decode_commit},
                                  {"cp", decode_copy},
                                  {"fence::before_thread_sync", decode_fence},
                                  {"fence::after_thread_sync", decode_fence},
                                  {"alloc", decode_alloc},
                                  {"dealloc", decode_dealloc},
                                  {"relinquish_alloc_permit", decode_relinquish},
                                  {"shift", decode_shift}};
  const std::string& target = d.module.target;
  if (target.starts_with("sm_") && (target.size() < 7 || target.substr(3, 2) != "10"))
    d.fail("target " + target + " has no");
  for (const Row& r : kRows)
    if (!d.in->modifiers.empty() && d.in->modifiers[0] == r.name) return r.decode(d);
  d.unsupported();
}

}  // namespace

}  // namespace kiln::emulator::tcgen05

namespace kiln::emulator::ptx {
std::vector<DecodeEntry> tcgen05_table() {
  return {{"tcgen05", tcgen05::decode_tcgen05}, {"clusterlaunchcontrol", tcgen05::decode_launch_control}};
}
}  // namespace kiln::emulator::ptx
