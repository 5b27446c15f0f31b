// Execution of bulk and tensor copies: what a copy moves, checked and begun.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/trace.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/bulk.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/decode/warp_access.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

u64 part(const Warp& w, const Bulk::Part& p, int lane) {
  return w.value(p.ref, static_cast<std::uint8_t>(p.size), lane) + static_cast<u64>(p.offset);
}

Block* check_shared(Warp& w, const Op& op, int lane, u64 address, std::uint32_t bytes, std::uint32_t align,
                    bool any_rank, std::uint32_t& offset) {
  Block* b = address <= 0xffffffffu ? shared_block(w, address, any_rank) : nullptr;
  offset = static_cast<std::uint32_t>(address) & 0xffffffu;
  if (b == nullptr || offset < kSharedBase || offset + std::uint64_t{bytes} > b->smem.size() - 64) {
    report(w, op, lane, "out-of-bounds",
           "bulk copy of " + std::to_string(bytes) + " bytes at shared address " + std::to_string(address) +
               " leaves shared memory");
    return nullptr;
  }
  if (offset % align != 0) {
    report(w, op, lane, "misaligned",
           "bulk copy at shared address " + std::to_string(offset) + " needs alignment " +
               std::to_string(align));
    return nullptr;
  }
  return b;
}

bool check_global(Warp& w, const Op& op, int lane, const std::vector<BoxRun>& runs, bool read) {
  for (const BoxRun& r : runs)
    if (!r.oob) check_early_access(w, op, lane, r.global, r.bytes, read ? Access::read : Access::write);
  const Cluster& c = *w.block->cluster;
  const GlobalMemory::Impl& m = *c.launch->memory;
  for (const BoxRun& r : runs) {
    if (r.oob || (m.contains(r.global, r.bytes) && all_written(m.shadow_at(r.global), r.bytes))) continue;
    std::uint8_t all = 0xff;
    if (m.contains(r.global, r.bytes))
      for (std::uint32_t i = 0; i < r.bytes; ++i) all &= m.shadow_at(r.global)[i];
    else
      all = 0;
    if ((all & kAllocated) == 0) {
      if (c.findings || !m.contains(r.global, r.bytes)) {
        report(w, op, lane, "out-of-bounds",
               "bulk copy " + std::string(read ? "reads " : "writes ") + std::to_string(r.bytes) +
                   " bytes of global memory " + m.describe(r.global));
        return false;
      }
    } else if (read && c.findings && all != kWritten) {
      report(w, op, lane, "uninitialized-read",
             "bulk copy reads global memory never written: " + m.describe(r.global));
    }
  }
  return true;
}

bool read_map(Warp& w, const Op& op, int lane, u64 address, TensorMapRequest& map) {
  std::array<std::byte, 128> raw;
  const Cluster& c = *w.block->cluster;
  const auto& params = c.launch->params;
  if (address % 64 != 0) {
    report(w, op, lane, "bad-tensor-map", "tensor map is not aligned to 64 bytes");
    return false;
  }
  const std::uint8_t* from = nullptr;
  if (address - kParamWindow <= 0xffffffffu) {
    const u64 at = address - kParamWindow;
    if (at + 128 <= params.size()) from = params.data() + at;
  } else if (address + 128 <= params.size()) {
    from = params.data() + address;  // a parameter-space address used as it is
  } else if (c.launch->memory->contains(address, 128)) {
    from = c.launch->memory->at(address);
    if (c.races) c.launch->globals->check_map(w, op, lane, address);
  }
  if (from == nullptr) {
    report(w, op, lane, "bad-tensor-map", "tensor map address leads nowhere");
    return false;
  }
  std::memcpy(raw.data(), from, 128);
  const auto decoded = decode_tensor_map(raw);
  if (!decoded) {
    report(w, op, lane, "bad-tensor-map", "the 128 bytes are no encoded tensor map");
    return false;
  }
  map = *decoded;
  if (const std::string text = check_tensor_map(map); !text.empty()) {
    report(w, op, lane, "bad-tensor-map", text);
    return false;
  }
  return true;
}

/// The map of a gather4 or scatter4: rows of two dimensions, one a box.
bool check_rows(Warp& w, const Op& op, int lane, const TensorMapRequest& map) {
  if (map.rank == 2 && map.box[1] == 1) return true;
  report(w, op, lane, "bad-tensor-map",
         "gather4 and scatter4 need a map of rank 2 whose box has one row, this has rank " +
             std::to_string(map.rank) + " and " + std::to_string(map.box[1]) + " rows");
  return false;
}

