// What writes to another block's shared memory and signals its mbarrier (st.async, red.async), and what
// changes tensor maps (tensormap).
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/decode/reduction.hpp"
#include "emulator/ptx/decode/target.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

struct RemoteWrite {
  Ref to = kNoRef, mbar = kNoRef;
  int to_size = 4, mbar_size = 4;
  std::int64_t to_offset = 0, mbar_offset = 0;
  std::vector<Ref> values;
  std::uint8_t width = 4;
  bool reduce = false;
  ReduceOp op = ReduceOp::add;
  TensorType type = TensorType::u32;
};

/// Shared address of the cluster; null with a report when it is none, or not aligned.
Block* target(Warp& w, const Op& op, int lane, u64 address, std::uint32_t bytes, std::uint32_t& offset) {
  Block* b = address <= 0xffffffffu ? shared_block(w, address, true) : nullptr;
  offset = static_cast<std::uint32_t>(address) & 0xffffffu;
  if (b == nullptr || offset < kSharedBase || offset + bytes > b->smem.size() - 64) {
    report(w, op, lane, "out-of-bounds",
           "shared address " + std::to_string(address) + " is in no block of the cluster");
    return nullptr;
  }
  if (offset % bytes == 0) return b;
  report(w, op, lane, "misaligned",
         "asynchronous write of " + std::to_string(bytes) + " bytes at shared address " +
             std::to_string(offset));
  return nullptr;
}

/// Whether a write leaves what is there, or what a write under way will leave there.
bool writes_the_same(const Cluster& c, const BulkCopy& b, const Block& to, std::uint32_t offset) {
  if (std::memcmp(to.smem.data() + offset, b.staged.data(), b.bytes) == 0) return true;
  return std::any_of(c.bulk.begin(), c.bulk.end(), [&](const BulkCopy& other) {
    return other.kind == BulkCopy::Kind::value && !other.reduce && other.targets.front() == &to &&
           other.runs.front().shared == offset && other.staged == b.staged;
  });
}

void run_remote(Warp& w, const Op& op) {
  const auto& r = *static_cast<const RemoteWrite*>(op.aux);
  Cluster& c = *w.block->cluster;
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    BulkCopy b;
    b.kind = BulkCopy::Kind::value;
    b.op = &op;
    b.warp = &w;
    b.lane = static_cast<std::uint8_t>(lane);
    b.reduce = r.reduce;
    b.reduce_op = r.op;
    b.type = r.type;
    b.bytes = static_cast<std::uint32_t>(r.width * r.values.size());
    std::uint32_t offset = 0, bar = 0;
    Block* to =
        target(w, op, lane,
               w.value(r.to, static_cast<std::uint8_t>(r.to_size), lane) + static_cast<u64>(r.to_offset),
               b.bytes, offset);
    Block* where = target(
        w, op, lane,
        w.value(r.mbar, static_cast<std::uint8_t>(r.mbar_size), lane) + static_cast<u64>(r.mbar_offset), 8,
        bar);
    if (to == nullptr || where == nullptr) return abort_cluster(c);
    if (to != where) {
      report(w, op, lane, "invalid-mbarrier", "the mbarrier lies in another block than the memory written");
      return abort_cluster(c);
    }
    MBarrier* mbarrier = find_mbarrier(w, op, lane, *where, bar);
    if (mbarrier == nullptr) return abort_cluster(c);
    b.mbarrier = bar;
    b.mbarrier_block = where;
    b.phase = mbarrier->phase;
    b.targets.push_back(to);
    b.runs.push_back({0, offset, b.bytes, false});
    for (const Ref v : r.values) {
      const u64 value = w.value(v, r.width, lane);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
      b.staged.insert(b.staged.end(), bytes, bytes + r.width);
    }
    if (c.races) {
      const std::uint32_t unit =
          r.reduce ? c.races->reduction_unit(w, bar, where->rank) : c.races->load_unit(w, bar, where->rank);
      const std::uint32_t epoch = c.races->begin(w, unit);
      const bool silent = !r.reduce && writes_the_same(c, b, *to, offset);
      c.races->access({w, op, lane, *to, offset, b.bytes, true, unit, epoch, silent});
      b.published = c.races->published(w, lane, unit, epoch);
    }
    b.issued = ++c.issued;
    c.bulk.push_back(std::move(b));
    ++c.progress;
    if (c.policy == Policy::eager) complete_bulk(c, c.bulk.size() - 1);
  }
}

