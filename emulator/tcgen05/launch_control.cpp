// clusterlaunchcontrol: a running cluster takes over the work of one that has not started. The answer is written to
// shared memory by the asynchronous proxy: word 0 the first block's x, word 1 y and z in 16 bits each, bit 0 of word 2
// whether a cluster was cancelled.
#include <algorithm>
#include <bit>

#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/tcgen05/decode.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

using ptx::Decoder;
using ptx::Operand;
using ptx::Space;

constexpr std::uint32_t kAnswerBytes = 16;

struct TryForm {
  bool shared_space = false, multicast = false;
  AddressPart answer, mbarrier;
};

/// The answer to a request: the first block of a cluster that will not start, or that there is none. The hardware may
/// refuse while there are some (work of higher priority), so random runs do at times.
std::array<std::uint32_t, 4> answer_of(Cluster& c) {
  LaunchState& state = *c.launch;
  if (c.policy == Policy::random && c.random() % 8 == 0) return {};
  const std::uint64_t index = state.next_cluster.fetch_add(1);
  if (index >= state.clusters) return {};
  const Dim3 first = block_of(*state.launch, index, 0);
  return {first.x, first.y | first.z << 16, 1, 0};
}

Block* shared_at(Warp& w, const Op& op, int lane, const AddressPart& p, bool shared_space,
                 std::uint32_t align, std::uint32_t& offset) {
  std::uint64_t a = value_of(w, p, lane);
  if (!shared_space) a -= kSharedWindow;
  Block* const b = a <= 0xffffffffu ? shared_block(w, a, false) : nullptr;
  offset = static_cast<std::uint32_t>(a) & 0xffffffu;
  if (b != nullptr && offset >= kSharedBase && offset + align <= b->smem.size() - 64 && offset % align == 0)
    return b;
  report(w, op, lane, "out-of-bounds",
         "clusterlaunchcontrol: shared address " + std::to_string(a) +
             " must lie in the CTA's memory, on a multiple of " + std::to_string(align));
  abort_cluster(*w.block->cluster);
  return nullptr;
}

/// One target's copy of the answer, on its way as a bulk load is.
BulkCopy answer_copy(Warp& w, const Op& op, int lane, Block& target, std::uint32_t offset,
                     std::uint32_t mbarrier, const std::array<std::uint32_t, 4>& answer) {
  BulkCopy b;
  b.op = &op;
  b.warp = &w;
  b.lane = static_cast<std::uint8_t>(lane);
  b.kind = BulkCopy::Kind::value;
  b.bytes = kAnswerBytes;
  b.targets.push_back(&target);
  b.mbarrier = mbarrier;
  b.mbarrier_block = &target;
  b.runs.push_back({0, offset, kAnswerBytes, false});
  b.staged.resize(kAnswerBytes);
  std::memcpy(b.staged.data(), answer.data(), kAnswerBytes);
  return b;
}

void run_try(Warp& w, const Op& op) {
  const auto& f = *static_cast<const TryForm*>(op.aux);
  Cluster& c = *w.block->cluster;
  ptx::each_lane(w, [&](int lane) {
    if (c.aborted) return;
    LaunchControl& control = unit_of(w).control;
    if (c.findings && control.refused != nullptr)
      report(w, op, lane, "launch-control",
             "asks for another cluster after an answer that there is none was read",
             site_of(w, *control.refused, -1));
    std::uint32_t offset = 0, mbarrier = 0;
    if (shared_at(w, op, lane, f.answer, f.shared_space, kAnswerBytes, offset) == nullptr ||
        shared_at(w, op, lane, f.mbarrier, f.shared_space, 8, mbarrier) == nullptr)
      return;
    const auto answer = answer_of(c);
    std::vector<Block*> targets;
    if (f.multicast)
      for (const auto& b : c.blocks) targets.push_back(b.get());
    else
      targets.push_back(w.block);
    for (Block* t : targets) {
      MBarrier* const m = find_mbarrier(w, op, lane, *t, mbarrier);
      if (m == nullptr) return abort_cluster(c);
      BulkCopy b = answer_copy(w, op, lane, *t, offset, mbarrier, answer);
      b.phase = m->phase;
      if (c.races != nullptr) {
        const std::uint32_t unit = c.races->load_unit(w, mbarrier, t->rank), epoch = c.races->begin(w, unit);
        c.races->access({w, op, lane, *t, offset, kAnswerBytes, true, unit, epoch});
        b.published = c.races->published(w, lane, unit, epoch);
      }
      b.issued = ++c.issued;
      c.bulk.push_back(std::move(b));
      ++c.progress;
      if (c.policy == Policy::eager) complete_bulk(c, c.bulk.size() - 1);
    }
  });
}

