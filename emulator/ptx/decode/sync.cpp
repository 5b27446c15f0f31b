// Fences and the instructions that only wait.
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

/// Mbarriers that this warp initialised are there for copies from now on.
void run_mbarrier_fence(Warp& w, const Op&) {
  for (auto& [offset, m] : w.block->mbarriers) m.fenced |= m.init_warp == w.index;
}
void run_proxy_fence(Warp& w, const Op& op) {
  run_mbarrier_fence(w, op);
  if (RaceTracker* r = w.block->cluster->races.get())
    r->proxy_fence(w, w.exec, (op.flags & 2) != 0, (op.flags & 4) != 0);
}
void run_fence(Warp& w, const Op& op) {
  RaceTracker* r = w.block->cluster->races.get();
  if (r == nullptr) return;
  r->fence_lanes(w, w.exec);
  if ((op.flags & 1) == 0) return;
  r->fence(w);
  w.block->cluster->launch->globals->fence(w);
}
/// fence.proxy.tensormap::generic.acquire [map], 128
void run_map_acquire(Warp& w, const Op& op) {
  if (w.block->cluster->races == nullptr) return;
  GlobalRaces& globals = *w.block->cluster->launch->globals;
  each_lane(w, [&](int l) {
    globals.acquire_map(w, op, w.value(op.a, op.asize, l) + static_cast<std::uint64_t>(op.imm));
  });
}
void decode_map_acquire(Decoder& d) {
  const auto a = d.address(d.operand(0), Space::generic);
  Op& op = d.emit(run_map_acquire, Kind::fence);
  op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset;
}
void decode_fence(Decoder& d) {
  if (d.has("tensormap::generic") && d.has("acquire")) return decode_map_acquire(d);
  const bool proxy = d.has("proxy");
  Op& op = d.emit(proxy && (d.has("async") || d.has("async::generic") || d.has("async.shared::cta"))
                      ? run_proxy_fence
                  : d.has("mbarrier_init") ? run_mbarrier_fence
                  : proxy                  ? nothing
                                           : run_fence,
                  Kind::fence);
  const bool shared = d.has("shared::cta") || d.has("shared::cluster"), global = d.has("global");
  op.flags =
      static_cast<std::uint16_t>((d.has("gpu") || d.has("sys") || d.has("gl") ? 1 : 0) |  // other blocks
                                 (global ? 0 : 2) | (shared ? 0 : 4));
}
void decode_hint(Decoder& d) {
  d.emit(nothing, Kind::other);
}

void run_wait_for_launches(Warp& w, const Op&) {
  w.launches_before |= w.exec;
  w.block->waited_for_launches = true;
}
// What the next launch is promised of this one says nothing of those before it: they have ended by then.
void run_launch_dependents(Warp& w, const Op& op) {
  const Cluster& c = *w.block->cluster;
  c.launch->released_dependents.store(true, std::memory_order_relaxed);
  const Launch& launch = *c.launch->launch;
  const std::uint32_t early = w.exec & ~w.launches_before;
  if (!c.findings || !launch.programmatic || launch.touches_early || early == 0) return;
  report(w, op, std::countr_zero(early), "early-access",
         "the next launch may begin before griddepcontrol.wait: the launch before may still be running");
}
void decode_griddepcontrol(Decoder& d) {
  d.emit(d.has("wait") ? run_wait_for_launches : run_launch_dependents, Kind::other);
}

void run_sleep(Warp& w, const Op&) {
  if (w.resumed) return;
  Wait t;
  t.kind = WaitKind::sleep;
  w.block->cluster->slept = true;
  w.block_on(t);
}
void decode_nanosleep(Decoder& d) {
  d.emit(run_sleep, Kind::other);
}

void run_setmaxnreg(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  w.register_budget = static_cast<std::uint32_t>(op.imm);
  // The block's registers: those of every warp that has set its number, 32 lanes each.
  u64 sum = 0;
  for (const Warp& o : w.block->warps) sum += u64{o.register_budget} * 32;
  if (sum > 65536)
    report(w, op, -1, "register-budget",
           "the warps of the block now ask for " + std::to_string(sum) + " registers of 65536");
}
void decode_setmaxnreg(Decoder& d) {
  const std::int64_t n = d.operand(0).value;
  if (d.operand(0).kind != Operand::Kind::integer || n < 24 || n > 256 || n % 8 != 0)
    d.fail("the count must be a multiple of 8 from 24 to 256 in");
  d.emit(run_setmaxnreg, Kind::other).imm = n;
}

}  // namespace

std::vector<DecodeEntry> sync_table() {
  return {
      {"bar", decode_bar},      {"barrier", decode_bar},         {"mbarrier", decode_mbarrier},
      {"fence", decode_fence},  {"membar", decode_fence},        {"griddepcontrol", decode_griddepcontrol},
      {"pmevent", decode_hint}, {"nanosleep", decode_nanosleep}, {"setmaxnreg", decode_setmaxnreg}};
}

}  // namespace kiln::emulator::ptx
