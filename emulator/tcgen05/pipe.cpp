// The pipe of asynchronous tensor instructions: when they run, and what running them does.
#include <algorithm>

#include "emulator/machine/trace.hpp"
#include "emulator/tcgen05/hooks.hpp"
#include "emulator/tcgen05/unit.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

std::vector<Cta> ctas_at(const PipeOp& o, int group) {
  std::vector<Cta> out;
  Cluster& c = *o.warp->block->cluster;
  const std::uint32_t rank = group == 2 ? o.warp->block->rank & ~1u : o.warp->block->rank;
  for (std::uint32_t r = rank; r < rank + static_cast<std::uint32_t>(group); ++r)
    out.push_back({&c.tensor->cta[r].memory, c.blocks[r]->smem});
  return out;
}

/// A sum over the bytes of an operand, to tell whether the matrix a collector keeps is still that of memory.
std::uint64_t contents_of(const PipeOp& o, const std::vector<Cta>& ctas) {
  const MmaCall& c = o.product;
  const bool of_a = o.buffer == 0;
  std::uint64_t sum = 1469598103934665603ull;
  const auto add = [&](std::uint32_t v) { sum = (sum ^ v) * 1099511628211ull; };
  for (const Cta& cta : ctas) {
    if (of_a && c.shape.a_in_tensor_memory) {
      const Rectangle r = cells_of_a(c);
      for (std::uint32_t lane = 0; lane < kLanes; ++lane)
        for (std::uint32_t i = 0; r.lanes.has(lane) && i < r.columns; ++i)
          add(cta.tensor->lane(lane)[r.column + i]);
      continue;
    }
    std::vector<ByteRange> ranges;
    MmaCall reused = c;  // a buffer has the columns of every shift
    reused.zero_columns.shift = c.i.most_shift;
    matrix_footprint(of_a ? c.desc_a : c.desc_b, of_a ? extent_of_a(c) : extent_of_b(reused), ranges);
    for (const ByteRange& r : ranges)
      for (std::uint32_t i = r.begin; i < r.end && i < cta.shared.size(); ++i) add(cta.shared[i]);
  }
  return sum;
}

/// The collector's buffer may hold an operand from an earlier instruction: it must be the one in memory.
void check_collector(Pipe& pipe, const PipeOp& o, const std::vector<Cta>& ctas) {
  Collected& kept = pipe.collected[o.buffer];
  const MmaCall& c = o.product;
  const std::uint64_t matrix = o.buffer != 0 ? c.desc_b : c.shape.a_in_tensor_memory ? c.a : c.desc_a;
  if (o.collector == Collector::fill) {
    kept = {true, matrix, contents_of(o, ctas), o.op};
    return;
  }
  if (o.collector != Collector::discard) {
    const std::string name = o.buffer == 0 ? "collector::a" : "collector::b" + std::to_string(o.buffer - 1);
    if (!kept.valid)
      report(*o.warp, *o.op, o.lane, "stale-collector", name + " is used, and no instruction has filled it");
    else if (kept.matrix != matrix)
      report(*o.warp, *o.op, o.lane, "stale-collector",
             name + " holds another matrix than the one named here", site_of(*o.warp, *kept.op, -1));
    else if (kept.contents != contents_of(o, ctas))
      report(*o.warp, *o.op, o.lane, "stale-collector",
             name + " was filled before the matrix in memory changed", site_of(*o.warp, *kept.op, -1));
  }
  if (o.collector != Collector::use) kept.valid = false;
}

void check_sparsity(const PipeOp& o, const std::vector<Cta>& ctas) {
  for (const Cta& cta : ctas)
    if (const std::string text = check_metadata(o.product, *cta.tensor); !text.empty())
      return report(*o.warp, *o.op, o.lane, "bad-metadata", text);
}

