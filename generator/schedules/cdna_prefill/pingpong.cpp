// The main loop of cdna_prefill_pingpong: the waves of a block in two groups of four, one wave of each on
// every SIMD, half a tile apart. While one group multiplies, the other has its softmax:
//
//   slot      2 n                        2 n + 1                    2 n + 2
//   early     softmax(n)                 O' += V(n) P', S' = K(n+1) softmax(n + 1)
//   late      O' += V(n-1) P', S' = K(n) softmax(n)                 O' += V(n) P', S' = K(n+1)
//
// Both run the same code; one more barrier before the loop makes a group late, and one after it evens the
// count. K(n + 1) and V(n) are read in slots 2 n + 1 and 2 n + 2. So in slot 2 n + 1, and no sooner, K(n + 2)
// and V(n + 1) may start into the stages of K(n) and V(n - 1), and by the end of slot 2 n + 2 they must have
// landed: the early group starts its share with its products and waits after its softmax, the late group the
// other way round.
#include "generator/schedules/cdna_prefill/loops.hpp"

namespace kiln::cdna {
namespace {

/// This group's share of what tile n makes room for: K(n + 2) in n's stage, V(n + 1) in the other.
void emit_loads(Writer& w, const PrefillPlan& p, int stage, const char* group) {
  w.open("if ({} && n + 1 < num_tiles)", group);
  p.v->emit_load_from_dram(w, 1 - stage);
  w.open("if (n + 2 < num_tiles)");
  p.k->emit_load_from_dram(w, stage);
  w.close();
  w.close();
}

/// The end of a slot; `group` has waited for its loads.
void emit_slot_end(Writer& w, const char* group) {
  w.line("SCHEDULE_FENCE();");
  w.line("if ({}) WAIT_LOADS(0);", group);
  w.line("SYNC();");
  w.line("SCHEDULE_FENCE();");
}

class PingpongLoop final : public KvLoop {
 public:
  using KvLoop::KvLoop;
  void use(Prelude& prelude) const override { prelude.use("wait_loads"), prelude.use("priority"); }
  std::string fact() const override {
    return "Two groups of waves half a tile apart: one multiplies while the other has its softmax.\n";
  }
  void emit_first_loads(Writer& w) const override {
    emit_load_k(w, p_, 0);
    p_.v->emit_load_from_dram(w, 0);
    w.open("if ({} + 1 < num_tiles)", p_.first_tile());
    p_.k->emit_load_from_dram(w, 1);
    w.close();
  }
  void emit(Writer& w) const override;
  /// The first S' stands before the loop of the two groups.
  int products_before() const override { return p_.k->products(); }

 protected:
  void emit_tile(Writer& w, int stage) const override;
};

void PingpongLoop::emit_tile(Writer& w, int stage) const {
  w.banner("tile n in stage {}: softmax, while the other group multiplies", stage);
  emit_loads(w, p_, stage, "late");
  open_if_visible(w, *p_.mask, p_.BN);
  emit_softmax(w, p_);
  w.comment("made here: the compiler would move exponentials to where P is used, beside the products");
  for (int i = 0; i < p_.BN / p_.mfma.shape.k; ++i) w.line("__asm volatile(\"\" : \"+v\"(p[{}]));", i);
  w.close();
  emit_slot_end(w, "!late");
  w.banner("products, while the other group has its softmax");
  w.line("PRIORITY(1);");
  emit_loads(w, p_, stage, "!late");
  open_if_visible(w, *p_.mask, p_.BN);
  emit_pv(w, p_, stage * p_.v->stage_bytes());
  w.close();
  w.line("if (++n == num_tiles) break;");
  open_if_visible(w, *p_.mask, p_.BN);
  emit_qk(w, p_, 1 - stage);
  w.close();
  w.line("PRIORITY(0);");
  emit_slot_end(w, "late");
}

void PingpongLoop::emit(Writer& w) const {
  w.line("const bool late = warp >= {};", p_.num_warps / 2);
  w.line("int n = {};", p_.first_tile());
  w.line("WAIT_LOADS_AND_SYNC(0);");
  w.line("if (late) SYNC();");
  open_if_visible(w, *p_.mask, p_.BN);
  emit_qk(w, p_, 0);
  w.close();
  emit_slot_end(w, "late");
  w.open("for (;;)");
  for (int stage = 0; stage < 2; ++stage) emit_tile(w, stage);
  w.close();
  w.line("if (!late) SYNC();");
}

}  // namespace

std::unique_ptr<const KvLoop> pingpong_loop(const PrefillPlan& p) {
  return std::make_unique<PingpongLoop>(p);
}

}  // namespace kiln::cdna
