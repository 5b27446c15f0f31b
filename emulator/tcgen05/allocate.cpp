// tcgen05.alloc, dealloc and relinquish_alloc_permit, and what must be in order when a block ends.
#include <algorithm>
#include <bit>

#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/tcgen05/hooks.hpp"
#include "emulator/tcgen05/unit.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

constexpr std::uint16_t kPair = 2;  ///< of Op::flags: cta_group::2

int op_group(const Op& op) {
  return (op.flags & kPair) != 0 ? 2 : 1;
}
Allocator& allocator_of(const Block& b, int group) {
  return b.cluster->tensor->allocators[group == 2 ? b.rank & ~1u : b.rank];
}

bool valid_columns(std::uint32_t n) {
  return n >= 32 && n <= kColumns && std::has_single_bit(n);
}

/// The next step of a pair: what the other CTA did at this point, or (in `steps`) what this one does first.
Allocator::Step* next_step(Warp& w, const Op& op, Allocator& a, std::uint32_t columns) {
  const std::size_t at = a.done[w.block->rank & 1];
  if (at == a.steps.size()) {
    a.steps.push_back({&op, columns, 0, 0});
    return &a.steps.back();
  }
  Allocator::Step& s = a.steps[at];
  if (s.op->run == op.run && s.columns == columns) return &s;
  const Block& peer = *w.block->cluster->blocks[w.block->rank ^ 1];
  report(w, op, -1, "cta-pair", "the CTAs of the pair allocate and free tensor memory in different orders",
         site_of(peer.warps[0], *s.op, -1));
  abort_cluster(*w.block->cluster);
  return nullptr;
}

Allocation take(Warp& w, const Op& op, Allocator& a, std::uint32_t column, std::uint32_t columns) {
  const Allocation n{a.next++, column, columns, &w, &op, 0};
  a.live.push_back(n);
  return n;
}

void block_for_memory(Warp& w, std::uint32_t columns, int group) {
  Wait t;
  t.kind = WaitKind::tensor_memory;
  t.block = w.block;
  t.id = static_cast<std::uint32_t>(group);
  t.value = columns;
  restore_unknown_inputs(w, w.exec);
  w.block_on(t);
}

void check_order(Warp& w, const Op& op, std::uint32_t columns) {
  CtaState& s = cta_of(*w.block);
  if (s.relinquished != nullptr)
    report(w, op, -1, "tmem-alloc",
           "allocates after the CTA has given up the right to (relinquish_alloc_permit)",
           site_of(*s.relinquished_by, *s.relinquished, -1));
  if (columns > s.smallest)
    report(w, op, -1, "tmem-alloc",
           "allocates " + std::to_string(columns) + " columns after an allocation of " +
               std::to_string(s.smallest) + ": a CTA's allocations must not grow",
           site_of(w, *s.smallest_op, -1));
  if (columns < s.smallest) {
    s.smallest = columns;
    s.smallest_op = &op;
  }
}

/// Writes the address to shared memory, as a plain store of the warp.
void write_address(Warp& w, const Op& op, std::uint32_t column) {
  const int lane = std::countr_zero(w.exec);
  const std::uint64_t address = w.value(op.a, op.asize, lane) + static_cast<std::uint64_t>(op.imm);
  const Place p =
      locate(w, op, static_cast<ptx::Space>(op.c), address, 4, lane, kiln::emulator::Access::write);
  if (p.data == nullptr) return abort_cluster(*w.block->cluster);
  ++w.lanes.issue;
  if (RaceTracker* r = w.block->cluster->races.get(); r != nullptr && p.block != nullptr)
    r->access({w, op, lane, *p.block, p.offset, 4, true});
  std::memcpy(p.data, &column, 4);
  ++w.block->cluster->progress;
}

