#include "generator/schedules/sm80_decode/base.hpp"

#include <algorithm>

#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/schedules/common/decode_text.hpp"
#include "generator/schedules/common/kv_loop_text.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm80 {

ScoreContext DecodeBase::score_context() const {
  ScoreContext context;
  context.rows = {{"position_0", "(s.kv_head * group + packed_0 % group)"},
                  {"position_1", "(s.kv_head * group + packed_1 % group)"}};
  context.batch = "s.batch";
  context.seqlen_q = stream->aligned_rows();
  context.seqlen_k = "s.sequence.seqlen_k";
  return context;
}

Resources DecodeBase::resources() const {
  return {smem_bytes, num_threads, std::min(255, 65536 / num_threads / ctas_per_sm / 8 * 8)};
}

nlohmann::ordered_json DecodeBase::operand_constants() const {
  return operand->constants(BN, static_cast<int>(size_of(*config.kv_dtype)), depth);
}

void DecodeBase::set_row_systems(const Config& c, int keys, int output_columns) {
  // Registers allow eight warps a multiprocessor.
  const TargetInfo& target = target_info(Target::sm_80);
  ctas_per_sm =
      std::clamp(target.processor_smem() / (smem_bytes + target.smem_reserved), 1, 256 / num_threads);
  StreamK::Shape work{c.operand->kind, BM, BN, *c.mask, !c.split_kv, c.split_kv.value_or(1)};
  if (c.operation == Operation::prefill) work.split = false, work.by_rows = true;
  stream.emplace(work);
  ScoreLayout scores = mma_score_layout(keys / 2);
  if (keys == 16) scores.lane_bit = "(first_key & 16) + 2 * (lane & 3)";  // half a word of a mask
  mask.emplace(*c.mask, scores);
  modifier.emplace(*c.score_mod, mma_score_layout(keys / 2));
  OnlineSoftmax::Shape shape;
  shape.score_regs = keys / 2;
  shape.output_regs = output_columns / 2;
  softmax.emplace(shape);
  hidden = HiddenValues::of(c, pack_name(*c.out_dtype));
}

std::vector<KernelParam> kernel_params(const DecodeBase& p, std::vector<KernelParam> cache) {
  using Kind = KernelParam::Kind;
  std::vector<KernelParam> params;
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  add(Kind::pointer, "q"), add(Kind::pointer, "o");
  p.results.add_pointers(params);
  if (!p.stream->by_rows()) add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  for (KernelParam& param : cache) params.push_back(std::move(param));
  add_problem_params(params, *p.stream);
  p.results.add_total(params, p.ragged());
  add_query_strides(params, p.ragged());
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.modifier->factors()) add(Kind::f32, name);
  return without_fixed_heads(std::move(params), p.config);
}

void emit_problem(Writer& w, const DecodeBase& p) {
  kiln::emit_problem(w, *p.stream);
  w.line("const int group = heads_q / heads_kv;  // query heads of a KV head");
}

void emit_query_rows(Writer& w, const DecodeBase& p, const std::string& row, int step) {
  w.comment(
      "Q: packed row r is query position r / group and query head r % group; rows past the last are zeros");
  for (int r = 0; r < 2; ++r) {
    w.line("const int {0}packed_{1} = s.m_block * {2} + {3}, position_{1} = packed_{1} / group;",
           row.empty() ? "" : fmt::format("row_{} = {} + (lane >> 2) + {}, ", r, row, 8 * r), r, p.BM,
           row.empty() ? fmt::format("(lane >> 2) + {}", 8 * r) : fmt::format("row_{}", r));
    w.line("const bool real_{} = {} < rows;", r,
           row.empty() ? fmt::format("(lane >> 2) + {}", 8 * r) : fmt::format("row_{}", r));
    w.line(
        "const u16* const q_row_{0} = q + {1}(s.sequence.q_start + position_{0}) * q_stride_seq + (s.kv_head "
        "* "
        "group + packed_{0} % group) * q_stride_head + {2} * (lane & 3);",
        r, p.ragged() ? "" : "s.batch * q_stride_batch + ", step);
  }
}

