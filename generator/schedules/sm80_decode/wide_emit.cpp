// The text of sm80_decode and sm80_wide_prefill over wide rows, in the order of the kernel.
#include "base/plural.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm80_decode/wide.hpp"

namespace kiln::sm80 {
namespace {

/// Those of K alone where V lies in its rows.
std::vector<KernelParam> cache_params(const WidePlan& p) {
  std::vector<KernelParam> params = p.operand->params();
  if (!p.v_in_k) return params;
  std::erase_if(params,
                [](const KernelParam& param) { return param.role == "v" || param.role.starts_with("v_"); });
  return params;
}

void emit_setup(Writer& w, const WidePlan& p) {
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;");
  w.comment("two warps share 16 packed rows, and have half of O's columns each");
  w.line("const int warp_row = warp / 2 * 16, half = warp % 2;");
  w.line("const u32 smem_k = smem_address(smem_bytes) + {};", p.smem_k);
  w.line(
      "const u32 smem_q = smem_address(smem_bytes) + warp_row * {} + lane * 16;  // as this lane's fragments",
      p.depth * 2);
  emit_problem(w, p);
  p.hidden.emit_flag(w, p.odd_flag(), "thread == 0");
  if (p.modifier->scale_log2() != "scale_log2")
    w.line("const float scale_log2 = {};  // of modified scores", p.modifier->scale_log2());
}

/// How the rows of a copy are found: one behind the other.
class CopiedRows {
 public:
  explicit CopiedRows(const WidePlan& plan) : p_(plan) {}
  virtual ~CopiedRows() = default;
  CopiedRows(const CopiedRows&) = delete;
  CopiedRows& operator=(const CopiedRows&) = delete;

  /// Declarations, and what follows the step to the next tile.
  virtual void emit_names(Writer&) const {}
  virtual void emit_next(Writer&) const {}
  /// A condition of a row of pass `pass`.
  virtual std::string exists(int pass) const { return fmt::format("{} < s.sequence.seqlen_k", row(pass)); }
  std::string row(int pass) const {
    return pass == 0 ? std::string("load_row")
                     : fmt::format("load_row + {}", pass * p_.copy->rows_per_pass());
  }

