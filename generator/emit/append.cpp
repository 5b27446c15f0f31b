// The kernel that writes new rows of K and V into a paged cache; of K alone where V lies in its rows. One
// warp a row of one head; two neighbouring elements a lane and step, so that a scale group of 32 elements is
// half a warp.
#include <algorithm>

#include <kiln/error.hpp>
#include <kiln/generator.hpp>
#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/systems/mha_operand.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln {
namespace {

using Granularity = Quantization::Granularity;
using Kind = KernelParam::Kind;
constexpr int kRows = 16, kThreads = 128;

struct AppendPlan {
  Config config;
  MHAOperand operand;
  bool bytes = false;
  bool own_v = true;  ///< V has its own tensor
  int longest = 0;    ///< columns of a row in kv_dtype, K's or V's
  int group =
      0;  ///< elements of a scale that the kernel finds itself; 0: scales are given, or there are none
};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::bad_input, "no append kernel: " + what);
}

AppendPlan plan_append(const Config& user) {
  Config c = with_shared_defaults(user);
  const OperandKind kind = c.operand->kind;
  const DType kv = *c.kv_dtype;
  if (is_amd(c.target))
    refuse(std::string(to_string(c.target)) + " is not supported yet, NVIDIA targets are");
  if (kind != OperandKind::paged && kind != OperandKind::continuous)
    refuse("operands of kind " + std::string(to_string(kind)) + " have no pages");
  if (c.dtype != DType::bf16 && c.dtype != DType::fp16) refuse("new rows are bf16 or fp16");
  if (kv != c.dtype && kv != DType::fp8_e4m3 && kv != DType::int8)
    refuse("rows are stored as they are, as fp8_e4m3 or as int8, not " + std::string(to_string(kv)));
  if (c.rope && *c.rope->dtype != c.dtype) refuse("rotary columns are stored as they are");
  const int columns = k_columns(c);
  for (const int depth : {columns, *c.v_from_k ? columns : *c.ov_depth, c.rope ? *c.rope_depth : 16}) {
    if (depth % 16 != 0 || depth < 16 || depth > 1024) refuse("depth is a multiple of 16 up to 1024");
  }
  AppendPlan p{c,
               MHAOperand(kind, c.operand->page_size.value_or(0), 1),
               size_of(kv) == 1,
               !*c.v_from_k,
               *c.v_from_k ? columns : std::max(columns, *c.ov_depth),
               0};
  if (c.operand->quantization) {
    const Quantization& q = *c.operand->quantization;
    if (!p.bytes) refuse("scales go with fp8_e4m3 and int8");
    if (q.granularity == Granularity::per_token) p.group = p.longest;
    if (q.granularity == Granularity::per_block) p.group = q.block;
    const bool whole = p.group >= p.longest;
    if (p.group > 0 && !whole && p.group != 32 && p.group % 64 != 0)
      refuse("a scale covers 32 elements, a multiple of 64, or a row");
  }
  return p;
}

std::vector<KernelParam> params_of(const AppendPlan& p) {
  std::vector<KernelParam> params;
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  add(Kind::pointer, "q"), add(Kind::pointer, "o");
  for (KernelParam& param : p.operand.params()) params.push_back(std::move(param));
  if (has_rope_tensor(p.config)) {
    add(Kind::pointer, "k_rope");
    for (const char* axis : {"page", "seq", "head"}) add(Kind::i64, fmt::format("k_rope_stride_{}", axis));
  }
  if (p.config.operand->quantization) {
    add(Kind::pointer, "k_scale"), add(Kind::pointer, "v_scale");
    if (p.group > 0) add_scale_strides(params, *p.config.operand, true);
  }
  for (const char* role : {"cu_seqlens_q", "seqlens_k"}) add(Kind::pointer, role);
  add(Kind::i32, "heads_kv");
  for (const char* tensor : {"q", "o"}) {
    for (const char* axis : {"seq", "head"}) add(Kind::i64, fmt::format("{}_stride_{}", tensor, axis));
  }
  if (!p.own_v) {
    std::erase_if(params, [](const KernelParam& param) {
      return param.role == "v" || param.role == "o" || param.role.starts_with("v_") ||
             param.role.starts_with("o_");
    });
  }
  return params;
}

/// New rows of K and V come where others have Q and O; the cache and scales found here are written.
std::string declaration(const AppendPlan& p, const KernelParam& param) {
  const std::string& role = param.role;
  if (param.kind != Kind::pointer) return parameter_text(param);
  if (role == "q" || role == "o") return fmt::format("const u16* new_{}", role == "q" ? "k" : "v");
  if (role == "k_rope") return "u16* k_rope";
  if (role == "k" || role == "v") return fmt::format("{}* {}", p.bytes ? "u8" : "u16", role);
  if (role.ends_with("_scale") && p.group > 0) return "float* " + role;
  return parameter_text(param);
}

