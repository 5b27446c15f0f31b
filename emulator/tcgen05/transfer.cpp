// tcgen05.ld, tcgen05.st and their waits. A load has read its cells once one of its registers is used or the warp has
// waited; a store has written them once the warp has waited.
#include <algorithm>
#include <bit>

#include "emulator/machine/trace.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/tcgen05/hooks.hpp"
#include "emulator/tcgen05/unit.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

/// The runs of columns that a fragment covers.
std::vector<Rectangle> rectangles(const Fragment& f, std::uint32_t lane, std::uint32_t column) {
  const LaneMask lanes = LaneMask::range(lane, f.lanes());
  std::vector<Rectangle> out{{column, f.columns(), lanes}};
  if (f.shape == Shape::s16x32bx2) out.push_back({column + f.split, f.columns(), lanes});
  return out;
}

std::string place_name(std::uint32_t lane, std::uint32_t column) {
  return "lane " + std::to_string(lane) + ", column " + std::to_string(column);
}

/// Finds the cells of a transfer; false (reported): there are none.
bool locate_cells(Warp& w, const Op& op, const Fragment& f, std::uint32_t& lane, std::uint32_t& column) {
  const int first = std::countr_zero(w.exec);
  const auto address =
      static_cast<std::uint32_t>(w.value(op.a, op.asize, first) + static_cast<std::uint64_t>(op.imm));
  lane = address >> 16;
  column = address & 0xffff;
  const auto refuse = [&](const std::string& text) {
    report(w, op, first, "tmem-access", text);
    return false;
  };
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1)
    if (static_cast<std::uint32_t>(w.value(op.a, op.asize, std::countr_zero(m)) +
                                   static_cast<std::uint64_t>(op.imm)) != address)
      return refuse("lanes of the warp name different addresses of tensor memory");
  const std::uint32_t own = 32 * (static_cast<std::uint32_t>(w.index) % 4);
  if (lane != own && !(f.lanes() == 16 && lane == own + 16))
    return refuse("the address starts at lane " + std::to_string(lane) + ", warp " + std::to_string(w.index) +
                  " reaches lanes " + std::to_string(own) + " to " + std::to_string(own + 31) +
                  (f.lanes() == 16 ? ", from the first or the 16th on" : ", from the first on"));
  const Memory& memory = cta_of(*w.block).memory;
  for (const Rectangle& r : rectangles(f, lane, column))
    for (std::uint32_t c = r.column; c < r.column + r.columns; ++c)
      if (c >= kColumns || memory.owner(c) == 0)
        return refuse(
            "column " + std::to_string(c) +
            (c >= kColumns ? " does not exist (0 to 511)" : " belongs to no allocation of this CTA"));
  return true;
}

const TransferForm& form_of(const Transfer& t) {
  return *static_cast<const TransferForm*>(t.op->aux);
}

/// The fragment's registers, then that of a reduction.
Ref register_of(const Warp& w, const Transfer& t, int r) {
  return w.block->cluster->program->lists[t.op->target + static_cast<std::size_t>(r)];
}

void read_cells(Warp& w, Transfer& t) {
  if (t.done) return;
  t.done = true;
  std::uint32_t* rows[129];
  const int count = t.fragment.registers();
  for (int r = 0; r < form_of(t).registers(); ++r)
    rows[r] = reinterpret_cast<std::uint32_t*>(w.registers.data() + t.window + register_of(w, t, r));
  load_fragment(t.fragment, cta_of(*w.block).memory, t.lane, t.column, rows);
  const auto& reduction = form_of(t).reduction;
  for (int thread = 0; reduction && thread < 32; ++thread)
    rows[count][thread] = reduce(*reduction, rows, count, thread);
}

void write_cells(Warp& w, Transfer& t) {
  if (t.done) return;
  t.done = true;
  const std::uint32_t* rows[128];
  for (int r = 0; r < t.fragment.registers(); ++r)
    rows[r] = t.values.data() + std::size_t{32} * static_cast<std::size_t>(r);
  store_fragment(t.fragment, cta_of(*w.block).memory, t.lane, t.column, rows);
}

