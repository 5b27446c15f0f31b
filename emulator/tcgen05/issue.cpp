// Issue of tcgen05.mma, cp, shift and commit: operands are read now, memory when the pipe gets there. What the
// instruction will use is judged at issue.
#include <algorithm>
#include <bit>

#include "emulator/machine/trace.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/tcgen05/unit.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

bool refuse(Warp& w, const Op& op, int lane, std::string_view kind, const std::string& text) {
  report(w, op, lane, kind, text);
  abort_cluster(*w.block->cluster);
  return false;
}

std::string show(std::uint64_t v) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  return text;
}

bool read_matrix(Warp& w, const Op& op, int lane, std::uint64_t bits, const char* name, Element type,
                 bool mn_major, std::uint32_t row_bytes = 32) {
  MatrixDescriptor d;
  std::string text = decode_matrix(bits, d);
  if (text.empty()) text = check_matrix(d, type, mn_major, row_bytes);
  return text.empty() || refuse(w, op, lane, "tcgen05-descriptor", name + (" " + show(bits)) + ": " + text);
}

/// What shapes .ashift does not have; empty: it has this one.
std::string check_row_shift(const MmaCall& c) {
  const int most = 128 * c.shape.group;
  if (!c.shift_a || c.i.m == most || (c.shape.group == 2 && !c.shape.sparse)) return {};
  return "M (bits 24-28) = " + std::to_string(c.i.m) + ", must be " + std::to_string(most) + " with .ashift" +
         (c.shape.group == 2 ? " of a sparse pair" : "");
}

/// Reads the operands of a lane; false (reported): the hardware has no such instruction.
bool read_call(Warp& w, const Op& op, int lane, MmaCall& c) {
  const auto& f = *static_cast<const ProductForm*>(op.aux);
  c.shape = f.shape;
  const auto bits = static_cast<std::uint32_t>(w.value(f.instruction, 4, lane));
  if (const std::string text = decode_instruction(f.shape, bits, c.i); !text.empty())
    return refuse(w, op, lane, "tcgen05-descriptor", show(bits) + ": " + text);
  c.d = static_cast<std::uint32_t>(value_of(w, f.d, lane));
  c.accumulate = ((*w.in<std::uint32_t>(f.predicate) >> lane & 1) != 0) != f.predicate_negated;
  c.scale_d = f.scale_d;
  if (f.shape.a_in_tensor_memory)
    c.a = static_cast<std::uint32_t>(value_of(w, f.a, lane));
  else
    c.desc_a = w.value(f.desc_a, 8, lane);
  c.desc_b = w.value(f.desc_b, 8, lane);
  if (f.scale_a.ref != kNoRef) {
    c.scale_a = static_cast<std::uint32_t>(value_of(w, f.scale_a, lane));
    c.scale_b = static_cast<std::uint32_t>(value_of(w, f.scale_b, lane));
  }
  if (f.shape.sparse) c.metadata = static_cast<std::uint32_t>(value_of(w, f.metadata, lane));
  for (std::size_t i = 0; i < f.disabled.size(); ++i)
    c.disabled[i / 4].words[i / 2 % 2] |= w.value(f.disabled[i], 4, lane) << 32 * (i % 2);
  if (f.zero_mask != kNoRef) {
    const std::uint64_t mask = w.value(f.zero_mask, 8, lane);
    if (const std::string text = decode_zero_columns(mask, c.i, c.zero_columns); !text.empty())
      return refuse(w, op, lane, "tcgen05-descriptor", show(mask) + ": " + text);
  }
  c.shift_a = f.shift;
  if (const std::string text = check_row_shift(c); !text.empty())
    return refuse(w, op, lane, "tcgen05-descriptor", show(bits) + ": " + text);
  if (!f.shape.a_in_tensor_memory && !read_matrix(w, op, lane, c.desc_a, "A", c.i.a, c.i.mn_major_a))
    return false;
  if (!read_matrix(w, op, lane, c.desc_b, "B", c.i.b, c.i.mn_major_b, f.shape.sparse ? 64 : 32)) return false;
  if (const std::string text = check_addresses(c); !text.empty())
    return refuse(w, op, lane, "tmem-access", text);
  return true;
}