/// A product for the cycle model. Fewer than 128 rows take the time of 128, but for those that fold D over the lanes: of
/// .ws, and of a pair with 64 rows in each CTA. Each operand row has 32 bytes of K.
void trace_product(const PipeOp& o) {
  const MmaCall& c = o.product;
  const auto n = static_cast<std::uint64_t>(c.i.n), k = static_cast<std::uint64_t>(k_of(c.shape.kind));
  const std::uint64_t rows = c.shape.ws || c.shape.group == 2 ? rows_of(c) : kLanes;
  const std::uint64_t operand_rows =
      n / static_cast<unsigned>(c.shape.group) + (c.shape.a_in_tensor_memory ? 0 : rows_of(c));
  trace(*o.warp, *o.op, TraceEvent::What::mma, 256 / static_cast<std::uint32_t>(k), 32 * operand_rows,
        2 * rows * n * k);
}

void arrive(Cluster& c, const PipeOp& o) {
  for (Block* target : o.targets) {
    MBarrier* m = find_mbarrier(*o.warp, *o.op, o.lane, *target, o.mbarrier);
    if (m == nullptr) continue;
    if (m->pending == 0) report_overrun(*o.warp, *o.op, o.lane, o.mbarrier, *m);
    if (target == o.warp->block)
      trace(*o.warp, *o.op, TraceEvent::What::mma_commit, o.mbarrier - kSharedBase, m->phase);
    join(m->arriving, o.published);
    mbarrier_arrive(c, *m, 1);
  }
}

void run(Cluster& c, Pipe& pipe, const PipeOp& o) {
  ++c.progress;
  switch (o.kind) {
    case PipeOp::Kind::product: {
      const std::vector<Cta> ctas = ctas_at(o, o.product.shape.group);
      if (c.findings && (o.collector != Collector::discard || pipe.collected[o.buffer].valid))
        check_collector(pipe, o, ctas);
      if (c.findings && o.product.shape.sparse) check_sparsity(o, ctas);
      trace_product(o);
      multiply(o.product, ctas);
      for (const Cta& cta : ctas)
        if (o.product.shift_a) shift_down(*cta.tensor, o.product.a & 0xffff);
      c.counters.matrix_flops += std::uint64_t{2} * static_cast<unsigned>(o.product.i.m) *
                                 static_cast<unsigned>(o.product.i.n) *
                                 static_cast<unsigned>(k_of(o.product.shape.kind));
      break;
    }
    case PipeOp::Kind::copy:
      for (const Cta& cta : ctas_at(o, static_cast<const CopyForm*>(o.op->aux)->group))
        copy_to_tensor(o.copy, cta);
      break;
    case PipeOp::Kind::shift:
      for (const Cta& cta : ctas_at(o, static_cast<const ShiftForm*>(o.op->aux)->group))
        shift_down(*cta.tensor, o.address & 0xffff);
      break;
    case PipeOp::Kind::commit:
      arrive(c, o);
      break;
  }
}

/// Columns that an instruction writes or reads, as half-open ranges.
using Columns = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
Columns columns_of(const PipeOp& o) {
  Columns out;
  const auto add = [&](const Rectangle& r) { out.emplace_back(r.column, r.column + r.columns); };
  switch (o.kind) {
    case PipeOp::Kind::product:
      add(cells_of_d(o.product, 0));
      if (o.product.shape.a_in_tensor_memory) add(cells_of_a(o.product));
      if (o.product.shape.sparse) add(cells_of_metadata(o.product));
      if (is_block_scaled(o.product.shape.kind)) {
        add(cells_of_scales(o.product, true));
        add(cells_of_scales(o.product, false));
      }
      break;
    case PipeOp::Kind::copy:
      out.emplace_back(o.copy.to & 0xffff, (o.copy.to & 0xffff) + o.copy.shape.columns());
      break;
    case PipeOp::Kind::shift:
      out.emplace_back(o.address & 0xffff, (o.address & 0xffff) + kShiftColumns);
      break;
    default:
      break;
  }
  return out;
}