/// Its accesses count as the thread's from now on.
void settle(Warp& w, const Transfer& t) {
  const RaceTracker* races = w.block->cluster->races.get();
  if (races == nullptr) return;
  for (const Rectangle& r : rectangles(t.fragment, t.lane, t.column))
    cta_of(*w.block).accesses.complete(w, t.number, races->epoch(w), r);
}

void release_registers(Warp& w, const Transfer& t) {
  for (int r = 0; r < form_of(t).registers(); ++r)
    w.owned[t.state + register_of(w, t, r) / 64] &= static_cast<std::uint8_t>(~4u);
}

void finish_load(Warp& w, Transfer& t) {
  read_cells(w, t);
  settle(w, t);
  release_registers(w, t);
}

/// Registers of cells that nobody wrote hold what nobody knows.
void mark_unknown_cells(Warp& w, const Op& op, const Transfer& t) {
  const Memory& m = cta_of(*w.block).memory;
  const auto rects = rectangles(t.fragment, t.lane, t.column);
  if (std::all_of(rects.begin(), rects.end(), [&](const Rectangle& r) { return m.all_written(r); })) return;
  std::uint32_t of_any = 0;
  for (int r = 0; r < t.fragment.registers(); ++r) {
    std::uint32_t unknown = 0;
    for (int l = 0; l < 32; ++l) {
      const CellOffset at = cell_of(t.fragment, r, l);
      const std::uint32_t column = t.column + at.column;
      if (!m.written(column).has(t.lane + at.lane) ||
          (t.fragment.packed && !m.written(column + 1).has(t.lane + at.lane)))
        unknown |= 1u << l;
    }
    if (unknown != 0) mark_unknown(w, origin_of(w, op), register_of(w, t, r), unknown);
    of_any |= unknown;
  }
  if (form_of(t).reduction)
    mark_unknown(w, origin_of(w, op), register_of(w, t, t.fragment.registers()), of_any);
}

Party party_of(Warp& w, const Transfer& t, Access what) {
  Party p;
  p.warp = &w;
  p.op = t.op;
  p.what = what;
  p.write = what == Access::store;
  p.pending = true;
  p.number = t.number;
  return p;
}

Transfer begin(Warp& w, const Op& op, const Fragment& f, std::uint32_t lane, std::uint32_t column) {
  Transfer t;
  t.op = &op;
  t.fragment = f;
  t.lane = lane;
  t.column = column;
  t.window = w.frame->window;
  t.state = w.frame->state;
  t.number = ++state_of(w).transfers;
  return t;
}

bool at_once(Cluster& c) {
  return !c.findings || c.policy == Policy::eager || (c.policy == Policy::random && (c.random() & 1) != 0);
}

}  // namespace

WarpState& state_of(Warp& w) {
  if (w.tensor == nullptr) w.tensor = std::make_shared<WarpState>();
  return *w.tensor;
}

void run_load(Warp& w, const Op& op) {
  if (!ptx::converge(w, op, 0xffffffffu)) return;
  Cluster& c = *w.block->cluster;
  const Fragment& f = static_cast<const TransferForm*>(op.aux)->fragment;
  std::uint32_t lane = 0, column = 0;
  if (!locate_cells(w, op, f, lane, column)) return abort_cluster(c);
  Transfer t = begin(w, op, f, lane, column);
  if (!c.findings) return read_cells(w, t);
  for (const Rectangle& r : rectangles(f, lane, column)) note(*w.block, r, party_of(w, t, Access::load));
  mark_unknown_cells(w, op, t);
  if (at_once(c)) read_cells(w, t);
  for (int r = 0; r < form_of(t).registers(); ++r) w.owned[t.state + register_of(w, t, r) / 64] |= 4;
  w.checked = true;
  state_of(w).loads.push_back(std::move(t));
}