/// One lane's instruction on its way into the pipe.
struct Issue {
  Warp& warp;
  const Op& op;
  int lane;
  std::vector<Block*> ctas;
  std::uint32_t epoch = 0, issued = 0;

  Party party(Access what, bool write, std::uint32_t form = 0) const {
    Party p;
    p.warp = &warp;
    p.op = &op;
    p.lane = lane;
    p.what = what;
    p.write = write;
    p.epoch = epoch;
    p.issued = issued;
    p.form = form;
    return p;
  }
};

/// Cells must be there, and lie in allocations.
bool check_columns(const Issue& i, const Rectangle& r, const char* what) {
  for (const Block* b : i.ctas)
    for (std::uint32_t c = r.column; c < r.column + r.columns; ++c)
      if (c >= kColumns || cta_of(*b).memory.owner(c) == 0)
        return refuse(i.warp, i.op, i.lane, "tmem-access",
                      std::string(what) + " covers columns " + std::to_string(r.column) + " to " +
                          std::to_string(r.column + r.columns - 1) + "; column " + std::to_string(c) +
                          (c >= kColumns ? " does not exist" : " belongs to no allocation"));
  return true;
}

void check_written(const Issue& i, const Rectangle& r, const char* what) {
  for (const Block* b : i.ctas) {
    Memory& m = cta_of(*b).memory;
    if (m.all_written(r)) continue;
    for (std::uint32_t c = r.column; c < r.column + r.columns; ++c) {
      LaneMask missing = r.lanes;
      missing.remove(m.written(c));
      if (missing.empty()) continue;
      report(i.warp, i.op, i.lane, "tmem-uninitialized",
             std::string(what) + " at lane " + std::to_string(missing.first()) + ", column " +
                 std::to_string(c) + " was never written");
      break;
    }
    m.mark_written(r);  // said once
  }
}

void note_all(const Issue& i, const Rectangle& r, const Party& p) {
  for (const Block* b : i.ctas) note(*b, r, p);
}

/// Bytes of shared memory that the pipe reads.
void note_shared(const Issue& i, Block& b, const std::vector<ByteRange>& ranges, const char* what) {
  RaceTracker& races = *b.cluster->races;
  if (&b != i.warp.block) races.visit(i.warp, i.op, i.lane, b, kPipeUnit, i.epoch);
  for (const ByteRange& r : ranges) {
    if (r.end > b.smem.size() - 64 || r.begin < kSharedBase) {
      report(i.warp, i.op, i.lane, "out-of-bounds",
             std::string(what) + " covers shared bytes " + std::to_string(r.begin) + " to " +
                 std::to_string(r.end) + ", outside the block's shared memory");
      return;
    }
  }
  races.access_ranges({i.warp, i.op, i.lane, b, 0, 0, false, kPipeUnit, i.epoch}, ranges);
  for (const ByteRange& r : ranges)
    if (!std::all_of(b.shadow.data() + r.begin, b.shadow.data() + r.end,
                     [](std::uint8_t s) { return (s & kWrittenBit) != 0; })) {
      report(i.warp, i.op, i.lane, "uninitialized-read",
             std::string(what) + " covers shared bytes " + std::to_string(r.begin) + " to " +
                 std::to_string(r.end) + ", not all of which were written");
      return;
    }
}

std::uint32_t form_of(const MmaCall& c) {
  const auto part = [](int v, int shift) { return static_cast<std::uint32_t>(v) << shift; };
  return part(c.i.m, 0) ^ part(c.i.n, 9) ^ part(static_cast<int>(c.shape.kind), 18) ^
         part(c.shape.group, 22) ^ part(c.shape.ws ? 1 : 0, 24) ^ part(c.shape.sparse ? 1 : 0, 25) ^
         c.d * 2654435761u;
}