std::uint32_t columns_of(Warp& w, const Op& op) {
  const auto n = static_cast<std::uint32_t>(w.value(op.b, 4, std::countr_zero(w.exec)));
  if (valid_columns(n)) return n;
  report(w, op, -1, "tmem-alloc", std::to_string(n) + " columns: must be 32, 64, 128, 256 or 512");
  abort_cluster(*w.block->cluster);
  return 0;
}

/// The column of the allocation, or kColumns: the warp waits.
std::uint32_t allocate_alone(Warp& w, const Op& op, std::uint32_t columns) {
  Memory& m = cta_of(*w.block).memory;
  const std::uint32_t column = m.find_free(columns);
  if (column == kColumns) {
    block_for_memory(w, columns, 1);
    return kColumns;
  }
  const Allocation a = take(w, op, allocator_of(*w.block, 1), column, columns);
  m.set_owner(column, columns, a.id);
  return column;
}

/// The same in both CTAs of a pair: the first to come chooses, and waits for the other.
std::uint32_t allocate_pair(Warp& w, const Op& op, std::uint32_t columns) {
  Allocator& a = allocator_of(*w.block, 2);
  const std::uint32_t self = w.block->rank & 1;
  Allocator::Step* s = next_step(w, op, a, columns);
  if (s == nullptr) return kColumns;
  Unit& unit = unit_of(w);
  const std::uint32_t leader = w.block->rank & ~1u;
  if (s->id == 0) {
    std::uint32_t column = kColumns;
    for (std::uint32_t at = 0; at + columns <= kColumns && column == kColumns; at += columns) {
      bool free = true;
      for (std::uint32_t c = at; c < at + columns; ++c)
        free = free && unit.cta[leader].memory.owner(c) == 0 && unit.cta[leader + 1].memory.owner(c) == 0;
      if (free) column = at;
    }
    if (column == kColumns) {
      block_for_memory(w, columns, 2);
      return kColumns;
    }
    const Allocation n = take(w, op, a, column, columns);
    for (std::uint32_t r = leader; r < leader + 2; ++r) unit.cta[r].memory.set_owner(column, columns, n.id);
    s->column = column;
    s->id = n.id;
  }
  const std::uint32_t column = s->column;
  a.done[self] = std::max(a.done[self], static_cast<std::size_t>(s - a.steps.data()) + 1);
  return column;
}

/// Frees `columns` columns of an allocation in this CTA; of a pair they are free once both have.
void release(Warp& w, const Op& op, std::uint32_t address, std::uint32_t columns) {
  const int group = op_group(op);
  Allocator& a = allocator_of(*w.block, group);
  const std::uint32_t column = address & 0xffff, self = 1u << (group == 2 ? w.block->rank & 1 : 0);
  const auto it = std::find_if(a.live.begin(), a.live.end(), [&](const Allocation& n) {
    return n.column == column && n.columns == columns && (n.freed & self) == 0;
  });
  if (it == a.live.end() || (address >> 16) != 0) {
    report(w, op, -1, "tmem-alloc",
           "frees " + std::to_string(columns) + " columns at " + std::to_string(column) +
               ", which is no allocation of this CTA");
    return abort_cluster(*w.block->cluster);
  }
  Cluster& c = *w.block->cluster;
  CtaState& s = cta_of(*w.block);
  if (c.races != nullptr) {
    Party p;
    p.warp = &w;
    p.op = &op;
    p.what = Access::store;
    p.write = true;
    s.accesses.check(*c.races, {column, columns, LaneMask::all()}, p,
                     [&](const Party& before, Verdict, std::uint32_t lane, std::uint32_t at) {
                       if (!c.tensor->reported.insert({&op, before.op}).second) return;
                       report(w, op, -1, "tmem-alloc",
                              "frees lane " + std::to_string(lane) + ", column " + std::to_string(at) +
                                  " of tensor memory, and nothing orders this after its last use",
                              site_of(*before.warp, *before.op, before.lane));
                     });
  }
  s.accesses.forget(column, columns);
  it->freed |= self;
  ++c.progress;
  if (group == 1) {
    s.memory.set_owner(column, columns, 0);
  } else if (it->freed == 3) {
    for (std::uint32_t r = w.block->rank & ~1u; r < (w.block->rank | 1) + 1; ++r)
      c.tensor->cta[r].memory.set_owner(column, columns, 0);
  }
  if (group == 1 || it->freed == 3) a.live.erase(it);
}

}  // namespace