void emit_limits(Writer& w, const DecodeBase& p) {
  const std::string first = fmt::format("(s.sequence.seqlen_k - {} + ", p.stream->aligned_rows());
  emit_clean_range(w, *p.mask, p.score_context(), fmt::format("{}s.m_block * {} / group)", first, p.BM),
                   fmt::format("{}(s.m_block * {} + max(rows, 1) - 1) / group)", first, p.BM));
  p.modifier->emit_rows(w, p.score_context());
  p.mask->emit_rows(w, p.score_context());
}

void emit_mask(Writer& w, const DecodeBase& p, int keys) {
  p.modifier->emit_apply(w, p.score_context(), "first_key");
  emit_mask_outside(w, *p.mask, p.score_context(), "first_key", fmt::format("first_key + {}", keys));
}

void emit_reset(Writer& w, const DecodeBase& p, int output_registers) {
  p.softmax->emit_reset(w);
  emit_clear_output(w, output_registers);
}

void emit_finish(Writer& w, const DecodeBase& p, bool scaled) {
  w.comment("1 / sum of a finished row (0 where no key was visible), and its LSE");
  w.open("const auto finish = [&](int row, float maximum, float sum, bool first)");
  if (p.results.sink() || p.results.lse())
    w.line("{}float top = maximum * (scale_log2 * 0.693147181f);", p.results.sink() ? "" : "const ");
  if (p.results.sink() || p.results.lse()) {
    w.line("const int packed = s.m_block * {} + row, head = s.kv_head * group + packed % group;", p.BM);
  }
  if (p.results.sink()) {
    w.comment("the sink is one more logit, without a value");
    w.line("const float logit = sink[head], with_sink = fmaxf(top, logit);");
    w.line(
        "const bool visible = sum != 0.0f;  // some key is, though it may count for nothing beside the sink");
    w.line(
        "const float own = !visible ? 0.0f : top == with_sink ? 1.0f : exp2_approx((top - with_sink) * "
        "1.44269504f);");
    w.line("sum = sum * own + (logit == with_sink ? 1.0f : exp2_approx((logit - with_sink) * 1.44269504f));");
    w.line("top = with_sink;");
  }
  if (p.results.lse()) {
    w.open("if (first)");
    w.line("lse[{} + packed / group] = {} ? top + log2_approx(sum) * 0.693147181f : -kInfinity;",
           p.ragged() ? "(long long)head * total_q + s.sequence.q_start"
                      : "((long long)s.batch * heads_q + head) * s.sequence.seqlen_q",
           p.results.sink() ? "visible" : "sum != 0.0f");
    w.close();
  }
  w.line("return sum != 0.0f ? {}{}rcp_approx(sum) : 0.0f;", scaled ? "v_factor * " : "",
         p.results.sink() ? "own * " : "");
  w.close(";");
  w.comment("first element of O of a packed row");
  w.open("const auto output_row = [&](int row)");
  w.line("const int packed = s.m_block * {} + row;", p.BM);
  w.line(
      "return o + {}(s.sequence.q_start + packed / group) * o_stride_seq + (s.kv_head * group + packed % "
      "group) * "
      "o_stride_head;",
      p.ragged() ? "" : "s.batch * o_stride_batch + ");
  w.close(";");
}