bool disjoint(const Columns& a, const Columns& b) {
  for (const auto& [begin, end] : a)
    for (const auto& [from, to] : b)
      if (begin < to && from < end) return false;
  return true;
}

/// Whether instruction `at` of a pipe may run before those in front of it: it shares no column with them, and a commit
/// waits for what its thread issued before. A collector keeps its order.
bool may_overtake(const Pipe& pipe, std::size_t at) {
  const PipeOp& o = pipe.pending[at];
  if (o.collector != Collector::discard) return false;
  const Columns mine = columns_of(o);
  for (std::size_t i = 0; i < at; ++i) {
    const PipeOp& before = pipe.pending[i];
    const bool same_thread = before.warp == o.warp && before.lane == o.lane;
    if (o.kind == PipeOp::Kind::commit ? same_thread : !disjoint(columns_of(before), mine)) return false;
    if (before.collector != Collector::discard) return false;
  }
  return true;
}

void run_at(Cluster& c, Pipe& pipe, std::size_t at) {
  const PipeOp o = std::move(pipe.pending[at]);
  pipe.pending.erase(pipe.pending.begin() + static_cast<std::ptrdiff_t>(at));
  run(c, pipe, o);
}

}  // namespace

void run_front(Cluster& c, Pipe& pipe) {
  run_at(c, pipe, 0);
}

void run_until(Cluster& c, Pipe& pipe, std::uint64_t issued) {
  while (!pipe.pending.empty() && pipe.pending.front().issued <= issued) run_front(c, pipe);
}

void issue(Warp& w, PipeOp op, int group) {
  Cluster& c = *w.block->cluster;
  Pipe& pipe = pipe_of(*w.block, group);
  op.warp = &w;
  op.issued = ++c.issued;
  pipe.pending.push_back(std::move(op));
  ++c.progress;
  if (c.policy == Policy::eager) run_front(c, pipe);
}

void attach(Cluster& c) {
  if (c.program->uses_tcgen05) c.tensor = std::make_shared<Unit>(c.blocks.size());
}

bool anything_pending(const Cluster& c) {
  return c.tensor != nullptr && std::any_of(c.tensor->pipes.begin(), c.tensor->pipes.end(),
                                            [](const Pipe& p) { return !p.pending.empty(); });
}

std::uint64_t newest_awaited(const Cluster& c, const std::vector<const Wait*>& waits) {
  std::uint64_t newest = 0;
  if (c.tensor == nullptr) return newest;
  for (const Pipe& p : c.tensor->pipes)
    for (const PipeOp& o : p.pending)
      for (const Wait* t : waits)
        if (o.kind == PipeOp::Kind::commit && o.mbarrier == t->id &&
            std::find(o.targets.begin(), o.targets.end(), t->block) != o.targets.end())
          newest = std::max(newest, o.issued);
  return newest;
}

void complete_up_to(Cluster& c, std::uint64_t issued) {
  for (Pipe& p : c.tensor->pipes)
    if (std::any_of(p.pending.begin(), p.pending.end(), [&](const PipeOp& o) { return o.issued == issued; }))
      return run_until(c, p, issued);
}

bool complete_one(Cluster& c, bool at_random) {
  if (c.tensor == nullptr) return false;
  std::vector<Pipe*> busy;
  for (Pipe& p : c.tensor->pipes)
    if (!p.pending.empty()) busy.push_back(&p);
  if (busy.empty()) return false;
  if (!at_random) {
    run_front(c, *busy.front());
    return true;
  }
  const std::uint64_t dice = c.random();
  Pipe& pipe = *busy[dice % busy.size()];
  const std::size_t at = (dice >> 16) % std::min<std::size_t>(pipe.pending.size(), 8);
  run_at(c, pipe, may_overtake(pipe, at) ? at : 0);
  return true;
}

}  // namespace kiln::emulator::tcgen05
