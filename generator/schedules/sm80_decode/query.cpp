#include "generator/schedules/sm80_decode/query.hpp"

namespace kiln::sm80 {
namespace {

/// Row `r`'s part of a step's fragment in q_reg from `reg` on, of columns from `column`, an expression, on.
void emit_fragment(Writer& w, const DecodePlan& p, int r, int reg, const std::string& column,
                   const std::string& upper) {
  if (p.k->bytes())
    return w.line("load_q_interleaved(q_reg + {}, q_row_{} + {}, real_{});", reg + r, r, column, r);
  w.line(
      "q_reg[{0}] = real_{1} ? load_global_32(q_row_{1} + {2}) : 0u; q_reg[{3}] = real_{1} ? "
      "load_global_32(q_row_{1} + {4}) : 0u;",
      reg + r, r, column, reg + 2 + r, upper);
}

class RegisterQuery final : public Query {
 public:
  void emit_registers(Writer& w, const DecodePlan& p) const override {
    w.line("u32 q_reg[{}];  // Q: 16 x {} as the A operand", p.depth / 4, p.depth);
  }
  void emit_load(Writer& w, const DecodePlan& p) const override {
    for (int step = 0; step < p.k->steps(); ++step)
      for (int r = 0; r < 2; ++r)
        emit_fragment(w, p, r, 4 * step, std::to_string(16 * step), std::to_string(16 * step + 8));
  }
};

class SharedQuery final : public Query {
 public:
  void emit_setup(Writer& w, const DecodePlan& p) const override {
    w.line("const u32 smem_q = smem_address(smem_bytes) + {} + lane * 16;  // Q as this lane's fragments",
           p.smem_q);
  }
  void emit_registers(Writer& w, const DecodePlan&) const override {
    w.line("u32 q_reg[8];  // Q: 16 x 32 as the A operand");
  }
  void emit_load(Writer& w, const DecodePlan& p) const override {
    w.comment("every warp reads some of the steps, shared memory gathers them");
    w.open("for (int step = warp; step < {}; step += {})", p.k->steps(), p.num_warps);
    for (int r = 0; r < 2; ++r) {
      if (p.k->bytes()) {
        w.line("load_q_interleaved(q_reg + {0}, q_row_{0} + 16 * step, real_{0});", r);
      } else {
        w.line("q_reg[{0}] = real_{0} ? load_global_32(q_row_{0} + 16 * step) : 0u;", r);
        w.line("q_reg[{1}] = real_{0} ? load_global_32(q_row_{0} + 16 * step + 8) : 0u;", r, 2 + r);
      }
    }
    w.line("store_shared_128(smem_q + 512 * step, q_reg);");
    w.close();
    w.line("__syncthreads();");
  }
};

}  // namespace

const Query& query_of(const DecodePlan& p) {
  static const RegisterQuery in_registers;
  static const SharedQuery shared;
  if (p.q_in_registers) return in_registers;
  return shared;
}

}  // namespace kiln::sm80
