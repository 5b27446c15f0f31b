// ldmatrix, stmatrix, movmatrix and wgmma.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/trace.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/decode/matrix.hpp"
#include "emulator/ptx/decode/warp_access.hpp"
#include "emulator/tensor/mma.hpp"
#include "emulator/tensor/mma_elements.hpp"
#include "emulator/tensor/sparse.hpp"
#include "emulator/tensor/wgmma.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

/// Address of the 16-byte row that a lane names.
u64 row_address(const Warp& w, const Op& op, int lane) {
  return w.value(op.a, op.asize, lane) + static_cast<u64>(op.imm);
}
void row_addresses(const Warp& w, const Op& op, u64* address) {
  for (int l = 0; l < 8 * op.count; ++l) address[l] = row_address(w, op, l);
}
/// Flags of an Op, besides 2 for .trans: bytes in matrices of 16 x 16 or 16 x 8, packed elements of 6 or 4 bits.
constexpr unsigned kByteMatrix = 4, kSixBits = 8, kFourBits = 16;

/// Rows to registers. `data` may come to point into `wide`.
void load_matrices(const Op& op, const std::uint8_t** data, std::uint8_t (*wide)[16],
                   std::uint32_t* const* out) {
  if ((op.flags & (kSixBits | kFourBits)) != 0)
    for (int l = 0; l < 8 * op.count; ++l) {
      widen_row((op.flags & kSixBits) != 0 ? 6 : 4, data[l], wide[l]);
      data[l] = wide[l];
    }
  if ((op.flags & kByteMatrix) != 0)
    ldmatrix_bytes(op.count / 2, data, out);
  else
    ldmatrix(op.count, (op.flags & 2) != 0, data, out);
}
void store_matrices(const Op& op, const std::uint32_t* const* in, std::uint8_t* const* rows) {
  if ((op.flags & kByteMatrix) != 0)
    stmatrix_bytes(op.count, in, rows);
  else
    stmatrix(op.count, (op.flags & 2) != 0, in, rows);
}

void run_ldmatrix(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  Cluster& c = *w.block->cluster;
  ++w.lanes.issue;
  static constexpr std::uint8_t kZeros[16] = {};
  const std::uint8_t *data[32], *shadow[32];
  bool unwritten = false;
  u64 address[32];
  row_addresses(w, op, address);
  const bool plain = plain_rows(w, op, 8 * op.count, address, data);
  for (int l = 0; !plain && l < 8 * op.count; ++l) {
    const Place p = locate(w, op, static_cast<Space>(op.c), row_address(w, op, l), 16, l, Access::read);
    if (c.races && p.block != nullptr) c.races->access({w, op, l, *p.block, p.offset, 16, false});
    data[l] = p.data != nullptr ? p.data : kZeros;
    shadow[l] = p.unwritten ? p.shadow : nullptr;
    unwritten |= p.unwritten;
  }
  if (c.findings) count_rows(c, address, op.count);
  std::uint32_t* out[4];
  for (std::uint32_t i = 0; i < op.count; ++i) out[i] = w.out<std::uint32_t>(c.program->lists[op.target + i]);
  std::uint8_t wide[32][16];
  load_matrices(op, data, wide, out);
  if (!unwritten) [[likely]]
    return;
  // The same load of which bytes nobody wrote tells the registers that hold some.
  std::uint8_t bytes[32][16] = {};
  std::uint32_t missing[4][32], *into[4];
  for (int l = 0; l < 8 * op.count; ++l) {
    data[l] = bytes[l];
    for (int i = 0; i < 16 && shadow[l] != nullptr; ++i)
      bytes[l][i] = (shadow[l][i] & kWrittenBit) == 0 ? 0xff : 0;
  }
  for (std::uint32_t i = 0; i < op.count; ++i) into[i] = missing[i];
  load_matrices(op, data, wide, into);
  for (std::uint32_t i = 0; i < op.count; ++i) {
    std::uint32_t lanes = 0;
    for (int l = 0; l < 32; ++l) lanes |= missing[i][l] != 0 ? 1u << l : 0;
    if (lanes != 0) mark_unknown(w, origin_of(w, op), c.program->lists[op.target + i], lanes);
  }
}