void emit_functions(Writer& w, const AppendPlan& p) {
  w.line("typedef unsigned char u8;");
  w.line("typedef unsigned short u16;");
  w.line("typedef unsigned int u32;");
  w.blank();
  p.operand.emit_functions(w);
  if (!p.bytes) return;
  w.open("__device__ __forceinline__ float widen(u16 x)");
  if (p.config.dtype == DType::bf16) {
    w.line("return __uint_as_float((u32)x << 16);");
  } else {
    w.line("float y;");
    w.line("asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x));");
    w.line("return y;");
  }
  w.close();
  w.blank();
  if (*p.config.kv_dtype == DType::int8) {
    w.comment("Nearest int8, halves to even, within 127.");
    w.open("__device__ __forceinline__ u32 narrow(float x)");
    w.line("return (u32)__float2int_rn(fminf(fmaxf(x, -127.0f), 127.0f)) & 0xffu;");
    w.close();
  } else {
    w.comment("Nearest E4M3, halves to even, within 448; below 2^-6 in steps of 2^-9. NaN stays NaN.");
    w.open("__device__ __forceinline__ u32 narrow(float x)");
    w.line("const u32 bits = __float_as_uint(x), sign = bits >> 24 & 0x80u;");
    w.line("const float magnitude = fminf(fabsf(x), 448.0f);");
    w.line("const u32 wide = __float_as_uint(magnitude);");
    w.line("const u32 normal = (wide + 0x7ffffu + (wide >> 20 & 1u) >> 20) - (120u << 3);");
    w.line("const u32 code = magnitude < 0.015625f ? (u32)__float2int_rn(magnitude * 512.0f) : normal;");
    w.line("return sign | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fu : code);");
    w.close();
  }
  w.blank();
}

void emit_row(Writer& w, const AppendPlan& p, const char* name, int depth) {
  const char source = *name == 'k' ? 'q' : 'o';
  const int steps = (depth + 63) / 64;
  const double top = *p.config.kv_dtype == DType::int8 ? 127 : 448;
  w.banner("a row of {}", *name == 'k' ? "K" : "V");
  w.open("");
  w.line("const u16* const from = new_{0} + (first + row) * {1}_stride_seq + head * {1}_stride_head;", name,
         source);
  w.line("{0}* const to = {1} + {2} + head * {1}_stride_head{3};", p.bytes ? "u8" : "u16", name,
         p.operand.row_offset(name, "page", "token"), first_column(p.config));
  for (int i = 0; i < steps; ++i) {
    const bool partial = 64 * i + 64 > depth;
    w.line("const u32 pair_{0} = {1}*(const u32*)(from + {2} + 2 * lane){3};", i,
           partial ? fmt::format("{} + 2 * lane < {} ? ", 64 * i, depth) : "", 64 * i,
           partial ? " : 0u" : "");
  }
  const auto guard = [&](int i) {
    return 64 * i + 64 > depth ? fmt::format("if ({} + 2 * lane < {}) ", 64 * i, depth) : std::string();
  };
  if (!p.bytes) {
    for (int i = 0; i < steps; ++i)
      w.line("{0}*(u32*)(to + {1} + 2 * lane) = pair_{2};", guard(i), 64 * i, i);
    w.close();
    return;
  }
  for (int i = 0; i < steps; ++i)
    w.line("const float low_{0} = widen((u16)pair_{0}), high_{0} = widen((u16)(pair_{0} >> 16));", i);
  const bool scaled = p.config.operand->quantization.has_value();
  const auto granularity = scaled ? p.config.operand->quantization->granularity : Granularity::per_tensor;
  if (p.group > 0) {
    const bool whole = p.group >= depth;
    const int group = whole ? depth : p.group, groups = whole ? 1 : (depth + group - 1) / group;
    w.comment("largest magnitude of each {} elements", group);
    const int per_scale = whole ? steps : std::max(1, group / 64);  // steps that share a scale
    const bool halves = !whole && group == 32;
    for (int g = 0; g * per_scale < steps; ++g) {
      std::string largest = "0.0f";
      for (int i = g * per_scale; i < std::min(steps, (g + 1) * per_scale); ++i)
        largest = fmt::format("fmaxf({0}, fmaxf(fabsf(low_{1}), fabsf(high_{1})))", largest, i);
      w.line("float scale_{} = {};", g, largest);
      for (int step = 1; step < (halves ? 16 : 32); step *= 2)
        w.line("scale_{0} = fmaxf(scale_{0}, __shfl_xor_sync(0xffffffffu, scale_{0}, {1}));", g, step);
      w.line("scale_{0} = scale_{0} > 0.0f ? scale_{0} / {1:.1f}f : 1.0f;", g, top);
      const std::string token = p.operand.row_in_page("token");
      const std::string index = halves ? fmt::format("{} + lane / 16", 2 * g) : std::to_string(g);
      const std::string row = scale_of_row(*p.config.operand, name, token, "head", groups);
      w.line("if ({2}) {0}_scale[page * {0}_scale_stride_page + {1} + {4}] = scale_{3};", name, row,
             halves ? fmt::format("lane % 16 == 0 && {} < {}", index, groups) : "lane == 0", g, index);
    }
    for (int i = 0; i < steps; ++i) {
      w.line(
          "{0}*(u16*)(to + {1} + 2 * lane) = (u16)(narrow(low_{2} / scale_{3}) | narrow(high_{2} / "
          "scale_{3}) << 8);",
          guard(i), 64 * i, i, i / per_scale);
    }
  } else {
    if (scaled)
      w.line("const float scale = {}_scale[{}];", name, granularity == Granularity::per_head ? "head" : "0");
    const char* by = scaled ? " / scale" : "";
    for (int i = 0; i < steps; ++i) {
      w.line("{0}*(u16*)(to + {1} + 2 * lane) = (u16)(narrow(low_{2}{3}) | narrow(high_{2}{3}) << 8);",
             guard(i), 64 * i, i, by);
    }
  }
  w.close();
}