/// Whether a cluster was cancelled: bit 0 of word 2, the low word of the upper half.
void run_is_canceled(Warp& w, const Op& op) {
  std::uint32_t& d = *w.out<std::uint32_t>(op.d);
  ptx::each_lane(w, [&](int lane) {
    const bool canceled = (w.value(op.b, 8, lane) & 1) != 0;
    d = (d & ~(1u << lane)) | static_cast<std::uint32_t>(canceled) << lane;
    if (!canceled) unit_of(w).control.refused = &op;
  });
}

/// Word `imm` of the first block's coordinates.
void run_first_block(Warp& w, const Op& op) {
  ptx::each_lane(w, [&](int lane) {
    const std::uint64_t low = w.value(op.a, 8, lane);
    const std::uint64_t parts[4] = {low & 0xffffffffu, low >> 32 & 0xffff, low >> 48, 0};
    w.set(op.d, 4, lane, parts[op.imm]);
  });
}

void decode_try(Decoder& d) {
  only(d, {"try_cancel", "async", "shared::cta", "mbarrier::complete_tx::bytes", "multicast::cluster::all",
           "b128"});
  need(d, {"async", "mbarrier::complete_tx::bytes", "b128"});
  count_operands(d, 2, 2);
  TryForm f;
  f.shared_space = d.has("shared::cta");
  f.multicast = d.has("multicast::cluster::all");
  AddressPart* const parts[] = {&f.answer, &f.mbarrier};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto a = d.address(d.operand(i), f.shared_space ? Space::shared : Space::generic);
    *parts[i] = {a.ref, static_cast<std::uint8_t>(a.size), a.offset};
  }
  d.program.uses_tcgen05 = true;
  d.emit(run_try, Kind::bulk_copy).aux = d.own(f);
}

void decode_query(Decoder& d) {
  only(d, {"query_cancel", "is_canceled", "pred", "get_first_ctaid", "get_first_ctaid::x",
           "get_first_ctaid::y", "get_first_ctaid::z", "v4", "b32", "b128"});
  need(d, {"b128"});
  count_operands(d, 2, 2);
  const auto halves = d.halves(d.operand(1));
  d.program.uses_tcgen05 = true;
  if (d.has("is_canceled")) {
    need(d, {"pred"});
    const Ref r = d.dst(d.operand(0), 3);
    Op& op = d.emit(run_is_canceled, Kind::predicate);
    op.d = r, op.b = halves[1];
    return;
  }
  need(d, {"b32"});
  const auto part = [&](const Operand& to, std::int64_t index) {
    if (to.kind == Operand::Kind::sink) return;
    const Ref r = d.dst(to, 4);
    Op& op = d.emit(run_first_block, Kind::move);
    op.d = r, op.a = halves[0], op.imm = index;
  };
  if (d.has("get_first_ctaid")) {
    need(d, {"v4"});
    if (d.operand(0).items.size() != 4) d.fail("four registers are needed in");
    for (std::size_t i = 0; i < 4; ++i) part(d.operand(0).items[i], static_cast<std::int64_t>(i));
    return;
  }
  const int axis = d.which({"get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"});
  if (axis < 0) d.unsupported();
  part(d.operand(0), axis);
}

}  // namespace

void decode_launch_control(Decoder& d) {
  if (d.has("try_cancel")) return decode_try(d);
  if (d.has("query_cancel")) return decode_query(d);
  d.unsupported();
}

}  // namespace kiln::emulator::tcgen05
