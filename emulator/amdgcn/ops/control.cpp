// Branches, calls, waits, barriers and what else directs a wave.
#include "emulator/amdgcn/load/module.hpp"
#include "emulator/amdgcn/ops/ops.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u64 = std::uint64_t;

template <auto F>
void branch(Wave& w, const Inst& in) {
  if (F(w)) w.pc = in.target;
}
void jump(Wave& w, u64 address, const Inst& in) {
  const int index = w.grid.program.find(address - kImageBase);
  if (index < 0) throw Error("jump to an address that holds no instruction, by '" + in.text + "'");
  w.pc = index;
}
u64 after(const Inst& in) {
  return kImageBase + in.address + in.size;
}
void getpc(Wave& w, const Inst& in) {
  w.set_scalar64(in.ops[0], after(in));
}
void setpc(Wave& w, const Inst& in) {
  jump(w, w.scalar64(in.ops[0]), in);
}
void swappc(Wave& w, const Inst& in) {
  const u64 to = w.scalar64(in.ops[1]);
  w.set_scalar64(in.ops[0], after(in));
  jump(w, to, in);
}
void call(Wave& w, const Inst& in) {
  w.set_scalar64(in.ops[0], after(in));
  w.pc = in.target;
}
void nothing(Wave&, const Inst&) {}
void wait(Wave& w, const Inst& in) {
  w.trace_wait(in.mod.vmcnt, in.mod.lgkmcnt);
  w.wait(in.mod.vmcnt, in.mod.lgkmcnt);
}
void barrier(Wave& w, const Inst&) {
  w.at_barrier = true;
  w.trace_barrier(false);
}
void end_program(Wave& w, const Inst&) {
  w.drain();
  w.ended = true;
}
void trap(Wave& w, const Inst& in) {
  w.report("trap", in, -1, "the kernel stopped itself with s_trap");
  w.grid.completed = false;
  w.grid.stop = true;
}

}  // namespace

void add_control_ops(OpTable& t) {
  const auto control = [&](const char* name, Exec exec, Class cls, std::uint8_t dsts = 0) {
    t[name] = {.exec = exec, .cls = cls, .num = Num::b64, .dsts = dsts};
  };
  t["s_getpc_b64"] = {.exec = getpc, .cls = Class::salu, .num = Num::b64};
  control("s_branch", branch<([](Wave&) { return true; })>, Class::branch);
  control("s_cbranch_scc0", branch<([](Wave& w) { return !w.scc; })>, Class::branch);
  control("s_cbranch_scc1", branch<([](Wave& w) { return w.scc; })>, Class::branch);
  control("s_cbranch_vccz", branch<([](Wave& w) { return w.s64(kVcc) == 0; })>, Class::branch);
  control("s_cbranch_vccnz", branch<([](Wave& w) { return w.s64(kVcc) != 0; })>, Class::branch);
  control("s_cbranch_execz", branch<([](Wave& w) { return w.exec() == 0; })>, Class::branch);
  control("s_cbranch_execnz", branch<([](Wave& w) { return w.exec() != 0; })>, Class::branch);
  control("s_setpc_b64", setpc, Class::branch);
  control("s_swappc_b64", swappc, Class::branch, 1);
  control("s_call_b64", call, Class::branch, 1);
  control("s_waitcnt", wait, Class::wait);
  control("s_barrier", barrier, Class::barrier);
  control("s_endpgm", end_program, Class::end);
  control("s_endpgm_saved", end_program, Class::end);
  control("s_trap", trap, Class::message);
  for (const char* name : {"s_nop",
                           "s_sleep",
                           "s_setprio",
                           "s_sendmsg",
                           "s_sendmsghalt",
                           "s_sethalt",
                           "s_icache_inv",
                           "s_dcache_inv",
                           "s_dcache_inv_vol",
                           "s_dcache_wb",
                           "s_dcache_wb_vol",
                           "s_incperflevel",
                           "s_decperflevel",
                           "s_ttracedata",
                           "s_wakeup",
                           "s_set_gpr_idx_off",
                           "s_code_end",
                           "buffer_wbl2",
                           "buffer_inv",
                           "buffer_wbinvl1",
                           "buffer_wbinvl1_vol",
                           "buffer_invl2",
                           "s_sched_barrier"}) {
    control(name, nothing, Class::message);
  }
}

}  // namespace kiln::emulator::amdgcn