void run_stmatrix(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  Cluster& c = *w.block->cluster;
  ++w.lanes.issue;
  std::uint8_t fresh[32][16], unknown[32][16];
  std::uint8_t* rows[32];
  const std::uint32_t* in[4];
  for (int l = 0; l < 32; ++l) rows[l] = fresh[l];
  for (std::uint32_t i = 0; i < op.count; ++i) in[i] = w.in<std::uint32_t>(c.program->lists[op.target + i]);
  store_matrices(op, in, rows);
  std::uint32_t lanes[4] = {}, masks[4][32];
  bool some_unknown = false;
  for (std::uint32_t i = 0; c.findings && i < op.count; ++i) {
    lanes[i] = unknown_lanes(w, c.program->lists[op.target + i], 0xffffffffu);
    some_unknown |= lanes[i] != 0;
  }
  if (some_unknown) {
    for (std::uint32_t i = 0; i < op.count; ++i) {
      for (int l = 0; l < 32; ++l) masks[i][l] = (lanes[i] >> l & 1) != 0 ? 0xffffffffu : 0;
      in[i] = masks[i];
    }
    for (int l = 0; l < 32; ++l) rows[l] = unknown[l];
    store_matrices(op, in, rows);
  }
  for (int l = 0; l < 8 * op.count; ++l) {
    const Place p = locate(w, op, static_cast<Space>(op.c), row_address(w, op, l), 16, l, Access::write);
    if (p.data == nullptr) continue;
    if (c.races && p.block != nullptr)
      c.races->access({.warp = w,
                       .op = op,
                       .lane = l,
                       .block = *p.block,
                       .offset = p.offset,
                       .bytes = 16,
                       .write = true,
                       .silent = std::memcmp(p.data, fresh[l], 16) == 0});
    std::memcpy(p.data, fresh[l], 16);
    for (int i = 0; some_unknown && i < 16; ++i)
      if (unknown[l][i] != 0) p.shadow[i] = kAllocated;
  }
  if (c.findings) {
    u64 address[32];
    row_addresses(w, op, address);
    count_rows(c, address, op.count);
  }
  ++c.progress;
}
/// Flags of the forms of sm_100a: bytes, and elements of 6 and 4 bits that become bytes.
unsigned byte_form(const Decoder& d, bool load, int matrices) {
  const unsigned packed = d.has("b6x16_p32") ? kSixBits : d.has("b4x16_p64") ? kFourBits : 0;
  const bool square = d.has("m16n16"), narrow = d.has("m16n8"),
             bytes = !d.types().empty() && d.type() == Type::b8;
  if (packed != 0 ? !d.has("b8x16") || !load : !bytes) d.unsupported();
  if (d.has("m8n16") && packed != 0 && !d.has("trans")) return packed;
  if (!d.has("trans") || (load ? !square || matrices > 2 : !narrow)) d.unsupported();
  return packed | kByteMatrix;
}
void decode_ldstmatrix(Decoder& d) {
  const bool load = d.in->opcode == "ldmatrix";
  const int matrices = d.has("x4")   ? 4
                       : d.has("x2") ? 2
                                     : 1,
            count = d.has("m16n16") ? 2 * matrices : matrices;
  unsigned form = 0;
  if (!d.has("m8n8"))
    form = byte_form(d, load, matrices);
  else if (d.type() != Type::b16)
    d.unsupported();
  const Operand& value = d.operand(load ? 0 : 1);
  const auto refs = rows(d, value, 4, load);
  if (static_cast<int>(refs.size()) != count) d.fail("wrong number of registers in");
  std::string_view name;
  const Space space = d.space_of(name);
  const auto a = d.address(d.operand(load ? 1 : 0), Space::shared);
  const std::uint32_t at = d.list(refs);
  Op& op = d.emit(load ? run_ldmatrix : run_stmatrix, Kind::matrix_load);
  op.use = load ? Use::load : Use::store;
  op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset,
  op.c = static_cast<Ref>(space);
  op.count = static_cast<std::uint8_t>(count), op.target = at,
  op.flags = static_cast<std::uint16_t>(form | (d.has("trans") ? 2u : 0u));
}
void run_movmatrix(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  std::uint32_t in[32];
  std::memcpy(in, w.in<std::uint32_t>(op.a), sizeof in);
  movmatrix_trans(in, w.out<std::uint32_t>(op.d));
  if (w.unknown_inputs.empty()) return;
  std::uint32_t lanes = unknown_input(w, op.a), masks[32], moved[32], unknown = 0;
  for (int l = 0; l < 32; ++l) masks[l] = (lanes >> l & 1) != 0 ? 0xffffffffu : 0;
  movmatrix_trans(masks, moved);
  for (int l = 0; l < 32; ++l) unknown |= moved[l] != 0 ? 1u << l : 0;
  mark_unknown(w, unknown_origin(w), op.d, unknown);
  w.unknown_inputs.clear();
}
void decode_movmatrix(Decoder& d) {
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4);
  Op& op = d.emit(run_movmatrix, Kind::matrix_load);
  op.use = Use::handled, op.d = r, op.a = a;
}

