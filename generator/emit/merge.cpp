// The kernel that ends a cascade: a row of O over a sequence's own keys takes in the rows over the parts of
// the keys it shares. One warp a row; four neighbouring elements a lane and step.
#include <kiln/cascade_kernels.hpp>
#include <kiln/error.hpp>
#include "generator/config/defaults.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"

namespace kiln {
namespace {

constexpr int kRows = 4, kThreads = 32 * kRows;

// Weights of the results, from the log-sum-exps of the row; -inf is no keys at all. Lane i has that of part
// i.
void emit_weights(Writer& w, int parts) {
  w.line("const long long at = (long long)head * seqlen_q + row, results = (long long)heads_q * seqlen_q;");
  w.line("const float own = lse[at], mine = lane < {} ? lse[(lane + 1) * results + at] : -kInfinity;", parts);
  w.line("float shared = mine;");
  w.line(
      "for (int step = 16; step > 0; step /= 2) shared = fmaxf(shared, __shfl_xor_sync(0xffffffffu, shared, "
      "step));");
  w.comment("nothing to take in; its O may never have been written");
  w.line("if (!__any_sync(0xffffffffu, mine != -kInfinity)) return;");
  w.line("const float top = fmaxf(own, shared);");
  w.line("const float own_share = own == top ? 1.0f : exp2_approx((own - top) * 1.44269504f);");
  w.line("const float my_share = mine == top ? 1.0f : exp2_approx((mine - top) * 1.44269504f);");
  w.line("float sum = my_share;");
  w.line("for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);");
  w.line("sum += own_share;");
  w.line("const float inverse = 1.0f / sum, own_weight = own_share * inverse;");
  w.line("float weight[{}];", parts);
  w.line("#pragma unroll");
  w.line("for (int i = 0; i < {}; ++i) weight[i] = __shfl_sync(0xffffffffu, my_share, i) * inverse;", parts);
}

void emit_row(Writer& w, int ov, int parts, const char* pack) {
  w.line("const u16* const from = q + row * q_stride_seq + head * q_stride_head;");
  w.line("u16* const to = o + row * o_stride_seq + head * o_stride_head;");
  w.line("#pragma unroll");
  w.open("for (int c = 4 * lane; c < {}; c += 128)", ov);
  w.line("uint2 part[{}];", parts);
  w.line("const uint2 own_part = *(const uint2*)(to + c);");
  w.line("#pragma unroll");
  w.open("for (int i = 0; i < {}; ++i)", parts);
  w.comment("a part of no weight may never have been written");
  w.line("part[i] = make_uint2(0, 0);");
  w.line(
      "if (weight[i] > 0.0f) part[i] = *(const uint2*)(from + (long long)i * seqlen_q * q_stride_seq + c);");
  w.close();
  w.line("const float2 own_low = unpack(own_part.x), own_high = unpack(own_part.y);");
  w.line(
      "float4 x = make_float4(own_low.x * own_weight, own_low.y * own_weight, own_high.x * own_weight, "
      "own_high.y * own_weight);");
  w.line("#pragma unroll");
  w.open("for (int i = 0; i < {}; ++i)", parts);
  w.line("const float2 low = unpack(part[i].x), high = unpack(part[i].y);");
  w.line(
      "x.x += low.x * weight[i]; x.y += low.y * weight[i]; x.z += high.x * weight[i]; x.w += high.y * "
      "weight[i];");
  w.close();
  w.line("*(uint2*)(to + c) = make_uint2({0}(x.x, x.y), {0}(x.z, x.w));", pack);
  w.close();
}

}  // namespace

KernelSource make_merge_kernel(const Config& user, int parts) {
  const Config c = with_shared_defaults(user);
  const DType out = *c.out_dtype;
  const int ov = *c.ov_depth;
  if (is_amd(c.target))
    throw Error(ErrorCode::bad_input, "no merge kernel: " + std::string(to_string(c.target)) +
                                          " is not supported yet, NVIDIA targets are");
  if (out != DType::bf16 && out != DType::fp16)
    throw Error(ErrorCode::bad_input, "no merge kernel: rows of O are bf16 or fp16");
  if (ov % 16 != 0 || ov < 16 || ov > 1024)
    throw Error(ErrorCode::bad_input, "no merge kernel: ov_depth is a multiple of 16 up to 1024");
  if (parts < 1 || parts > 32)
    throw Error(ErrorCode::bad_input, "no merge kernel: prefixes have 1 to 32 parts");
  using Kind = KernelParam::Kind;
  KernelSource source;
  Manifest& m = source.manifest;
  m.name = "merge_" + config_name(c);
  m.entry = entry_name(m.name);
  m.target = std::string(to_string(c.target));
  m.config_json = to_json(c, -1);
  m.num_threads = kThreads;
  m.grid = {GridRule::Kind::tiles, kRows, 1, 0};
  m.params = {
      {Kind::pointer, "q", {}},         {Kind::pointer, "o", {}},        {Kind::pointer, "lse", {}},
      {Kind::i32, "seqlen_q", {}},      {Kind::i32, "heads_q", {}},      {Kind::i64, "q_stride_seq", {}},
      {Kind::i64, "q_stride_head", {}}, {Kind::i64, "o_stride_seq", {}}, {Kind::i64, "o_stride_head", {}}};
  m.operation = c.operation;
  m.operand = OperandKind::contiguous;  // rows of all sequences as one
  m.dtype = m.kv_dtype = m.out_dtype = out;
  m.depth = m.ov_depth = ov;
  m.writes_lse = true;
  m.scale = 1;
  const bool overlaps = c.target == Target::sm_90a;  // with the end of the launch before
  if (overlaps) m.expectations.push_back({"griddepcontrol.wait", 1});

  Prelude prelude(overlaps ? "sm90.cuh" : "sm80.cuh");
  if (overlaps) prelude.use("dependent_launch");
  for (const char* section : {"types", "exp2_approx", "log2_approx"}) prelude.use(section);
  prelude.use(out == DType::bf16 ? "pack_bf16" : "pack_fp16");
  const char* pack = out == DType::bf16 ? "pack_bf16" : "pack_fp16";
  Writer w;
  w.line("#define kInfinity __int_as_float(0x7f800000)");
  w.blank();
  w.raw(prelude.text());
  w.comment("Two neighbouring elements as floats.");
  w.open("__device__ __forceinline__ float2 unpack(u32 x)");
  if (out == DType::bf16) {
    w.line("return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));");
  } else {
    w.line("float2 y;");
    w.line(
        R"(asm("{.reg .b16 low, high;\n mov.b32 {low, high}, %2;\n cvt.f32.f16 %0, low;\n cvt.f32.f16 %1, high;}")");
    w.line(R"(    : "=f"(y.x), "=f"(y.y) : "r"(x));)");
    w.line("return y;");
  }
  w.close();
  w.blank();
  w.comment(
      "q: O of the prefixes, part after part. lse: of the suffixes, [heads_q][seqlen_q], then of each part.");
  w.line("extern \"C\" __global__ void __launch_bounds__({})", kThreads);
  w.open(
      "{}(const u16* q, u16* o, float* lse, int seqlen_q, int heads_q, long long q_stride_seq, long long "
      "q_stride_head, long long o_stride_seq, long long o_stride_head)",
      m.entry);
  if (overlaps) w.line("wait_for_launch_before();");
  if (overlaps) w.line("let_next_launch_begin();");
  w.line("const int lane = threadIdx.x % 32, head = blockIdx.y;");
  w.line("const int row = blockIdx.x * {} + threadIdx.x / 32;", kRows);
  w.line("if (row >= seqlen_q) return;");
  emit_weights(w, parts);
  emit_row(w, ov, parts, pack);
  w.line("__syncwarp();  // every lane has read the row's log-sum-exp");
  w.line("if (lane == 0) lse[at] = top + log2_approx(sum) * 0.693147181f;");
  w.close();
  const std::string head = kernel_head(
      m.name, m.config_json, "Merges attention over shared keys into attention over a sequence's own.",
      fmt::format("nvcc -arch={} -cubin {}.cu", m.target, m.name));
  source.head_bytes = head.size();
  source.text = head + w.take();
  return source;
}

}  // namespace kiln