/// `red.async` reduces integers only.
TensorType integer_type(const Decoder& d) {
  const TensorType type = reduced_type(d);
  if (is_floating(type)) d.unsupported();
  return type;
}

void run_replace(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const Place p = locate(w, op, static_cast<Space>(op.e),
                           w.value(op.a, op.asize, lane) + static_cast<u64>(op.imm), 128, lane, Access::read);
    if (p.data == nullptr) return abort_cluster(c);
    if (c.races && p.block != nullptr) c.races->access({w, op, lane, *p.block, p.offset, 128, true});
    if (c.races && p.space == Space::global)
      c.launch->globals->access(w, op, lane, w.value(op.a, op.asize, lane) + static_cast<u64>(op.imm), 128,
                                true);
    const auto value = w.value(op.c, op.csize, lane);
    const auto map = std::span<std::byte, 128>(reinterpret_cast<std::byte*>(p.data), 128);
    if (!replace_tensor_map_field(map, static_cast<TensorMapField>(op.width), op.target, value)) {
      report(w, op, lane, "bad-tensor-map",
             "the 128 bytes are neither a tensor map nor zeros, or the field cannot be " +
                 std::to_string(value));
      return abort_cluster(c);
    }
  }
}

/// tensormap.cp_fenceproxy: the warp publishes a tensor map that it has made in shared memory.
void run_publish_map(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  Cluster& c = *w.block->cluster;
  const int lane = std::countr_zero(w.exec);
  const u64 global = w.value(op.a, op.asize, lane) + static_cast<u64>(op.imm);
  const Place from =
      locate(w, op, Space::shared, w.value(op.b, op.bsize, lane) + op.target, 128, lane, Access::read);
  const Place to = locate(w, op, Space::global, global, 128, lane, Access::write);
  if (from.data == nullptr || to.data == nullptr) return abort_cluster(c);
  if (c.races) {
    ++w.lanes.issue;
    c.races->access({w, op, lane, *from.block, from.offset, 128, false});
    c.launch->globals->access(w, op, lane, global, 128, true, 0, 0,
                              std::memcmp(to.data, from.data, 128) == 0);
    c.races->fence_lanes(w, w.exec);
    c.races->fence(w);
  }
  std::memcpy(to.data, from.data, 128);
  ++c.progress;
}

}  // namespace

void decode_remote_write(Decoder& d) {
  RemoteWrite r;
  r.reduce = d.in->opcode == "red";
  if (!d.has("mbarrier::complete_tx::bytes") || d.operands() != 3) d.unsupported();
  const Type t = d.last_type();
  r.width = static_cast<std::uint8_t>(size_of(t));
  if (r.width != 4 && r.width != 8) d.unsupported();
  if (r.reduce) {
    const int which = d.which({"add", "min", "max", "inc", "dec", "and", "or", "xor"});
    if (which < 0) d.unsupported();
    r.op = static_cast<ReduceOp>(which);
    r.type = integer_type(d);
  }
  const Operand& value = d.operand(1);
  if (value.kind == Operand::Kind::vector)
    for (const Operand& item : value.items) r.values.push_back(d.src(item, r.width));
  else
    r.values.push_back(d.src(value, r.width));
  if (r.values.size() != (d.has("v4") ? 4u : d.has("v2") ? 2u : 1u)) d.fail("vector of the wrong length in");
  const auto to = d.address(d.operand(0), Space::shared), mbar = d.address(d.operand(2), Space::shared);
  r.to = to.ref, r.to_size = to.size, r.to_offset = to.offset;
  r.mbar = mbar.ref, r.mbar_size = mbar.size, r.mbar_offset = mbar.offset;
  d.emit(run_remote, Kind::bulk_copy).aux = d.own(r);
}