 protected:
  const WidePlan& p_;
};

/// By a table, which is asked a tile early.
class TableRows final : public CopiedRows {
 public:
  using CopiedRows::CopiedRows;
  void emit_names(Writer& w) const override {
    for (int pass = 0; pass < p_.copy->passes(); ++pass) w.line("int load_page_{} = -1;", pass);
    w.comment("pages of this thread's rows: asked for a tile early");
    w.open("const auto populate = [&]");
    for (int pass = 0; pass < p_.copy->passes(); ++pass) {
      w.line("load_page_{} = {};", pass,
             p_.operand->populate("s.batch", row(pass), "0", "s.sequence.seqlen_k"));
    }
    w.close(";");
    w.line("populate();");
  }
  void emit_next(Writer& w) const override { w.line("populate();"); }
  std::string exists(int pass) const override { return fmt::format("load_page_{} >= 0", pass); }
};

std::unique_ptr<const CopiedRows> rows_of(const WidePlan& p) {
  if (p.operand->table()) return std::make_unique<TableRows>(p);
  return std::make_unique<CopiedRows>(p);
}

// The copies of a segment's tiles, from its first on.
void emit_loader(Writer& w, const WidePlan& p) {
  const std::unique_ptr<const CopiedRows> rows = rows_of(p);
  w.comment("loads: tiles of this segment in order, {} ahead of the products", p.num_stages - 1);
  for (const WidePlan::Tensor& of : p.tensors())
    w.line("const u16* const {}_base = {};", of.name,
           p.operand->base(of.name, "s.batch", "s.sequence.k_start", "s.kv_head",
                           "8 * k_chunk" + first_column(p.config)));
  w.line("int load_n = s.tile_begin, load_row = load_n * {} + k_row;", p.BN);
  rows->emit_names(w);
  w.open("const auto load_tile = [&](int stage)");
  w.open("if (load_n < s.tile_end)");
  w.line("const u32 slot = stage * {};", p.stage_bytes());
  for (const WidePlan::Tensor& of : p.tensors()) {
    p.copy->emit_from(
        w, of.slot,
        [&](int pass) {
          return fmt::format(
              "{}_base + {}", of.name,
              p.operand->row_offset(of.name, fmt::format("load_page_{}", pass), rows->row(pass)));
        },
        [&](int pass) { return rows->exists(pass); });
  }
  w.line("++load_n, load_row += {};", p.BN);
  rows->emit_next(w);
  w.close();
  w.line("cp_async_commit();");
  w.close(";");
  for (int stage = 0; stage < p.num_stages - 1; ++stage) w.line("load_tile({});", stage);
}

void emit_load_q(Writer& w, const WidePlan& p) {
  emit_query_rows(w, p, "warp_row", 2);
  w.comment("each warp of a pair brings every other step");
  w.line("#pragma unroll 2");
  w.open("for (int step = half; step < {}; step += 2)", p.steps());
  for (int r = 0; r < 2; ++r) {
    w.line("q_reg[{0}] = real_{0} ? load_global_32(q_row_{0} + 16 * step) : 0u;", r);
    w.line("q_reg[{1}] = real_{0} ? load_global_32(q_row_{0} + 16 * step + 8) : 0u;", r, 2 + r);
  }
  w.line("store_shared_128(smem_q + 512 * step, q_reg);");
  w.close();
}

void emit_products(Writer& w, const WidePlan& p) {
  w.comment("S = Q K(n)'");
  w.line("const u32 k_stage = smem_k + stage * {};", p.stage_bytes());
  p.k->emit_construct(w, "k_stage");
  p.k->emit_registers(w);
  for (int step = 0; step < p.steps(); ++step) {
    w.line("load_shared_128(q_reg, smem_q + {});", 512 * step);
    p.k->emit_load(w, step, 0, 0);
    p.k->emit_mma(w, "q_reg", "s_acc", step, 0, step == 0);
  }
  emit_mask(w, p, p.BN);
  w.comment("P = exp2(S - max), O follows the maximum");
  p.softmax->emit_max(w, true, false);
  p.softmax->emit_rescale(w);
  p.softmax->emit_exp(w, 0, p.BN / 2, true);
  const char* pack = pack_name(p.config.dtype);
  w.line("u32 p[{}];  // P: 16 x {} as the A operand", p.BN / 4, p.BN);
  for (int i = 0; i < p.BN / 4; ++i) w.line("p[{}] = {}(s_acc[{}], s_acc[{}]);", i, pack, 2 * i, 2 * i + 1);

  w.comment("O += P V(n), this warp's half of the columns");
  w.line("const u32 v_stage = k_stage + {}half * {};", p.to_v(),
         p.half() / p.kBlockColumns * p.tile.block_bytes());
  p.v->emit_construct(w, "v_stage");
  p.v->emit_registers(w);
  for (int step = 0; step < p.BN / KVMmaOp::MMA_K; ++step) {
    for (int column = 0; column < p.half(); column += p.kBlockColumns) {
      w.comment("keys {} .. {}, columns {} .. {}", 16 * step, 16 * step + 15, column,
                column + p.kBlockColumns - 1);
      for (int first = 0; first < p.kBlockColumns / KVMmaOp::MMA_N; first += p.kChunk) {
        const KVMmaOp::Range chunk{first, p.kChunk};
        p.v->emit_load(w, step, 0, column / p.kBlockColumns * p.tile.block_bytes(), chunk);
        p.v->emit_mma(w, fmt::format("p + {}", 4 * step), fmt::format("o_acc + {}", column / 2), step, 0,
                      false, chunk);
      }
    }
  }
}

void emit_tile(Writer& w, const WidePlan& p) {
  w.line("const int first_key = n * {};", p.BN);
  p.mask->emit_load(w, p.score_context(), "first_key", true);
  w.comment("K(n) has landed, and every warp has finished the tile before: its stage takes the next copies");
  w.line("CP_ASYNC_WAIT({});", p.num_stages - 2);
  w.line("__syncthreads();");
  w.line("load_tile(stage == 0 ? {} : stage - 1);", p.num_stages - 1);
  w.open("if (warp_row < rows)");
  emit_products(w, p);
  w.close();
  w.line("stage = stage == {} ? 0 : stage + 1;", p.num_stages - 1);
}

void emit_epilogue(Writer& w, const WidePlan& p) {
  w.banner("the end of a segment");
  if (p.hidden.on()) {
    w.line("bool odd = false;  // some column of O is not finite");
    if (p.stream->splits()) w.open("if (s.whole)");
    HiddenValues::emit_look(w, HiddenValues::first_rows("o_acc", p.half() / 2), "odd");
    if (p.stream->splits()) w.close();
  }
  emit_finish(w, p, false);
  for (int r = 0; r < 2; ++r) {
    w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, 1);", r);
    w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, 2);", r);
  }
  w.line("const bool first_lane = half == 0 && (lane & 3) == 0;");
  w.line("const int column = half * {} + 2 * (lane & 3);", p.half());
  const bool splits = p.stream->splits();
  if (splits) w.line("float* const part = {};", p.stream->part(p.partial_floats()));
  for (int r = 0; r < 2; ++r) {
    w.open("if (real_{})", r);
    if (splits) w.open("if (s.whole)");
    w.line("const float factor = finish(row_{0}, row_max_{0}, row_sum_{0}, first_lane);", r);
    w.line("{} const dst = output_row(row_{}) + column;", output_pointer(p.out()), r);
    for (int tile = 0; tile < p.half() / 8; ++tile) {
      const auto of = [i = 4 * tile + 2 * r](int e) { return fmt::format("o_acc[{}] * factor", i + e); };
      w.line("{}", store_two(p.out(), fmt::format("dst + {}", 8 * tile), of(0), of(1)));
    }
    if (splits) {
      w.reopen("else");
      w.line("float* const dst = part + row_{} * {} + column;", r, p.ov_depth);
      for (int tile = 0; tile < p.half() / 8; ++tile) {
        w.line("*(float2*)(dst + {}) = make_float2(o_acc[{}], o_acc[{}]);", 8 * tile, 4 * tile + 2 * r,
               4 * tile + 2 * r + 1);
      }
      w.line("if (first_lane) *((float2*)(part + {}) + row_{}) = make_float2(row_max_{}, row_sum_{});",
             p.BM * p.ov_depth, r, r, r);
      w.close();
    }
    w.close();
  }
  if (!splits) return emit_repair(w, p);
  w.banner("a part of an item: the last to arrive combines");
  w.open("if (!s.whole)");
  emit_arrival(w, p);
  w.close();
  emit_repair(w, p);
}