bool check_product(const Issue& i, const MmaCall& c) {
  if (!check_columns(i, cells_of_d(c, 0), "D")) return false;
  if (c.shape.a_in_tensor_memory && !check_columns(i, cells_of_a(c), "A")) return false;
  if (c.shape.sparse && !check_columns(i, cells_of_metadata(c), "the metadata of A")) return false;
  return !is_block_scaled(c.shape.kind) || (check_columns(i, cells_of_scales(c, true), "the scales of A") &&
                                            check_columns(i, cells_of_scales(c, false), "the scales of B"));
}

/// The accesses of a product, in the order of reading before writing.
void note_product(const Issue& i, const MmaCall& c) {
  thread_local std::vector<ByteRange> ranges;
  for (Block* b : i.ctas) {
    ranges.clear();
    if (!c.shape.a_in_tensor_memory) {
      matrix_footprint(c.desc_a, extent_of_a(c), ranges);
      note_shared(i, *b, ranges, "A");
      ranges.clear();
    }
    footprint_of_b(c, ranges);
    note_shared(i, *b, ranges, "B");
  }
  const auto read = [&](const Rectangle& r, const char* what) {
    check_written(i, r, what);
    note_all(i, r, i.party(Access::operand, false, form_of(c)));
  };
  if (c.shape.a_in_tensor_memory) read(cells_of_a(c), "A");
  if (c.shape.sparse) read(cells_of_metadata(c), "metadata of A");
  if (is_block_scaled(c.shape.kind)) {
    read(cells_of_scales(c, true), "a scale of A");
    read(cells_of_scales(c, false), "a scale of B");
  }
  const Party p = i.party(Access::accumulator, true, form_of(c));
  for (std::size_t r = 0; r < i.ctas.size(); ++r) {
    const Rectangle d = cells_of_d(c, static_cast<int>(r));
    Issue one = i;
    one.ctas = {i.ctas[r]};
    if (c.accumulate) check_written(one, d, "D, an accumulator,");
    note(*i.ctas[r], d, p);
    cta_of(*i.ctas[r]).memory.mark_written(d);
  }
  if (c.shift_a) note_all(i, cells_of_a(c), i.party(Access::moved, true, form_of(c)));
}

/// Fills in the lane's part of an issue; false (reported): it cannot be.
bool begin(Issue& i, int group) {
  Warp& w = i.warp;
  i.ctas = ctas_of(w, i.op, i.lane, group);
  if (i.ctas.empty()) return false;
  if (RaceTracker* r = w.block->cluster->races.get()) {
    i.epoch = r->begin(w, kPipeUnit);
    i.issued = r->epoch(w);
    state_of(w).last_epoch[static_cast<std::size_t>(i.lane)] = i.epoch;
  }
  return true;
}

Block* find_block(Warp& w, const CommitForm& f, int lane, std::uint32_t& offset) {
  std::uint64_t a = value_of(w, f.mbarrier, lane);
  if (!f.shared_space && f.mbarrier.size == 8) a -= kSharedWindow;
  offset = static_cast<std::uint32_t>(a) & 0xffffffu;
  return a <= 0xffffffffu ? shared_block(w, a, true) : nullptr;
}

void commit_lane(Warp& w, const Op& op, int lane) {
  const auto& f = *static_cast<const CommitForm*>(op.aux);
  Cluster& c = *w.block->cluster;
  PipeOp p;
  p.kind = PipeOp::Kind::commit;
  p.op = &op;
  p.lane = lane;
  Block* const home = find_block(w, f, lane, p.mbarrier);
  if (home == nullptr) {
    refuse(w, op, lane, "invalid-mbarrier", "the address is no shared address of the cluster");
    return;
  }
  if (ctas_of(w, op, lane, f.group).empty()) return;
  if (!f.multicast) {
    p.targets.push_back(home);
  } else {
    const std::uint64_t mask = w.value(f.mask, f.mask_size, lane) & 0xffff;
    for (std::size_t r = 0; r < 16; ++r) {
      if ((mask >> r & 1) == 0) continue;
      if (r >= c.blocks.size()) {
        refuse(w, op, lane, "out-of-bounds",
               "commits to CTA " + std::to_string(r) + " of a cluster of " + std::to_string(c.blocks.size()));
        return;
      }
      p.targets.push_back(c.blocks[r].get());
    }
  }
  for (Block* t : p.targets)
    if (find_mbarrier(w, op, lane, *t, p.mbarrier) == nullptr) return abort_cluster(c);
  if (c.races != nullptr) {
    const std::uint32_t epoch = state_of(w).last_epoch[static_cast<std::size_t>(lane)];
    for (Block* t : p.targets)
      if (t != w.block) c.races->visit(w, op, lane, *t, kPipeUnit, epoch);
    p.published = c.races->published(w, lane, kPipeUnit, epoch);
  }
  trace(w, op, TraceEvent::What::tensor_commit, p.mbarrier - kSharedBase,
        find_mbarrier(w, op, lane, *home, p.mbarrier)->phase, w.counts[static_cast<int>(Kind::tensor)]);
  issue(w, std::move(p), f.group);
}

}  // namespace