namespace {

void emit_combine(Writer& w, const DecodeBase& p) {
  const int quads = p.ov_depth / 4;
  p.stream->emit_parts(w, p.partial_floats());
  w.open("for (int i = thread; i < rows * {}; i += {})", quads, p.num_threads);
  w.line("const int row = i / {0}, c = i % {0};", quads);
  w.line("float maximum = -kInfinity, sum = 0.0f;");
  w.line("float4 out = make_float4(0.0f, 0.0f, 0.0f, 0.0f);");
  w.line("#pragma unroll 4");
  w.open("for (int other = 0; other < split.parts; ++other)");
  w.line("const float* const from = parts + other * stride + (other == 0 ? shift : 0);");
  w.line("const float2 row_part = __ldcg((const float2*)(from + {}) + row);", p.BM * p.ov_depth);
  w.line("const float4 value = __ldcg((const float4*)(from + row * {}) + c);", p.ov_depth);
  w.line("const float top = fmaxf(maximum, row_part.x);");
  w.line(
      "const float before = rescale_factor(maximum, top, scale_log2), now = rescale_factor(row_part.x, top, scale_log2);");
  w.line("sum = sum * before + row_part.y * now;");
  for (const char* x : {"x", "y", "z", "w"}) w.line("out.{0} = out.{0} * before + value.{0} * now;", x);
  w.line("maximum = top;");
  w.close();
  w.line("const float factor = finish(row, maximum, sum, c == 0);");
  p.hidden.emit_look_at(w, "out");
  w.line("{}", store_four(p.out(), "output_row(row) + 4 * c", "out.x * factor", "out.y * factor",
                          "out.z * factor", "out.w * factor"));
  w.close();
}

}  // namespace

void emit_arrival(Writer& w, const DecodeBase& p) {
  w.line("__threadfence();");
  w.line("__syncthreads();");
  w.line("int* const arrivals_before = (int*)(smem_bytes + {});", p.smem_flag());
  w.line("const Split split = split_of(range, s);");
  w.line("if (thread == 0) *arrivals_before = atomicAdd(item_counters + s.item, 1);");
  w.line("__syncthreads();");
  w.open("if (*arrivals_before == split.parts - 1)");
  w.line("__threadfence();");
  w.line("if (thread == 0) item_counters[s.item] = 0;  // as it was found");
  emit_combine(w, p);
  w.close();
}

void emit_repair(Writer& w, const DecodeBase& p) {
  const HiddenValues::Packed packed{fmt::format("s.m_block * {}", p.BM), p.num_threads / 32, p.BN};
  p.hidden.emit_block_repair(w, p.config, HiddenValues::names_of_item(p.stream->aligned_rows()), packed,
                             p.odd_flag(), "__syncthreads();");
}

void use_common(Prelude& prelude, const DecodeBase& p) {
  for (const char* section : {"smem_address", "load_global_32", "rcp_approx"}) prelude.use(section);
  prelude.use(pack_name(p.config.dtype));
  use_output(prelude, p.out());
  p.results.use(prelude);
  p.softmax->use(prelude);
  p.modifier->use(prelude);
  p.hidden.use(prelude);
  p.stream->use(prelude);
}

KernelSource decode_source(const DecodeBase& p, const Prelude& prelude,
                           const std::vector<KernelParam>& params, int products, bool kv_bytes,
                           const std::string& facts, const std::function<void(Writer&)>& body) {
  KernelSource source;
  Manifest& m = source.manifest = manifest_of(p.config);
  m.num_threads = p.num_threads;
  m.smem_bytes = p.smem_bytes;
  m.grid = {GridRule::Kind::stream_k, p.BM, p.ctas_per_sm, p.BN};
  m.workspace_bytes_per_block = p.stream->workspace_per_block(p.partial_floats());
  m.workspace_bytes_per_item = p.stream->workspace_per_item(p.partial_floats());
  m.params = params;
  m.expectations = {{"mma.sync.aligned.m16n8k16", products}};

  Writer w;
  w.line("#define kInfinity __int_as_float(0x7f800000)");
  w.blank();
  w.raw(prelude.lines());
  emit_fixed_heads(w, p.config);
  p.stream->emit_functions(w);
  p.operand->emit_functions(w);
  w.line("extern \"C\" __global__ void __launch_bounds__({}, {})", p.num_threads, p.ctas_per_sm);
  w.open("{}({})", m.entry,
         parameter_list(params, {.kv_bytes = kv_bytes, .o_floats = p.out() == DType::f32}));
  body(w);
  w.close();
  set_text(source, facts, w.lines());
  return source;
}

}  // namespace kiln::sm80