namespace {

void decode_publish_map(Decoder& d) {
  if (!d.has("release") || !d.has("sync") || !d.has("aligned") || d.operands() != 3 ||
      d.operand(2).kind != Operand::Kind::integer || d.operand(2).value != 128)
    d.unsupported();
  const auto to = d.address(d.operand(0), Space::global), from = d.address(d.operand(1), Space::shared);
  Op& op = d.emit(run_publish_map, Kind::other);
  op.a = to.ref, op.asize = static_cast<std::uint8_t>(to.size), op.imm = to.offset;
  op.b = from.ref, op.bsize = static_cast<std::uint8_t>(from.size);
  op.target = static_cast<std::uint32_t>(from.offset);
}

/// What ptxas refuses: widths, and the values of fields that are said by numbers alone.
void check_replacement(const Decoder& d, TensorMapField field, int size) {
  const bool wide = field == TensorMapField::global_address || field == TensorMapField::global_stride;
  if (wide != (size == 8)) d.fail("wrong width of the field in");
  if (field == TensorMapField::swizzle_atomicity && before_sm100(d))
    d.fail("target " + d.module.target + " has no swizzle_atomicity of");
  std::int64_t most = 0;
  switch (field) {
    case TensorMapField::elemtype:
      most = 15;
      break;
    case TensorMapField::interleave_layout:
      most = 2;
      break;
    case TensorMapField::swizzle_mode:
    case TensorMapField::swizzle_atomicity:
      most = 3;
      break;
    case TensorMapField::fill_mode:
      most = 1;
      break;
    default:
      return;
  }
  const Operand& value = d.operand(1);
  if (d.operands() != 2 || value.kind != Operand::Kind::integer || value.value < 0 || value.value > most)
    d.fail("the field must be a number from 0 to " + std::to_string(most) + " in");
}

void decode_tensormap(Decoder& d) {
  if (d.has("cp_fenceproxy")) return decode_publish_map(d);
  static constexpr std::string_view kFields[] = {
      "global_address", "rank",           "box_dim",          "global_dim",
      "global_stride",  "element_stride", "elemtype",         "interleave_layout",
      "swizzle_mode",   "fill_mode",      "swizzle_atomicity"};
  int field = -1;
  for (std::size_t i = 0; i < std::size(kFields); ++i)
    if (d.has(kFields[i])) field = static_cast<int>(i);
  if (!d.has("replace") || !d.has("tile") || !d.has("b1024") || field < 0) d.unsupported();
  const bool ordinal = d.operands() == 3;
  const int size = size_of(d.last_type());
  check_replacement(d, static_cast<TensorMapField>(field), size);
  std::string_view name;
  const Space space = d.space_of(name);
  const auto a = d.address(d.operand(0), space);
  if (ordinal && d.operand(1).kind != Operand::Kind::integer) d.fail("the ordinal must be a number in");
  const Ref value = d.src(d.operand(ordinal ? 2 : 1), size);
  Op& op = d.emit(run_replace, Kind::other);
  op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset,
  op.e = static_cast<Ref>(space);
  op.c = value, op.csize = static_cast<std::uint8_t>(size), op.width = static_cast<std::uint8_t>(field);
  op.target = ordinal ? static_cast<std::uint32_t>(d.operand(1).value) : 0;
}

}  // namespace

std::vector<DecodeEntry> remote_table() {
  return {{"tensormap", decode_tensormap}};
}

}  // namespace kiln::emulator::ptx