void run_product(Warp& w, const Op& op) {
  const auto& f = *static_cast<const ProductForm*>(op.aux);
  ptx::each_lane(w, [&](int lane) {
    if (w.block->cluster->aborted) return;
    PipeOp p;
    p.op = &op;
    p.lane = lane;
    p.collector = f.collector;
    p.buffer = f.buffer;
    Issue i{w, op, lane, {}};
    if (!read_call(w, op, lane, p.product) || !begin(i, f.shape.group) || !check_product(i, p.product))
      return;
    if (w.block->cluster->races != nullptr) note_product(i, p.product);
    issue(w, std::move(p), f.shape.group);
  });
}

void run_copy(Warp& w, const Op& op) {
  const auto& f = *static_cast<const CopyForm*>(op.aux);
  ptx::each_lane(w, [&](int lane) {
    if (w.block->cluster->aborted) return;
    PipeOp p;
    p.kind = PipeOp::Kind::copy;
    p.op = &op;
    p.lane = lane;
    p.copy = {f.shape, static_cast<std::uint32_t>(value_of(w, f.to, lane)), w.value(f.descriptor, 8, lane)};
    Issue i{w, op, lane, {}};
    if (!read_matrix(w, op, lane, p.copy.descriptor, "the source", Element::f16, false) || !begin(i, f.group))
      return;
    if (p.copy.to >> 16 != 0) {
      refuse(w, op, lane, "tmem-access",
             "the destination starts at lane " + std::to_string(p.copy.to >> 16) + ", must be 0");
      return;
    }
    const Rectangle r{p.copy.to & 0xffff, f.shape.columns(), f.shape.lanes()};
    if (!check_columns(i, r, "the destination")) return;
    if (w.block->cluster->races != nullptr) {
      std::vector<ByteRange> ranges;
      matrix_footprint(p.copy.descriptor, f.shape.extent(), ranges);
      for (Block* b : i.ctas) note_shared(i, *b, ranges, "the source");
      note_all(i, r, i.party(Access::copy, true));
      for (const Block* b : i.ctas) cta_of(*b).memory.mark_written(r);
    }
    issue(w, std::move(p), f.group);
  });
}

void run_shift(Warp& w, const Op& op) {
  const auto& f = *static_cast<const ShiftForm*>(op.aux);
  ptx::each_lane(w, [&](int lane) {
    if (w.block->cluster->aborted) return;
    PipeOp p;
    p.kind = PipeOp::Kind::shift;
    p.op = &op;
    p.lane = lane;
    p.address = static_cast<std::uint32_t>(value_of(w, f.at, lane));
    Issue i{w, op, lane, {}};
    if (!begin(i, f.group)) return;
    const Rectangle r{p.address & 0xffff, kShiftColumns, LaneMask::all()};
    if (!check_columns(i, r, "the shift")) return;
    if (w.block->cluster->races != nullptr) {
      check_written(i, r, "a cell");
      note_all(i, r, i.party(Access::shift, true));
    }
    issue(w, std::move(p), f.group);
  });
}

void run_commit(Warp& w, const Op& op) {
  ptx::each_lane(w, [&](int lane) {
    if (!w.block->cluster->aborted) commit_lane(w, op, lane);
  });
}

}  // namespace kiln::emulator::tcgen05