/// Shared bytes from one row of four to the next.
std::uint32_t row_footprint(const TensorMapRequest& map) {
  const std::uint32_t row = shared_bytes(map.type, map.box[0]);
  return map.swizzle == Swizzle::none ? row : std::max(row, swizzle_span(map.swizzle));
}

/// Four rows, {column, row, row, row, row}, below each other as one tile.
void gather_rows(const TensorMapRequest& map, const std::int32_t* coordinates, std::uint32_t shared,
                 std::vector<BoxRun>& runs, bool store) {
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::int32_t at[2] = {coordinates[0], coordinates[1 + i]};
    box_runs(map, at, shared + i * row_footprint(map), runs, store);
  }
}

/// Whether a store leaves in global memory what is there, or what a store under way will leave there.
bool box_stores_the_same(const Cluster& c, const BulkCopy& b, const BoxRun& run) {
  const std::uint8_t* const to = c.launch->memory->at(run.global);
  bool same = true;
  each_piece(run, [&](std::uint32_t from, std::uint32_t at, std::uint32_t bytes) {
    same = same && std::memcmp(to + at, b.source->smem.data() + from, bytes) == 0;
  });
  if (same) return true;
  return std::any_of(c.bulk.begin(), c.bulk.end(), [&](const BulkCopy& other) {
    return other.kind == BulkCopy::Kind::store && !other.reduce && !other.source_read &&
           other.source == b.source &&
           std::find(other.runs.begin(), other.runs.end(), run) != other.runs.end();
  });
}

/// The bytes of shared memory that a copy's runs have, those side by side in one.
std::vector<ByteRange> shared_ranges(const std::vector<BoxRun>& runs) {
  std::vector<ByteRange> ranges;
  for (const BoxRun& run : runs)
    if (!ranges.empty() && ranges.back().end == run.shared)
      ranges.back().end += run.bytes;
    else
      ranges.push_back({run.shared, run.shared + run.bytes});
  return ranges;
}

/// Tells the race tracker what the copy reads and writes. `repeated`: another lane of the instruction began
/// the same copy.
void track(Warp& w, const Op& op, int lane, BulkCopy& b, bool repeated) {
  RaceTracker& r = *w.block->cluster->races;
  const bool store = b.kind == BulkCopy::Kind::store;
  const std::uint32_t rank = store                         ? 0
                             : b.mbarrier_block != nullptr ? b.mbarrier_block->rank
                                                           : b.targets.front()->rank;
  const std::uint32_t unit =
      store ? static_cast<std::uint32_t>(Unit::bulk_store) : r.load_unit(w, b.mbarrier, rank);
  const std::uint32_t epoch = r.begin(w, unit);
  if (store) {
    w.unit_epochs.push_back({unit, epoch, b.group, 1u << lane, &op});
    const auto out = static_cast<std::uint32_t>(Unit::bulk_write);
    const std::uint32_t out_epoch = r.begin(w, out);
    w.unit_epochs.push_back({out, out_epoch, b.group, 1u << lane, &op});
    GlobalRaces& globals = *w.block->cluster->launch->globals;
    for (const ByteRange& range : shared_ranges(b.runs))
      r.access({w, op, lane, *b.source, range.begin, range.end - range.begin, false, unit, epoch});
    Cluster& c = *w.block->cluster;
    std::unique_lock lock(c.launch->atomics, std::defer_lock);
    if (b.reduce) lock.lock();
    for (const BoxRun& run : b.runs) {
      if (run.oob) continue;
      // Each element of a reduction is an atomic of GPU scope.
      if (b.reduce)
        globals.strong_access(w, op, lane, run.global, run.bytes, true, out, out_epoch);
      else
        globals.access(w, op, lane, run.global, run.bytes, true, out, out_epoch,
                       box_stores_the_same(c, b, run));
    }
    return;
  }
  if (b.kind == BulkCopy::Kind::load)
    for (const BoxRun& run : b.runs)
      if (!run.oob) {
        GlobalRaces& globals = *w.block->cluster->launch->globals;
        globals.check_proxy_fence(w, op, lane, run.global, run.bytes);
        globals.access(w, op, lane, run.global, run.bytes, false, unit, epoch);
      }
  if (b.kind == BulkCopy::Kind::shared_to_shared)
    r.access({w, op, lane, *b.source, b.source_offset, b.bytes, false, unit, epoch});
  const std::uint32_t writer = b.reduce ? r.reduction_unit(w, b.mbarrier, rank) : unit;
  const std::uint32_t written = b.reduce ? r.begin(w, writer) : epoch;
  for (Block* t : b.targets)
    for (const ByteRange& range : shared_ranges(b.runs)) {
      const std::uint32_t bytes = range.end - range.begin;
      r.access({w, op, lane, *t, range.begin, bytes, true, writer, written, repeated});
      if (std::memchr(t->shadow.data() + range.begin, kMbarrier, bytes) != nullptr)
        check_mbarriers_kept(w, op, lane, *t, range.begin, bytes);
    }
  b.published = r.published(w, lane, unit, epoch);
  if (b.reduce) b.published.agents[r.agent(w, writer)] = written;
}