// --- wgmma ---
void own(Warp& w, const Op& op, const WgmmaOp& g, bool accumulates) {
  if (w.block->cluster->findings && w.fence_epoch == 1 && w.wgmma_issued == 1)
    report(w, op, -1, "missing-wgmma-fence",
           "no wgmma.fence comes before the first wgmma of the warp; undefined in PTX, ptxas inserts it "
           "(advisory "
           "C7519)",
           Severity::undefined);
  // Rows of accumulators (1) and register A operands (2) belong to wgmma until waited for.
  const Program& p = *w.block->cluster->program;
  const int n = wgmma_d_registers(g);
  if (!w.block->cluster->findings) return;
  for (int i = 0; i < n + (g.a_in_registers ? 4 : 0); ++i) {
    const Ref r = p.lists[op.target + static_cast<std::size_t>(i)];
    if ((r & 3) != kRegister) continue;
    check_wgmma_register(w, op, r, i < n);
    const std::uint32_t state = w.frame->state + r / 64;
    if (const std::uint32_t unknown = w.live & ~w.state[state].known; unknown != 0 && i < n && accumulates)
      report_unknown(w, op, r, unknown);
    w.owned[state] |= i < n ? 1 : 2;
    w.state[state].known |= i < n ? w.live : 0;
  }
  w.checked = true;
}

/// The operands that a wgmma reads from shared memory. All four warps read both; they are noted for the first one.
void note_operands(Warp& w, const Op& op, const WgmmaOp& g, WgmmaIssue& issue) {
  Block& b = *w.block;
  RaceTracker& races = *b.cluster->races;
  const std::uint32_t unit = static_cast<std::uint32_t>(Unit::wgmma), epoch = races.begin(w, unit);
  w.wgmma_epoch = epoch;
  const u64 desc_a = issue.desc_a, desc_b = issue.desc_b;
  if (races.may_read_tile(w, issue.writers)) return;
  thread_local std::vector<ByteRange> ranges;
  ranges.clear();
  if (!g.a_in_registers) wgmma_footprint(g, WgmmaOperand::a, desc_a, ranges);
  wgmma_footprint(g, WgmmaOperand::b, desc_b, ranges);
  const auto inside = [&](const ByteRange& r) {
    return r.end <= b.smem.size() - 64 && r.begin >= kSharedBase;
  };
  const auto written = [&](const ByteRange& r) {
    return all_written(b.shadow.data() + r.begin, r.end - r.begin);
  };
  if (std::all_of(ranges.begin(), ranges.end(),
                  [&](const ByteRange& r) { return inside(r) && written(r); })) {
    const SharedAccess access{w, op, -1, b, 0, 0, false, unit, epoch};
    const bool first = issue.warps == 1u << (w.index % 4);
    if (!first || !races.read_tile(access, ranges, issue.writers)) races.access_ranges(access, ranges);
    return;
  }
  for (const ByteRange& r : ranges) {
    if (!inside(r)) {
      report(w, op, -1, "out-of-bounds",
             "wgmma reads shared bytes " + std::to_string(r.begin) + " to " + std::to_string(r.end) +
                 ", outside the block's shared memory");
      continue;
    }
    races.access({w, op, -1, b, r.begin, r.end - r.begin, false, unit, epoch});
    if (!written(r))
      report(w, op, -1, "uninitialized-read",
             "wgmma reads shared bytes " + std::to_string(r.begin) + " to " + std::to_string(r.end) +
                 ", not all of which were written");
  }
}

