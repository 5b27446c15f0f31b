#include "generator/systems/cdna/product.hpp"

#include <algorithm>

namespace kiln::cdna {

// In chunks whose fragments fit a few registers: the fragments of the next chunk are read beside the
/// products of this one, and nothing else moves across its end.
void emit_product(Writer& w, const Product& product) {
  constexpr int kChunkRegisters = 32;
  const KVMmaOp& op = product.buffer.kv_mma_op();
  const int steps = op.steps();
  const int chunk = steps * op.registers_per_step() <= kChunkRegisters ? steps : 1;
  const int strips = product.strips > 0 ? product.strips : product.buffer.num_k_tiles();
  const int begin = product.first_strip * steps / chunk, end = begin + strips * steps / chunk;
  const auto each_step = [&](int i, auto visit) {
    for (int s = i * chunk; s < (i + 1) * chunk; ++s) visit(s / steps, s % steps);
  };
  const auto load = [&](int i) {
    each_step(i, [&](int strip, int step) { op.emit_load(w, strip, step, product.lds_offset); });
  };
  // With one strip of registers a whole strip cannot be read ahead: its slot is in use.
  const bool ahead = product.buffer.reg_num_k_tiles() > 1 || chunk < steps;
  if (ahead) load(begin);
  for (int i = begin; i < end; ++i) {
    const bool next = ahead && i + 1 < end;
    w.comment("strip {}{}{}", i * chunk / steps, chunk == steps ? "" : fmt::format(", step {}", i % steps),
              next ? "; the next fragments first" : "");
    if (!ahead || next) load(ahead ? i + 1 : i);
    each_step(i, [&](int strip, int step) {
      op.emit_mma(w, product.b, product.c, strip, step, product.first && strip == product.first_strip,
                  product.first_operand, product.first_output);
    });
    if (i + 1 < end) w.line("SCHEDULE_FENCE();");
  }
}

void emit_rope_product(Writer& w, const KVBuffer& rope, int lds_offset, int strips) {
  const KVMmaOp& op = rope.kv_mma_op();
  w.open("");
  w.comment("the rotary columns");
  op.emit_registers(w);
  emit_product(w, {rope, lds_offset, "q_reg", "s_acc", false, strips * op.steps()});
  w.close();
}

void emit_scores_product(Writer& w, const Product& product, const RowScales& scales,
                         const ScoreLayout& scores) {
  if (scales.key_groups() == 1) return emit_product(w, product);
  const KVBuffer& k = product.buffer;
  const int strips = scales.columns() / k.kv_mma_op().strip_columns();
  for (int group = 0; group < scales.key_groups(); ++group) {
    Product part = product;
    part.c = "part";
    part.first_strip = group * strips;
    part.strips = std::min(strips, k.num_k_tiles() - part.first_strip);
    emit_product(w, part);
    scales.emit_group_end(w, scores, group);
  }
}

std::vector<ColumnGroup> sliced_columns(const Mfma& mfma, int cols, int slice, bool block) {
  std::vector<ColumnGroup> out;
  for (int first = 0; first < cols; first += slice) {
    const auto part = KVMmaOp::column_groups(mfma, slice, block);
    if (part.empty()) return {};
    for (ColumnGroup group : part) {
      group.first += first, group.mma += first / mfma.shape.m;
      out.push_back(group);
    }
  }
  return out;
}

int slice_columns(const Mfma& mfma, int cols) {
  constexpr int kFewRegisters = 64;
  const int registers = cols / mfma.shape.m * mfma.frag_regs();
  return registers <= kFewRegisters || cols % 128 != 0 ? cols : 128;
}

}  // namespace kiln::cdna