/// A copy of pixels with a map of a box, or the reverse.
bool check_mode(Warp& w, const Op& op, int lane, const TensorMapRequest& map) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  if (map.mode == d.mode) return true;
  static constexpr const char* kNames[] = {"tiled", "im2col", "im2col::w", "im2col::w::128"};
  const auto name = [](TensorMapMode mode) { return std::string(kNames[static_cast<std::size_t>(mode)]); };
  report(w, op, lane, "bad-tensor-map",
         map.mode == TensorMapMode::tiled || d.mode != TensorMapMode::tiled
             ? "an " + name(d.mode) + " copy with " + (map.mode == TensorMapMode::tiled ? "a " : "an ") +
                   name(map.mode) + " map"
             : "a copy in tiled mode with an " + name(map.mode) + " map");
  return false;
}

using Offsets = std::array<std::uint16_t, 3>;
Offsets offsets_of(const Warp& w, const Bulk& d, int lane) {
  Offsets offsets{};
  for (std::size_t i = 0; i < d.offsets.size(); ++i)
    offsets[i] = static_cast<std::uint16_t>(w.value(d.offsets[i], 2, lane));
  return offsets;
}

/// The pieces of a tensor copy; false (reported): the hardware does not take its coordinates.
bool tensor_runs(Warp& w, const Op& op, int lane, const TensorMapRequest& map, std::uint32_t offset,
                 std::vector<BoxRun>& runs) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  std::int32_t coordinates[5] = {};
  for (std::size_t i = 0; i < d.coordinates.size() && i < 5; ++i)
    coordinates[i] = static_cast<std::int32_t>(w.value(d.coordinates[i], 4, lane));
  if (d.rows4) {
    gather_rows(map, coordinates, offset, runs, !d.to_shared);
    return true;
  }
  const std::span at(coordinates, static_cast<std::size_t>(d.rank));
  const Offsets offsets = offsets_of(w, d, lane);
  const std::span by(offsets.data(), d.offsets.size());
  const bool pixels = d.mode == TensorMapMode::im2col;
  const std::string text = is_wide(d.mode) ? check_im2col_wide(map, at)
                           : pixels        ? check_im2col(map, at, by)
                                           : check_coordinates(map, at, !d.to_shared);
  if (!text.empty()) {
    report(w, op, lane, "bad-coordinates", text);
    return false;
  }
  if (is_wide(d.mode))
    im2col_wide_runs(map, at, by, offset, runs);
  else if (pixels)
    im2col_runs(map, at, by, offset, runs, !d.to_shared);
  else
    box_runs(map, at, offset, runs, !d.to_shared);
  return true;
}

/// Bytes that a tensor copy moves, and shared memory that it covers.
std::uint32_t moved_bytes(const Bulk& d, const TensorMapRequest& map) {
  return d.rows4 ? 4 * box_bytes(map) : box_bytes(map);
}
std::uint32_t covered_bytes(const Bulk& d, const TensorMapRequest& map) {
  return (d.rows4 ? 3 * row_footprint(map) : 0) + box_footprint(map);
}

/// The CTA of the mbarrier where that is not the target itself: `where` as named, or of a multicast to pairs that of
/// the same side.
Block* barrier_block(const Cluster& c, const Bulk& d, const BulkCopy& b, Block* where) {
  if (!d.multicast) return where;
  if (!d.pair || b.targets.empty()) return nullptr;
  return b.targets.size() > 1 ? where : c.blocks[(b.targets[0]->rank & ~1u) | (where->rank & 1)].get();
}

/// Of its own block the barriers between the two suffice on hardware; libcu++ and Triton rely on that.
void report_unfenced(Warp& w, const Op& op, int lane, Block& owner, const MBarrier& m) {
  Finding f;
  f.kind = "missing-mbarrier-fence";
  f.message =
      "the copy completes on an mbarrier whose initialisation no fence.mbarrier_init or fence.proxy.async of "
      "its warp followed";
  f.site = site_of(w, op, lane);
  f.has_other = true;
  f.other = site_of(owner.warps[static_cast<std::size_t>(m.init_warp)], *m.init, -1);
  if (w.block->cluster->blocks.size() == 1) f.severity = Severity::note;
  report(*w.block->cluster, std::move(f));
}