/// Metadata are read at issue: PTX reserves the accumulators and A's registers alone until a wait.
void take_metadata(Warp& w, const Op& op, const WgmmaOp& g, WgmmaIssue& issue) {
  if (!issue.metadata) issue.metadata = std::make_shared<std::array<std::uint32_t, 128>>();
  std::uint32_t* const own = issue.metadata->data() + 32 * (w.index % 4);
  std::copy_n(w.in<std::uint32_t>(op.e), 32, own);
  if (!w.block->cluster->findings) return;
  const std::uint32_t lanes = metadata_lanes(g.a, wgmma_k(g), g.selector);
  if (const std::uint32_t unknown = unknown_lanes(w, op.e, w.live & lanes); unknown != 0)
    report_unknown(w, op, op.e, unknown);
  report_metadata(w, op, g.a, false, sparse_columns(g.a, wgmma_k(g), g.selector, false, own));
}

/// FLOP and bytes of shared memory of the four warps together.
u64 flops_of(const WgmmaOp& g) {
  return u64{2} * 64 * static_cast<u64>(g.n) * static_cast<u64>(wgmma_k(g));
}
u64 shared_bytes(const WgmmaOp& g) {
  const auto rows = static_cast<u64>(g.n + (g.a_in_registers ? 0 : 64));
  return rows * static_cast<u64>(wgmma_k(g)) * static_cast<u64>(bit_width(g.a)) / 8;
}