void run_store(Warp& w, const Op& op) {
  if (!ptx::converge(w, op, 0xffffffffu)) return;
  Cluster& c = *w.block->cluster;
  const Fragment& f = static_cast<const TransferForm*>(op.aux)->fragment;
  std::uint32_t lane = 0, column = 0;
  if (!locate_cells(w, op, f, lane, column)) return abort_cluster(c);
  Transfer t = begin(w, op, f, lane, column);
  const int count = f.registers();
  t.values.resize(std::size_t{32} * static_cast<std::size_t>(count));
  for (int r = 0; r < count; ++r)
    std::copy_n(w.in<std::uint32_t>(register_of(w, t, r)), 32,
                t.values.begin() + 32 * static_cast<std::ptrdiff_t>(r));
  if (!c.findings) return write_cells(w, t);
  Memory& m = cta_of(*w.block).memory;
  for (const Rectangle& r : rectangles(f, lane, column)) {
    note(*w.block, r, party_of(w, t, Access::store));
    m.mark_written(r);
  }
  for (int r = 0; r < count; ++r)
    for (std::uint32_t l = unknown_lanes(w, register_of(w, t, r), w.exec); l != 0; l &= l - 1) {
      const CellOffset at = cell_of(f, r, std::countr_zero(l));
      m.mark_unwritten({column + at.column, f.packed ? 2u : 1u, LaneMask::range(lane + at.lane, 1)});
    }
  if (at_once(c)) write_cells(w, t);
  state_of(w).stores.push_back(std::move(t));
}

void complete_loads(Warp& w) {
  if (w.tensor == nullptr) return;
  auto& loads = w.tensor->loads;
  for (Transfer& t : loads) finish_load(w, t);
  loads.clear();
}

void complete_load_of(Warp& w, std::uint32_t state) {
  auto& loads = state_of(w).loads;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const int count = form_of(loads[i]).registers();
    bool mine = false;
    for (int r = 0; r < count && !mine; ++r)
      mine = loads[i].state + register_of(w, loads[i], r) / 64 == state;
    if (!mine) continue;
    Transfer t = std::move(loads[i]);
    loads.erase(loads.begin() + static_cast<std::ptrdiff_t>(i));
    return finish_load(w, t);
  }
}

void complete_stores(Warp& w) {
  if (w.tensor == nullptr) return;
  auto& stores = w.tensor->stores;
  for (Transfer& t : stores) {
    write_cells(w, t);
    settle(w, t);
  }
  stores.clear();
}

void run_wait(Warp& w, const Op& op) {
  if (!ptx::converge(w, op, 0xffffffffu)) return;
  if (op.flags != 0)
    complete_stores(w);
  else
    complete_loads(w);
  trace(w, op, TraceEvent::What::tensor_wait, op.flags);
}

void warp_ended(Warp& w) {
  if (w.tensor == nullptr) return;
  complete_loads(w);
  for (Transfer& t : w.tensor->stores) write_cells(w, t);  // nobody has waited for them
}

void note(const Block& cta, const Rectangle& r, const Party& party) {
  Cluster& c = *cta.cluster;
  if (c.races == nullptr) return;
  const auto verb = [](const Party& p) {
    static constexpr const char* kNames[] = {
        "tcgen05.ld", "tcgen05.st",    "the accumulator of tcgen05.mma", "tcgen05.mma",
        "tcgen05.cp", "tcgen05.shift", "A of tcgen05.mma.ashift"};
    return kNames[static_cast<std::size_t>(p.what)];
  };
  c.tensor->cta[cta.rank].accesses.note(
      *c.races, r, party, [&](const Party& before, Verdict v, std::uint32_t lane, std::uint32_t column) {
        if (!c.tensor->reported.insert({party.op, before.op}).second) return;
        const std::string what =
            std::string(verb(party)) + (party.write ? " writes " : " reads ") + place_name(lane, column) +
            " of tensor memory" +
            (&cta != party.warp->block ? " of block rank " + std::to_string(cta.rank) : "");
        Finding f;
        f.kind = "tmem-race";
        f.site = site_of(*party.warp, *party.op, party.lane);
        f.has_other = true;
        f.other = site_of(*before.warp, *before.op, before.lane);
        if (v == Verdict::in_order_only) {
          f.severity = Severity::note;
          f.message = what + ", which " + verb(before) + (before.write ? " writes" : " reads") +
                      ": only the order of issue keeps them apart, which PTX does not promise";
        } else {
          f.message = what + ", unordered with " + verb(before) + " of warp " +
                      std::to_string(before.warp->index) + " that " + (before.write ? "writes" : "reads") +
                      " it" + (before.pending ? " and that the warp has not waited for" : "");
        }
        report(c, std::move(f));
      });
}

}  // namespace kiln::emulator::tcgen05