/// The copy's tensor map, and what follows from it alone; false (reported): the copy has no such map.
bool take_map(Warp& w, const Op& op, BulkCopy& b, TensorMapRequest& map) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  const int lane = b.lane;
  if (!read_map(w, op, lane, part(w, d.to_shared ? d.src : d.dst, lane), map)) return false;
  if (static_cast<int>(map.rank) != d.rank) {
    report(
        w, op, lane, "bad-tensor-map",
        "a " + std::to_string(d.rank) + "-dimensional copy with a map of rank " + std::to_string(map.rank));
    return false;
  }
  if (!check_mode(w, op, lane, map) || (d.rows4 && !check_rows(w, op, lane, map))) return false;
  if (is_wide(d.mode))
    if (const std::string text = add_halo(map, offsets_of(w, d, lane)); !text.empty()) {
      report(w, op, lane, "bad-coordinates", text);
      return false;
    }
  b.bytes = moved_bytes(d, map);
  b.type = map.type;
  b.pattern = oob_pattern(map);
  return true;
}

/// The blocks that a load writes: `home`, or those of a multicast.
bool add_targets(Warp& w, const Op& op, BulkCopy& b, Block* home) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  const Cluster& c = *w.block->cluster;
  if (!d.multicast) {
    b.targets.push_back(home);
    return true;
  }
  const u64 mask = w.value(d.mask, static_cast<std::uint8_t>(d.mask_size), b.lane);
  for (std::size_t i = 0; i < 16; ++i) {
    if ((mask >> i & 1) == 0) continue;
    if (i >= c.blocks.size()) {
      report(
          w, op, b.lane, "out-of-bounds",
          "multicast to block " + std::to_string(i) + " of a cluster of " + std::to_string(c.blocks.size()));
      return false;
    }
    b.targets.push_back(c.blocks[i].get());
  }
  return true;
}

/// The mbarrier that a load completes on, in its targets or the block that has it for them.
bool find_barrier(Warp& w, const Op& op, BulkCopy& b) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  Cluster& c = *w.block->cluster;
  const u64 mbar = part(w, d.mbar, b.lane);
  Block* where = mbar <= 0xffffffffu ? shared_block(w, mbar, true) : nullptr;
  b.mbarrier = static_cast<std::uint32_t>(mbar) & 0xffffffu;
  if (where == nullptr) {
    report(w, op, b.lane, "invalid-mbarrier",
           "mbarrier address " + std::to_string(mbar) + " is not in the cluster");
    return false;
  }
  b.mbarrier_block = barrier_block(c, d, b, where);
  if (b.targets.empty()) return true;
  Block& first = b.mbarrier_block != nullptr ? *b.mbarrier_block : *b.targets.front();
  MBarrier* m = find_mbarrier(w, op, b.lane, first, b.mbarrier);
  if (m == nullptr) return false;
  if (c.findings && !m->fenced) {
    report_unfenced(w, op, b.lane, first, *m);
    m->fenced = true;
  }
  b.phase = m->phase;
  return true;
}

/// Bytes of a load that come from L2 as the launch has copied them before, where the cycle model asks.
std::uint64_t copied_before(const Warp& w, const BulkCopy& copy) {
  Trace* const trace = traced_costs();
  std::uint64_t again = 0;
  if (trace != nullptr)
    for (const BoxRun& run : copy.runs)
      if (!run.oob) again += trace->copied_before(run.global, run.bytes, traced(w.block->id) != nullptr);
  return again;
}

/// The copy is under way: complete at once, or some time later.
void start_copy(Warp& w, const Op& op, BulkCopy copy) {
  Cluster& c = *w.block->cluster;
  copy.issued = ++c.issued;
  if (copy.kind == BulkCopy::Kind::load)
    trace(w, op, TraceEvent::What::copy, copy.mbarrier - kSharedBase, copy.phase, copy.bytes,
          copied_before(w, copy));
  c.bulk.push_back(std::move(copy));
  ++c.progress;
  if (c.policy == Policy::eager) complete_bulk(c, c.bulk.size() - 1);
}

/// What becomes of a lane's copy while it is made: it goes on, moves nothing (or has been reported and is left out),
/// or is a mistake after which nothing makes sense.
enum class Made : std::uint8_t { yes, nothing, wrong };