void run_wgmma(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  Cluster& c = *w.block->cluster;
  Block& b = *w.block;
  const auto& g = *static_cast<const WgmmaOp*>(op.aux);
  const std::size_t group = static_cast<std::size_t>(w.index) / 4;
  WgmmaQueue& q = b.warpgroups[group];
  if (group * 4 + 4 > b.warps.size()) {
    report(w, op, -1, "wgmma-mismatch", "the warpgroup has fewer than four warps");
    return abort_cluster(c);
  }
  const u64 number = w.wgmma_issued++;
  if (number < q.completed) {
    report(w, op, -1, "wgmma-mismatch", "a warp issued a wgmma its warpgroup has already completed");
    return abort_cluster(c);
  }
  while (q.pending.size() <= number - q.completed) q.pending.emplace_back();
  WgmmaIssue& i = q.pending[number - q.completed];
  const int lane = std::countr_zero(w.exec);
  const bool scale_d = op.b == kNoRef || w.value(op.b, op.bsize, lane) != 0;
  const u64 desc_a = op.a == kNoRef ? 0 : w.value(op.a, 8, lane), desc_b = w.value(op.c, 8, lane);
  if (i.warps == 0) {
    i.op = &op;
    i.scale_d = scale_d;
    i.desc_a = desc_a;
    i.desc_b = desc_b;
  } else if (i.op != &op || i.scale_d != scale_d || i.desc_a != desc_a || i.desc_b != desc_b) {
    report(w, op, lane, "wgmma-mismatch", "warps of the warpgroup issue different wgmmas or descriptors");
  }
  trace(w, op, TraceEvent::What::wgmma, static_cast<std::uint32_t>(bit_width(g.a)), shared_bytes(g),
        flops_of(g));
  i.warps |= 1u << (w.index % 4);
  i.registers[w.index % 4] = w.base[0];
  if (g.sparse) take_metadata(w, op, g, i);
  own(w, op, g, scale_d);
  if (c.findings) note_operands(w, op, g, i);
  if (c.policy == Policy::eager && i.warps == 0xf) complete_wgmma(b, q, number + 1);
}
void run_wgmma_commit(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  trace(w, op, TraceEvent::What::wgmma_commit, 0, 0, w.wgmma_issued);
  w.wgmma_groups.push_back(w.wgmma_issued);
  w.wgmma_epochs.push_back(w.wgmma_epoch);
}
void run_wgmma_wait(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  Block& b = *w.block;
  WgmmaQueue& q = b.warpgroups[static_cast<std::size_t>(w.index) / 4];
  const auto keep = static_cast<std::size_t>(op.imm);
  if (w.wgmma_groups.size() <= keep) return;
  const u64 until = w.wgmma_groups[w.wgmma_groups.size() - 1 - keep];
  if (!complete_wgmma(b, q, until)) {
    Wait t;
    t.kind = WaitKind::wgmma;
    t.value = until;
    return w.block_on(t);
  }
  trace(w, op, TraceEvent::What::wgmma_wait, 0, 0, keep);
  const std::size_t done = w.wgmma_groups.size() - keep;
  // A wgmma-group is one of the warpgroup: it is complete for all four warps at once.
  if (RaceTracker* r = b.cluster->races.get()) {
    const std::size_t first = static_cast<std::size_t>(w.index) / 4 * 4;
    for (std::size_t i = first; i < std::min(first + 4, b.warps.size()); ++i)  // a block may end before
      r->retire(w, b.warps[i], static_cast<std::uint32_t>(Unit::wgmma), w.wgmma_epochs[done - 1]);
  }
  w.wgmma_epochs.erase(w.wgmma_epochs.begin(), w.wgmma_epochs.begin() + static_cast<std::ptrdiff_t>(done));
  w.wgmma_groups.erase(w.wgmma_groups.begin(), w.wgmma_groups.end() - static_cast<std::ptrdiff_t>(keep));
  w.wgmma_retired = until;
  release_owned(w);
}
void decode_wgmma_product(Decoder& d) {
  if (!d.has("mma_async")) d.unsupported();
  WgmmaOp g;
  g.sparse = d.has("sp");
  const auto t = matrix_types(d);
  int m = 0, k = 0;
  if (!shape_of(d, m, g.n, k) || t.size() != 3 || m != 64) d.unsupported();
  g.d = t[0], g.a = t[1], g.b = t[2];
  g.satfinite = d.has("satfinite");
  if (k != wgmma_k(g)) d.unsupported();
  std::vector<Ref> refs = rows(d, d.operand(0), 4, true);
  g.a_in_registers = d.operand(1).kind == Operand::Kind::vector;
  Ref a = kNoRef;
  if (g.a_in_registers) {
    const auto part = rows(d, d.operand(1), 4, false);
    if (part.size() != 4) d.fail("wrong number of registers in");
    refs.insert(refs.end(), part.begin(), part.end());
  } else {
    a = d.src(d.operand(1), 8);
  }
  const Ref b = d.src(d.operand(2), 8);
  // scale-d, then imm-scale-a, imm-scale-b (floats), then the transpose bits of 16-bit operands in shared
  // memory.
  Ref metadata = kNoRef;
  if (g.sparse) {
    metadata = d.src(d.operand(3), 4);
    g.selector = static_cast<int>(d.operand(4).value);
    if (g.a == MatrixType::b1 || metadata_lanes(g.a, k, g.selector) == 0)
      d.fail("no such sparsity selector in");
  }
  const std::size_t first = g.sparse ? 5 : 3;
  const Operand& scale = d.operand(first);
  const int scale_size = d.size_of_register(scale, 4);
  const Ref scale_ref = d.src(scale, scale_size);
  const auto imm = [&](std::size_t i) { return i < d.operands() ? d.operand(i).value : 0; };
  if (d.operands() > first + 2) {
    g.negate_a = imm(first + 1) == -1;
    g.negate_b = imm(first + 2) == -1;
    if (g.a_in_registers) {
      g.trans_b = imm(first + 3) != 0;
    } else {
      g.trans_a = imm(first + 3) != 0;
      g.trans_b = imm(first + 4) != 0;
    }
  }
  if (const std::string problem = wgmma_check(g); !problem.empty()) d.fail(problem + " in");
  if (static_cast<int>(refs.size()) != wgmma_d_registers(g) + (g.a_in_registers ? 4 : 0))
    d.fail("wrong number of registers in");
  const std::uint32_t at = d.list(refs);
  d.program.uses_wgmma = true;
  Op& op = d.emit(run_wgmma, Kind::wgmma);
  op.e = metadata;
  op.a = a, op.c = b, op.b = scale_ref, op.bsize = static_cast<std::uint8_t>(scale_size), op.target = at;
  op.aux = d.own(g);
}

void decode_wgmma(Decoder& d) {
  if (d.has("fence")) {
    d.emit(
        [](Warp& w, const Op& op) {
          if (converge(w, op, 0xffffffffu)) ++w.fence_epoch;
        },
        Kind::fence);
    return;
  }
  if (d.has("commit_group")) {
    d.emit(run_wgmma_commit, Kind::wgmma);
    return;
  }
  if (d.has("wait_group")) {
    d.emit(run_wgmma_wait, Kind::wgmma).imm = d.operand(0).value;
    return;
  }
  decode_wgmma_product(d);
}

}  // namespace

std::vector<DecodeEntry> matrix_table() {
  return {{"ldmatrix", decode_ldstmatrix},
          {"stmatrix", decode_ldstmatrix},
          {"movmatrix", decode_movmatrix},
          {"mma", decode_mma},
          {"wgmma", decode_wgmma}};
}

}  // namespace kiln::emulator::ptx