void emit_main(Writer& w, const WidePlan& p) {
  w.banner("work items");
  w.line("float s_acc[{}];  // S: 16 x {} scores", p.BN / 2, p.BN);
  w.line("float o_acc[{}];  // O: 16 x {}, this warp's half of the columns", p.half() / 2, p.half());
  w.line("u32 q_reg[4];  // Q: a step of 16 x 16 as the A operand");
  p.copy->emit_construct(w, "smem_k");
  p.stream->emit_range(w);
  p.stream->emit_loop_open(w);
  w.line(
      "const int rows = min({0}, group * s.sequence.seqlen_q - s.m_block * {0});  // packed rows that exist",
      p.BM);
  w.comment("every warp has finished with Q and K of the segment before");
  w.line("__syncthreads();");
  emit_loader(w, p);
  emit_load_q(w, p);
  emit_limits(w, p);
  emit_reset(w, p, p.half() / 2);
  w.line("int stage = 0;");
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  emit_tile(w, p);
  w.close();
  emit_epilogue(w, p);
  w.close();
}

std::string head_facts(const WidePlan& p) {
  return fmt::format(
      "Schedule {}, {}: {} packed query rows, 16 for two warps; tiles of {} keys, {} "
      "stages, "
      "{} a multiprocessor.\n"
      "Shared memory ({} bytes):\n"
      "  {:>7} .. {:>7}  Q, as fragments\n  {:>7} .. {:>7}  {} stages",
      *p.config.schedule, p.v_in_k ? "V in K's rows" : "wide rows", p.BM, p.BN, p.num_stages,
      number_of(p.ctas_per_sm, "block"), p.smem_bytes, 0, p.smem_k, p.smem_k, p.smem_bytes - 16,
      p.v_in_k ? "K" : "K and V");
}

}  // namespace

KernelSource emit_wide(const WidePlan& p) {
  Prelude prelude("sm80.cuh");
  use_common(prelude, p);
  for (const char* section : {"cp_async", "shared_128"}) prelude.use(section);
  prelude.use(p.config.dtype == DType::bf16 ? "mma_bf16_first" : "mma_fp16_first");
  p.k->use(prelude);
  p.v->use(prelude);
  return decode_source(p, prelude, kernel_params(p, cache_params(p)),
                       p.BN / 8 * p.steps() + p.BN / 16 * p.half() / 8, false, head_facts(p), [&](Writer& w) {
                         emit_setup(w, p);
                         emit_main(w, p);
                       });
}

}  // namespace kiln::sm80
