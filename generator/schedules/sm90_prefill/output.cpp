// How O leaves an sm90_prefill kernel: rows of floats from the registers; or rounded, swizzled rows by way of shared
// memory and a tensor copy, from a staging of their own or from the place of Q.
#include "generator/emit/output_elements.hpp"
#include "generator/emit/terms.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {
namespace {

/// Floats, a lane two neighbouring columns of two rows.
class FloatRows final : public Output {
 public:
  using Output::Output;
  bool by_address() const override { return true; }
  void emit_prefetch_map(Writer&) const override {}
  void emit_addresses(Writer&) const override {}
  void emit_q_read(Writer& w) const override {
    w.line("if (lane == 0) mbarrier_arrive(mbar_q_empty + 8 * consumer);");
  }
  void emit_scales_read(Writer& w) const override {
    w.line("__syncwarp();  // every lane has read its scales of V");
  }
  void emit_store(Writer& w, const char* scale) const override {
    w.line("float* const out = o + {} + 2 * (lane & 3);", parts_.items->output_row());
    for (int r = 0; r < 2; ++r) {
      w.open("if (row_0 + {} < {})", 8 * r, p_.late("seqlen_q"));
      for (int i = 0; i < p_.ov_depth / 2; i += 4)
        w.line("{}", store_two(DType::f32, fmt::format("out + {} * o_stride_seq + {}", 8 * r, 2 * i),
                               fmt::format("o_acc[{}] * {}_{}", i + 2 * r, scale, r),
                               fmt::format("o_acc[{}] * {}_{}", i + 2 * r + 1, scale, r)));
      w.close();
    }
  }
  const char* written() const override { return "__syncwarp();"; }
};

/// By a staging of their own, which Q's next rows do not wait for.
class StagedRows : public Output {
 public:
  using Output::Output;
  void use(Prelude& prelude) const override { prelude.use("tma_store"), prelude.use("stmatrix"); }
  void add_map(std::vector<KernelParam>& params, const KernelParam& map) const override {
    params.push_back(map);
    params.back().map.dims = parts_.items->store_axes(p_.o_panel_columns(), kBoxRows);
  }
  bool by_address() const override { return false; }
  void emit_addresses(Writer& w) const override {
    const int span = p_.o_span;
    w.comment(
        "stmatrix addresses: row lane % 16 of this warp's 16 rows, chunk lane / 16, swizzled within the span");
    w.line("const u32 o_warp = {} + consumer * {} + warp * {};", plus("smem", p_.smem_o), p_.o_stride(),
           16 * span);
    w.line("const u32 o_row = o_warp + (lane & 15) * {};", span);
    w.line("const u32 o_swizzle = (((u32)lane >> 4) ^ {}) << 4;", swizzle_bits(span, "lane"));
  }
  void emit_q_read(Writer& w) const override {
    w.line("if (lane == 0) mbarrier_arrive(mbar_q_empty + 8 * consumer);");
  }
  void emit_scales_read(Writer& w) const override {
    w.line("__syncwarp();  // every lane has read its scales of V");
  }
  void emit_store(Writer& w, const char* scale) const override {
    w.comment(
        "This warp's 16 rows: registers to shared memory, swizzled, then one box per panel to global memory.");
    emit_staging_free(w);
    for (int step = 0; step < p_.ov_depth / 16; ++step) emit_step(w, step, scale);
    w.line("fence_proxy_async();");
    w.line("__syncwarp();");
    emit_boxes(w);
  }
  void emit_end(Writer& w) const override { w.line("if (lane == 0) bulk_wait_read();"); }

 protected:
  virtual void emit_staging_free(Writer& w) const {
    w.line("if (lane == 0) bulk_wait_read();  // the store of the item before");
    w.line("__syncwarp();");
  }
  /// Lane 0, when the rows are on their way.
  virtual void emit_stored(Writer&) const {}

 private:
  // 16 columns: two of a span's 16-byte chunks.
  void emit_step(Writer& w, int step, const char* scale) const {
    const int panel = step * 16 / p_.o_panel_columns(), chunk = (step * 2) % (p_.o_span / 16), i = 8 * step;
    const auto pair = [&](int r) {
      return fmt::format("{0}(o_acc[{1}] * {3}_{4}, o_acc[{2}] * {3}_{4})", pack_name(*p_.config.out_dtype),
                         i + r, i + r + 1, scale, r / 2 % 2);
    };
    w.line("stmatrix_x4(o_row + {} + ({} ^ o_swizzle), {}, {},", panel * p_.o_tile().panel_bytes(),
           chunk * 16, pair(0), pair(2));
    w.line("            {}, {});", pair(4), pair(6));
  }
  // 16 rows of O from this warp's staging to global memory: a box per panel.
  void emit_boxes(Writer& w) const {
    w.open("if (lane == 0)");
    parts_.items->emit_store_rows(w);
    for (int panel = 0; panel < p_.ov_depth / p_.o_panel_columns(); ++panel)
      w.line("tma_store(&o_map, o_warp + {}, {});", panel * p_.o_tile().panel_bytes(),
             parts_.items->store_place(panel * p_.o_panel_columns()));
    w.line("bulk_commit();");
    emit_stored(w);
    w.close();
  }
};

/// In the place of Q, which goes back when they have left.
class RowsInQ : public StagedRows {
 public:
  using StagedRows::StagedRows;
  void emit_q_read(Writer&) const override {}
  // Its slot is not filled again before the next Q is sent for, which is after the warps have met.
  void emit_scales_read(Writer&) const override {}
  void emit_end(Writer&) const override {}

 protected:
  void emit_staging_free(Writer& w) const override {
    w.line("named_barrier_sync(4 + consumer, 128);  // O takes Q's place: every warp has finished reading Q");
  }
  void emit_stored(Writer& w) const override {
    w.line("bulk_wait_read();");
    w.line("mbarrier_arrive(mbar_q_empty + 8 * consumer);");
  }
};

/// Items without keys hand Q's rows over, too.
class RowsInEmptyQ final : public RowsInQ {
 public:
  using RowsInQ::RowsInQ;
  void emit_empty_producer(Writer& w) const override {
    w.reopen("else if (work.num_blocks == 0)");
    w.comment("no keys: Q's rows are handed over empty, for O");
    parts_.issuer->open_one(w);
    for (int g = 0; g < p_.num_math_warpgroups; ++g) {
      w.line("mbarrier_wait({}, q_phase);", plus("mbar_q_empty", 8 * g));
      w.line("mbarrier_arrive({});", plus("mbar_q_full", 8 * g));
    }
    parts_.issuer->close_one(w);
    w.line("q_phase ^= 1;");
  }
  void emit_empty_consumer(Writer& w) const override {
    w.reopen("else");
    w.comment("no keys, but O takes Q's place: it must be free");
    emit_await_q(w);
  }
};

}  // namespace

void emit_await_q(Writer& w) {
  w.line("mbarrier_wait(mbar_q_full + 8 * consumer, q_phase);");
  w.line("q_phase ^= 1;");
}

std::unique_ptr<const Output> output_of(const Parts& parts) {
  if (parts.plan.o_floats) return std::make_unique<FloatRows>(parts);
  if (parts.plan.hands_over_empty()) return std::make_unique<RowsInEmptyQ>(parts);
  if (!parts.plan.separate_o) return std::make_unique<RowsInQ>(parts);
  return std::make_unique<StagedRows>(parts);
}

}  // namespace kiln::sm90::prefill
