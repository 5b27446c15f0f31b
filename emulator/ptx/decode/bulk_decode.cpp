// Bulk and tensor copies as instructions, and their groups.
#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/bulk.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/decode/reduction.hpp"
#include "emulator/ptx/decode/target.hpp"

namespace kiln::emulator::ptx {
namespace {

// --- bulk groups: of the executing thread ---
void run_bulk_commit(Warp& w, const Op&) {
  each_lane(w, [&](int l) { ++w.bulk_group[static_cast<std::size_t>(l)]; });
}
void run_bulk_wait(Warp& w, const Op& op) {
  retire_groups(w, static_cast<std::uint32_t>(Unit::bulk_store), op.imm, w.bulk_group.data());
  if (op.flags == 0)  // not .read
    retire_groups(w, static_cast<std::uint32_t>(Unit::bulk_write), op.imm, w.bulk_group.data());
  Cluster& c = *w.block->cluster;
  for (std::size_t i = 0; i < c.bulk.size();) {
    BulkCopy& b = c.bulk[i];
    const bool mine =
        b.kind == BulkCopy::Kind::store && b.warp == &w && (w.exec >> b.lane & 1) != 0 &&
        static_cast<std::int64_t>(b.group) + op.imm < static_cast<std::int64_t>(w.bulk_group[b.lane]);
    if (!mine) {
      ++i;
    } else if (op.flags != 0) {  // .read: the source may be reused, the writes stay late
      read_bulk_source(b);
      ++i;
    } else {
      complete_bulk(c, i);
    }
  }
}

Bulk::Part part_of(Decoder& d, const Operand& o, Space s) {
  const auto a = d.address(o, s);
  return {a.ref, a.size, a.offset};
}

void decode_reduction(Decoder& d, Bulk& b) {
  const int op = d.which({"add", "min", "max", "inc", "dec", "and", "or", "xor"});
  if (op < 0 || (b.to_shared && !b.from_shared_cta)) d.unsupported();
  b.reduce_op = static_cast<ReduceOp>(op);
  if (b.tensor) return;
  b.type = reduced_type(d);
  if (!reduce_supported(b.reduce_op, b.type) || (b.to_shared && is_floating(b.type))) d.unsupported();
}

/// [map, {coordinates}]
Bulk::Part tensor_part(Decoder& d, Bulk& b, const Operand& o) {
  if (o.kind != Operand::Kind::address || o.items.size() != 2 || o.items[1].kind != Operand::Kind::vector)
    d.fail("expected [map, {coordinates}] in");
  Operand base = o;
  base.items.resize(1);
  for (const Operand& c : o.items[1].items) b.coordinates.push_back(d.src(c, 4));
  if (static_cast<int>(b.coordinates.size()) != (b.rows4 ? 5 : b.rank))
    d.fail("wrong number of coordinates in");
  return part_of(d, base, Space::param);
}

/// Offsets of an im2col copy: one for each dimension of an image; of im2col::w the halo and the offset along W.
void im2col_offsets(Decoder& d, Bulk& b, const Operand& o) {
  const bool vector = o.kind == Operand::Kind::vector;
  for (const Operand& item : vector ? o.items : std::vector<Operand>{o}) b.offsets.push_back(d.src(item, 2));
  if (static_cast<int>(b.offsets.size()) != (is_wide(b.mode) ? 2 : b.rank - 2))
    d.fail("wrong number of im2col offsets in");
}

TensorMapMode mode_of(const Decoder& d, int rank) {
  static constexpr TensorMapMode kModes[] = {TensorMapMode::im2col, TensorMapMode::im2col,
                                             TensorMapMode::im2col_w, TensorMapMode::im2col_w128};
  const int which = d.which({"im2col", "im2col_no_offs", "im2col::w", "im2col::w::128"});
  if (which < 0) return TensorMapMode::tiled;
  const TensorMapMode mode = kModes[which];
  if (rank < 3) d.unsupported();
  if (is_wide(mode) && before_sm100(d)) d.fail("target " + d.module.target + " has no im2col::w of");
  return mode;
}

/// The kind of copy, from the modifiers.
Bulk form_of(Decoder& d) {
  Bulk b;
  b.rows4 = d.has("tile::gather4") || d.has("tile::scatter4"), b.pair = d.has("cta_group::2");
  b.tensor = d.has("tensor");
  b.prefetch = d.has("prefetch"), b.reduce = d.in->opcode == "cp" && d.has("reduce");
  b.multicast = d.has("multicast::cluster");
  const int rank = d.which({"1d", "2d", "3d", "4d", "5d"});
  b.rank = rank + 1;
  if (b.tensor && rank < 0) d.unsupported();
  b.mode = mode_of(d, b.rank);
  if (b.prefetch) return b;
  std::vector<std::string_view> spaces;
  for (const auto m : d.in->modifiers)
    if (m == "global" || m == "shared::cta" || m == "shared::cluster") spaces.push_back(m);
  if (spaces.size() != 2) d.unsupported();
  b.to_shared = spaces[0] != "global";
  b.dst_cluster = spaces[0] == "shared::cluster";
  b.from_shared_cta = b.to_shared && spaces[1] == "shared::cta";
  if ((d.has("im2col") || is_wide(b.mode)) && !b.to_shared) d.unsupported();
  if (b.reduce) decode_reduction(d, b);
  return b;
}

void decode_copy(Decoder& d) {
  if (d.has("cp_mask")) d.unsupported();
  Bulk b = form_of(d);
  if (b.prefetch) {
    if (is_wide(b.mode)) {
      b.src = tensor_part(d, b, d.operand(0));
      im2col_offsets(d, b, d.operand(1));
    }
    d.emit(run_bulk, Kind::bulk_copy).aux = d.own(b);
    return;
  }
  std::size_t i = 0;
  const Operand& to = d.operand(i++);
  const Operand& from = d.operand(i++);
  b.dst = b.tensor && !b.to_shared ? tensor_part(d, b, to)
                                   : part_of(d, to, b.to_shared ? Space::shared : Space::global);
  b.src = b.tensor && b.to_shared
              ? tensor_part(d, b, from)
              : part_of(d, from, b.to_shared && !b.from_shared_cta ? Space::global : Space::shared);
  if (!b.tensor) b.bytes = d.src(d.operand(i++), 4);
  if (b.to_shared) b.mbar = part_of(d, d.operand(i++), Space::shared);
  if (d.has("im2col") || is_wide(b.mode)) im2col_offsets(d, b, d.operand(i++));
  if (b.multicast) {
    b.mask_size = d.size_of_register(d.operand(i), 2);
    b.mask = d.src(d.operand(i++), b.mask_size);
  }
  d.emit(run_bulk, Kind::bulk_copy).aux = d.own(b);
}

}  // namespace

TensorType reduced_type(const Decoder& d) {
  switch (d.last_type()) {
    case Type::u32:
    case Type::b32:
      return TensorType::u32;
    case Type::s32:
      return TensorType::s32;
    case Type::u64:
    case Type::b64:
      return TensorType::u64;
    case Type::s64:
      return TensorType::s64;
    case Type::f16:
      return TensorType::f16;
    case Type::bf16:
      return TensorType::bf16;
    case Type::f32:
      return TensorType::f32;
    case Type::f64:
      return TensorType::f64;
    default:
      d.unsupported();
  }
}

void decode_bulk(Decoder& d) {
  if (d.has("commit_group")) {
    d.emit(run_bulk_commit, Kind::bulk_copy);
  } else if (d.has("wait_group")) {
    Op& op = d.emit(run_bulk_wait, Kind::bulk_copy);
    op.imm = d.operand(0).value;
    op.flags = d.has("read");
  } else {
    decode_copy(d);
  }
}

}  // namespace kiln::emulator::ptx
