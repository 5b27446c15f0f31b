// Completion of asynchronous work.
#include "emulator/machine/async.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/tcgen05/hooks.hpp"
#include "emulator/tensor/wgmma.hpp"

namespace kiln::emulator {
namespace {

/// Where a lane's copy goes: in the plain case aligned bytes of the block that were written before.
std::uint8_t* destination(Warp& w, const LaneCopy& l) {
  Block& b = *w.block;
  static constexpr std::array<std::uint8_t, 16> kAllWritten = [] {
    std::array<std::uint8_t, 16> a{};
    a.fill(kWritten);
    return a;
  }();
  if ((b.rank == 0 || (l.op->flags & 1) == 0) && (l.shared & (l.bytes - 1u)) == 0 &&
      std::size_t{l.shared} + l.bytes <= b.smem.size() &&
      std::memcmp(b.shadow.data() + l.shared, kAllWritten.data(), l.bytes) == 0)
    return b.smem.data() + l.shared;
  return locate(w, *l.op, ptx::Space::shared, l.shared, l.bytes, l.lane, Access::write).data;
}

void do_copy(Warp& w, const LaneCopy& l) {
  Cluster& c = *w.block->cluster;
  if (l.arrive) {
    if (MBarrier* m = find_mbarrier(w, *l.op, l.lane, *w.block, l.shared)) {
      // Without .noinc the pending count was raised at issue to make room for this arrival.
      if (m->pending == 0) report_overrun(w, *l.op, l.lane, l.shared, *m);
      if (l.published != nullptr) join(m->arriving, *l.published);
      mbarrier_arrive(c, *m, 1);
    }
    return;
  }
  std::uint8_t* const to = destination(w, l);
  if (to == nullptr) return;
  std::uint8_t buffer[16] = {};
  if (l.source_bytes != 0) {
    const GlobalMemory::Impl& m = *c.launch->memory;
    std::memcpy(buffer, m.at(l.global), l.source_bytes);  // checked at issue
  }
  std::memcpy(to, buffer, l.bytes);
  c.counters.async_bytes += l.bytes;
  ++c.progress;
}

void drop_done(std::deque<LaneCopy>& q) {
  while (!q.empty() && q.front().done) q.pop_front();
}

void load_runs(BulkCopy& b, Block& target) {
  const GlobalMemory::Impl& m = *target.cluster->launch->memory;
  for (const BoxRun& r : b.runs) {
    if (r.shared + r.bytes > target.smem.size()) continue;
    std::uint8_t* const smem = target.smem.data();
    if (r.oob)  // the same with any swizzle
      for (std::uint32_t i = 0; i < r.bytes; ++i)
        smem[r.shared + i] = static_cast<std::uint8_t>(b.pattern >> (8 * (i & 7)));
    else
      each_piece(r, [&](std::uint32_t to, std::uint32_t from, std::uint32_t bytes) {
        std::memcpy(smem + to, m.at(r.global + from), bytes);
      });
    if (b.tensor && !r.oob) convert_loaded(b.type, reinterpret_cast<std::byte*>(smem + r.shared), r.bytes);
    std::memset(target.shadow.data() + r.shared, kWritten, r.bytes);
  }
}

void store_runs(Cluster& c, BulkCopy& b) {
  const GlobalMemory::Impl& m = *c.launch->memory;
  std::size_t at = 0;
  for (const BoxRun& r : b.runs) {
    if (!r.oob) {
      std::uint8_t* to = m.at(r.global);
      if (b.reduce) {
        const std::lock_guard lock(c.launch->atomics);
        reduce_elements(b.reduce_op, b.type, reinterpret_cast<std::byte*>(to),
                        reinterpret_cast<const std::byte*>(b.staged.data() + at), r.bytes);
      } else {
        std::memcpy(to, b.staged.data() + at, r.bytes);
      }
      std::memset(m.shadow_at(r.global), kWritten, r.bytes);
    }
    at += r.bytes;
  }
}

void signal(Cluster& c, BulkCopy& b, Block& target) {
  Block& where = b.mbarrier_block != nullptr ? *b.mbarrier_block : target;
  MBarrier* m = find_mbarrier(*b.warp, *b.op, b.lane, where, b.mbarrier);
  if (m == nullptr) return;
  if (c.findings && &target == b.targets.front() && m->phase != b.phase)
    report(*b.warp, *b.op, b.lane, "transaction-count",
           "the mbarrier's phase ended before these " + std::to_string(b.bytes) +
               " bytes arrived: fewer bytes were expected than copied");
  m->last_complete = b.op;
  join(m->arriving, b.published);
  mbarrier_complete_tx(c, *m, b.bytes);
}

}  // namespace

void complete_from(Warp& w, std::size_t first, std::size_t count) {
  auto& q = w.copies.pending;
  const auto complete = [&](LaneCopy& l) {
    if (!l.done) do_copy(w, l);
    l.done = true;
  };
  for (std::size_t i = first; i < std::min(first + count, q.size()); ++i) {
    for (std::size_t before = 0; q[i].arrive && before < i; ++before)
      if (q[before].lane == q[i].lane) complete(q[before]);
    complete(q[i]);
  }
  drop_done(q);
}

void complete_at_once(Warp& w, std::span<const LaneCopy> copies) {
  for (const LaneCopy& l : copies) do_copy(w, l);
}

void complete_copies(Warp& w, std::uint32_t mask, int keep) {
  auto& q = w.copies.pending;
  const auto wanted = [&](const LaneCopy& l) {
    if ((mask >> l.lane & 1) == 0) return false;
    return keep < 0 ||
           static_cast<std::int64_t>(l.group) + keep < static_cast<std::int64_t>(w.copies.committed[l.lane]);
  };
  if (std::all_of(q.begin(), q.end(), wanted)) {
    std::deque<LaneCopy> all;
    all.swap(q);
    for (const LaneCopy& l : all)
      if (!l.done) do_copy(w, l);
    return;
  }
  std::vector<LaneCopy> run;
  std::copy_if(q.begin(), q.end(), std::back_inserter(run),
               [&](const LaneCopy& l) { return !l.done && wanted(l); });
  std::erase_if(q, wanted);
  drop_done(q);
  for (const LaneCopy& l : run) do_copy(w, l);
}

void read_bulk_source(BulkCopy& b) {
  if (b.source_read) return;
  b.source_read = true;
  for (const BoxRun& r : b.runs) {
    const std::size_t at = b.staged.size();
    b.staged.resize(at + r.bytes);
    if (r.shared + r.bytes <= b.source->smem.size())
      each_piece(r, [&](std::uint32_t from, std::uint32_t to, std::uint32_t bytes) {
        std::memcpy(b.staged.data() + at + to, b.source->smem.data() + from, bytes);
      });
  }
}

void complete_bulk(Cluster& c, std::size_t index) {
  BulkCopy b = std::move(c.bulk[index]);
  c.bulk.erase(c.bulk.begin() + static_cast<std::ptrdiff_t>(index));
  ++c.progress;
  c.counters.async_bytes += b.bytes;
  switch (b.kind) {
    case BulkCopy::Kind::load:
      for (Block* t : b.targets) load_runs(b, *t);
      for (Block* t : b.targets) signal(c, b, *t);
      break;
    case BulkCopy::Kind::store:
      read_bulk_source(b);
      store_runs(c, b);
      break;
    case BulkCopy::Kind::shared_to_shared: {
      Block& t = *b.targets.front();
      std::uint8_t* const to = t.smem.data() + b.runs[0].shared;
      const std::uint8_t* const from = b.source->smem.data() + b.source_offset;
      if (b.reduce)
        reduce_elements(b.reduce_op, b.type, reinterpret_cast<std::byte*>(to),
                        reinterpret_cast<const std::byte*>(from), b.bytes);
      else
        std::memmove(to, from, b.bytes);
      std::memset(t.shadow.data() + b.runs[0].shared, kWritten, b.bytes);
      signal(c, b, t);
      break;
    }
    case BulkCopy::Kind::value: {
      Block& t = *b.targets.front();
      std::uint8_t* to = t.smem.data() + b.runs[0].shared;
      if (b.reduce)
        reduce_elements(b.reduce_op, b.type, reinterpret_cast<std::byte*>(to),
                        reinterpret_cast<const std::byte*>(b.staged.data()), b.bytes);
      else
        std::memcpy(to, b.staged.data(), b.bytes);
      std::memset(t.shadow.data() + b.runs[0].shared, kWritten, b.bytes);
      signal(c, b, t);
      break;
    }
  }
}

bool complete_wgmma(Block& b, WgmmaQueue& q, std::uint64_t until) {
  while (q.completed < until) {
    if (q.pending.empty() || q.pending.front().warps != 0xf) return false;
    const WgmmaIssue i = q.pending.front();
    q.pending.pop_front();
    ++q.completed;
    q.done.push_back(i.op);
    if (q.done.size() > 256) {
      q.done.pop_front();
      ++q.first_done;
    }
    const auto& op = *static_cast<const WgmmaOp*>(i.op->aux);
    const int registers = wgmma_d_registers(op);
    const Program& p = *b.cluster->program;
    std::uint32_t* d[4 * 128];
    const std::uint32_t* a[16];
    for (int w = 0; w < 4; ++w) {
      auto* const window = const_cast<std::uint8_t*>(i.registers[w]);
      for (int r = 0; r < registers; ++r)
        d[w * registers + r] =
            reinterpret_cast<std::uint32_t*>(window + p.lists[i.op->target + static_cast<std::size_t>(r)]);
      if (op.a_in_registers)
        for (int r = 0; r < 4; ++r) {
          const Ref ref = p.lists[i.op->target + static_cast<std::size_t>(registers + r)];
          const std::uint8_t* home = (ref & 3) == kConstant ? b.cluster->launch->constants.data() : window;
          a[w * 4 + r] = reinterpret_cast<const std::uint32_t*>(home + (ref & ~3u));
        }
    }
    if (op.sparse || op.a == MatrixType::b1)
      wgmma_rare(op, i.scale_d, d, a, i.metadata ? i.metadata->data() : nullptr, i.desc_a, i.desc_b, b.smem);
    else
      wgmma(op, i.scale_d, d, op.a_in_registers ? a : nullptr, i.desc_a, i.desc_b, b.smem);
    b.cluster->counters.matrix_flops += std::uint64_t{op.sparse ? 1u : 2u} * 64 *
                                        static_cast<unsigned>(op.n) * static_cast<unsigned>(wgmma_k(op));
    ++b.cluster->progress;
  }
  return true;
}

bool anything_pending(const Cluster& c) {
  if (!c.bulk.empty() || tcgen05::anything_pending(c)) return true;
  for (const auto& b : c.blocks) {
    for (const Warp& w : b->warps)
      if (!w.copies.pending.empty()) return true;
    for (const WgmmaQueue& q : b->warpgroups)
      if (!q.pending.empty() && q.pending.front().warps == 0xf) return true;
  }
  return false;
}

namespace {

std::vector<const Wait*> mbarrier_waits(const Cluster& c) {
  std::vector<const Wait*> waits;
  for (const auto& b : c.blocks)
    for (const Warp& w : b->warps)
      for (const Group& g : w.others)
        if (g.wait.kind == WaitKind::mbarrier) waits.push_back(&g.wait);
  return waits;
}

/// Completes the newest operation in flight that signals an mbarrier which some group waits for: whoever
/// waits for a later tile gets as far ahead of the others as the program lets it, while earlier tiles are
/// late. An arrival of cp.async brings what its lane began before, and nothing of other lanes.
bool complete_newest_awaited(Cluster& c) {
  const std::vector<const Wait*> waits = mbarrier_waits(c);
  if (waits.empty()) return false;
  const auto awaited = [&](std::uint32_t mbarrier, const Block* block) {
    return std::any_of(waits.begin(), waits.end(), [&](const Wait* t) {
      return t->id == mbarrier && (block == nullptr || t->block == block);
    });
  };
  std::uint64_t newest = 0;
  std::size_t at = 0;
  Warp* warp = nullptr;
  for (std::size_t i = c.bulk.size(); i-- > 0 && newest == 0;)
    if (c.bulk[i].kind != BulkCopy::Kind::store && awaited(c.bulk[i].mbarrier, nullptr)) {
      newest = c.bulk[i].issued;
      at = i;
    }
  for (const auto& b : c.blocks)
    for (Warp& w : b->warps) {
      const auto& q = w.copies.pending;
      for (std::size_t i = q.size(); i-- > 0 && q[i].issued > newest;)
        if (q[i].arrive && !q[i].done && awaited(q[i].shared, b.get())) {
          newest = q[i].issued;
          warp = &w;
          at = i;
        }
    }
  if (const std::uint64_t commit = tcgen05::newest_awaited(c, waits); commit > newest)
    return tcgen05::complete_up_to(c, commit), true;
  if (warp != nullptr)
    complete_from(*warp, at, 1);
  else if (newest != 0)
    complete_bulk(c, at);
  return newest != 0;
}

}  // namespace

bool complete_one(Cluster& c, bool at_random) {
  if (at_random) {
    const std::uint64_t dice = c.random();
    Block& b = *c.blocks[dice % c.blocks.size()];
    Warp& w = b.warps[(dice >> 8) % b.warps.size()];
    if ((dice >> 20) % 3 == 0 && !w.copies.pending.empty()) {
      complete_from(w, (dice >> 32) % w.copies.pending.size(), 1 + (dice >> 24) % 64);
      return true;
    }
    WgmmaQueue& q = b.warpgroups[static_cast<std::size_t>(w.index) / 4];
    if ((dice >> 20) % 3 == 1 && !q.pending.empty() && q.pending.front().warps == 0xf)
      return complete_wgmma(b, q, q.completed + 1);
    if ((dice >> 23) % 2 == 0 && tcgen05::complete_one(c, true)) return true;
    if (!c.bulk.empty()) {
      complete_bulk(c, (dice >> 32) % c.bulk.size());
      return true;
    }
  }
  // Late completion prefers what some group waits for, so that everything else stays late.
  if (complete_newest_awaited(c)) return true;
  for (const auto& b : c.blocks)
    for (Warp& w : b->warps)
      if (!w.copies.pending.empty()) {
        complete_from(w, 0, 1);
        return true;
      }
  if (!c.bulk.empty()) {
    complete_bulk(c, 0);
    return true;
  }
  if (tcgen05::complete_one(c, false)) return true;
  for (const auto& b : c.blocks)
    for (WgmmaQueue& q : b->warpgroups)
      if (!q.pending.empty() && q.pending.front().warps == 0xf) return complete_wgmma(*b, q, q.completed + 1);
  return false;
}

}  // namespace kiln::emulator