/// Rotary columns, as they are, behind the others or into their own tensor.
void emit_rope(Writer& w, const AppendPlan& p) {
  const int rope = *p.config.rope_depth;
  w.banner("its rotary columns");
  w.open("");
  w.line("const u16* const from = new_k + (first + row) * q_stride_seq + head * q_stride_head + {};",
         k_columns(p.config));
  if (has_rope_tensor(p.config)) {
    w.line("u16* const tail = k_rope + {} + head * k_rope_stride_head;",
           p.operand.row_offset("k_rope", "page", "token"));
  } else {
    w.line("{}* const to = k + {} + head * k_stride_head{};", p.bytes ? "u8" : "u16",
           p.operand.row_offset("k", "page", "token"), first_column(p.config));
    w.line("u16* const tail = (u16*)((u8*)to + {});", *p.config.rope->padded_depth);
  }
  w.line("for (int i = 2 * lane; i < {}; i += 64) *(u32*)(tail + i) = *(const u32*)(from + i);", rope);
  w.close();
}

}  // namespace

KernelSource make_append_kernel(const Config& config) {
  const AppendPlan p = plan_append(config);
  const auto params = params_of(p);
  KernelSource source;
  Manifest& m = source.manifest = manifest_of(p.config, "append_");
  m.num_q_heads = 0;  // it has no queries
  m.num_threads = kThreads;
  m.grid = {GridRule::Kind::tiles, kRows, 1, 0};
  m.params = params;
  m.out_dtype = m.dtype;               // of the new rows, as they come
  if (!p.own_v) m.ov_depth = m.depth;  // what stands for new rows of V are those of K
  m.writes_lse = false;
  m.scale = 1;

  Writer body;
  emit_functions(body, p);
  body.line("extern \"C\" __global__ void __launch_bounds__({})", kThreads);
  std::vector<std::string> declarations;
  for (const KernelParam& param : params) declarations.push_back(declaration(p, param));
  body.open("{}({})", m.entry, wrapped_list(declarations));
  body.line(
      "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.y, batch = blockIdx.z;");
  body.line(
      "const int first = cu_seqlens_q[batch], rows = cu_seqlens_q[batch + 1] - first, length = "
      "seqlens_k[batch];");
  body.comment("new row `row` of a sequence is its token length - rows + row");
  body.open(
      "for (int row = blockIdx.x * {0} + warp; row < min(rows, (int)blockIdx.x * {0} + {0}); row += {1})",
      kRows, kThreads / 32);
  body.line("const int token = length - rows + row;");
  body.line("if (token < 0) continue;");
  body.line("const int page = {};", p.operand.populate("batch", "token", "0", "length"));
  body.line("if (page < 0) continue;  // no page of the pool: nothing is written");
  emit_row(body, p, "k", k_columns(p.config));
  if (p.config.rope) emit_rope(body, p);
  if (p.own_v) emit_row(body, p, "v", *p.config.ov_depth);
  body.close();
  body.close();
  const std::string head = kernel_head(
      m.name, m.config_json, "Writes new rows of K (role q) and V (role o) into the pages of a cache.",
      fmt::format("nvcc -arch={} -cubin {}.cu", m.target, m.name));
  source.head_bytes = head.size();
  source.text = head + body.take();
  return source;
}

}  // namespace kiln