BulkCopy copy_of(Warp& w, const Op& op, int lane) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  BulkCopy b;
  b.op = &op;
  b.warp = &w;
  b.lane = static_cast<std::uint8_t>(lane);
  b.tensor = d.tensor;
  b.reduce = d.reduce;
  b.reduce_op = d.reduce_op;
  b.type = d.type;
  b.group = w.bulk_group[static_cast<std::size_t>(lane)];
  return b;
}

Made take_bytes(Warp& w, const Op& op, BulkCopy& b) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  b.bytes = static_cast<std::uint32_t>(w.value(d.bytes, 4, b.lane));
  if (b.bytes == 0) return Made::nothing;
  if (b.bytes % 16 == 0) return Made::yes;
  report(w, op, b.lane, "misaligned",
         "bulk copy of " + std::to_string(b.bytes) + " bytes: not a multiple of 16");
  return Made::nothing;
}

/// From shared memory of this block to `offset` of `home`.
Made between_blocks(Warp& w, const Op& op, BulkCopy& b, Block* home, std::uint32_t offset) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  b.source = check_shared(w, op, b.lane, part(w, d.src, b.lane), b.bytes, 16, false, b.source_offset);
  if (b.source == nullptr) return Made::wrong;
  b.kind = BulkCopy::Kind::shared_to_shared;
  b.runs.push_back({0, offset, b.bytes, false});
  b.targets.push_back(home);
  return Made::yes;
}

/// From global memory to `offset` of `home`, or back.
Made with_global(Warp& w, const Op& op, BulkCopy& b, const TensorMapRequest& map, Block* home,
                 std::uint32_t offset) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  if (d.tensor) {
    if (!tensor_runs(w, op, b.lane, map, offset, b.runs)) return Made::wrong;
  } else {
    const u64 global = part(w, d.to_shared ? d.src : d.dst, b.lane);
    if (global % 16 != 0) {
      report(w, op, b.lane, "misaligned", "bulk copy at global address not aligned to 16 bytes");
      return Made::nothing;
    }
    b.runs.push_back({global, offset, b.bytes, false});
  }
  if (!check_global(w, op, b.lane, b.runs, d.to_shared)) return Made::wrong;
  b.kind = d.to_shared ? BulkCopy::Kind::load : BulkCopy::Kind::store;
  if (d.to_shared) return add_targets(w, op, b, home) ? Made::yes : Made::wrong;
  b.source = home;
  return Made::yes;
}

Made make_copy(Warp& w, const Op& op, BulkCopy& b) {
  const auto& d = *static_cast<const Bulk*>(op.aux);
  TensorMapRequest map;
  if (d.tensor && !take_map(w, op, b, map)) return Made::wrong;
  if (!d.tensor)
    if (const Made bytes = take_bytes(w, op, b); bytes != Made::yes) return bytes;
  std::uint32_t offset = 0;
  Block* home = check_shared(w, op, b.lane, part(w, d.to_shared ? d.dst : d.src, b.lane),
                             d.tensor ? covered_bytes(d, map) : b.bytes,
                             d.tensor ? kTensorSharedAlignment : 16, d.to_shared && d.dst_cluster, offset);
  if (home == nullptr) return Made::wrong;
  const Made made =
      d.from_shared_cta ? between_blocks(w, op, b, home, offset) : with_global(w, op, b, map, home, offset);
  if (made != Made::yes || b.kind == BulkCopy::Kind::store) return made;
  if (!find_barrier(w, op, b)) return Made::wrong;
  return b.targets.empty() ? Made::nothing : Made::yes;
}

}  // namespace

void run_bulk(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  if (static_cast<const Bulk*>(op.aux)->prefetch) return;
  std::vector<std::vector<BoxRun>> begun;  // by earlier lanes, for `repeated`
  each_lane(w, [&](int l) {
    BulkCopy b = copy_of(w, op, l);
    const Made made = make_copy(w, op, b);
    if (made == Made::wrong) return abort_cluster(c);
    if (made == Made::nothing) return;
    if (c.races) {
      const bool load = b.kind == BulkCopy::Kind::load;
      const bool repeated = load && std::find(begun.begin(), begun.end(), b.runs) != begun.end();
      if (load && (w.exec & (w.exec - 1)) != 0) begun.push_back(b.runs);
      track(w, op, l, b, repeated);
    }
    start_copy(w, op, std::move(b));
  });
}

}  // namespace kiln::emulator::ptx