std::vector<Block*> ctas_of(Warp& w, const Op& op, int lane, int group) {
  if (group == 1) return {w.block};
  Cluster& c = *w.block->cluster;
  const std::uint32_t leader = w.block->rank & ~1u;
  if (leader + 1 >= c.blocks.size()) {
    report(w, op, lane, "cta-pair",
           "cta_group::2 in a cluster of " + std::to_string(c.blocks.size()) +
               ": the CTA has no peer (an even number of CTAs is needed)");
    abort_cluster(c);
    return {};
  }
  Block& peer = *c.blocks[w.block->rank ^ 1];
  if (peer.live_warps == 0) {
    report(w, op, lane, "cta-pair", "the other CTA of the pair has ended");
    abort_cluster(c);
    return {};
  }
  return {c.blocks[leader].get(), c.blocks[leader + 1].get()};
}

void run_alloc(Warp& w, const Op& op) {
  if (!ptx::converge(w, op, 0xffffffffu)) return;
  const std::uint32_t columns = columns_of(w, op);
  if (columns == 0) return;
  const int group = op_group(op);
  if (ctas_of(w, op, -1, group).empty()) return;
  const std::uint32_t column = group == 1 ? allocate_alone(w, op, columns) : allocate_pair(w, op, columns);
  if (column == kColumns) return;
  check_order(w, op, columns);
  write_address(w, op, column);
}

void run_dealloc(Warp& w, const Op& op) {
  if (!ptx::converge(w, op, 0xffffffffu)) return;
  const std::uint32_t columns = columns_of(w, op);
  if (columns == 0) return;
  if (op_group(op) == 2) {
    Allocator& a = allocator_of(*w.block, 2);
    if (next_step(w, op, a, columns) == nullptr) return;
    ++a.done[w.block->rank & 1];
  }
  release(w, op,
          static_cast<std::uint32_t>(w.value(op.a, 4, std::countr_zero(w.exec)) +
                                     static_cast<std::uint64_t>(op.imm)),
          columns);
}

void run_relinquish(Warp& w, const Op& op) {
  if (!ptx::converge(w, op, 0xffffffffu)) return;
  CtaState& s = cta_of(*w.block);
  s.relinquished = &op;
  s.relinquished_by = &w;
}

bool may_allocate(const Wait& wait) {
  const Unit& unit = *wait.block->cluster->tensor;
  const auto columns = static_cast<std::uint32_t>(wait.value);
  const bool own = unit.cta[wait.block->rank].memory.find_free(columns) != kColumns;
  return wait.id == 1 ? own : own && unit.cta[wait.block->rank ^ 1].memory.find_free(columns) != kColumns;
}

void block_ended(Warp& last) {
  Cluster& c = *last.block->cluster;
  if (c.tensor == nullptr || !c.findings) return;
  const Op& op = c.program->ops[last.pc - 1];
  const std::uint32_t rank = last.block->rank;
  const auto leaks = [&](const Allocator& a, std::uint32_t self) {
    for (const Allocation& n : a.live)
      if ((n.freed & self) == 0)
        report(last, op, -1, "tmem-leak",
               "the block ends and has not freed " + std::to_string(n.columns) + " columns at " +
                   std::to_string(n.column) + " of tensor memory",
               site_of(*n.warp, *n.op, -1));
  };
  const bool pair = !c.tensor->allocators[rank & ~1u].steps.empty();
  leaks(c.tensor->allocators[pair ? rank & ~1u : rank], pair ? 1u << (rank & 1) : 1);
}

}  // namespace kiln::emulator::tcgen05
