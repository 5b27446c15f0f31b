// The kernel that writes new rows of K and V into a paged cache; of K alone where V lies in its rows. One
// warp a row of one head; two neighbouring elements a lane and step, so that a scale group of 32 elements is
// half a warp.
#include <algorithm>

#include <kiln/error.hpp>
#include <kiln/generator.hpp>
#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/rope.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/emit/finish.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/emit/writer.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/mha_operand.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln {
namespace {

using Granularity = Quantization::Granularity;
using Kind = KernelParam::Kind;
constexpr int kAppendedRows = 16, kAppendThreads = 128;

/// Of scales that the kernel finds: f32, or those of a format of blocks.
enum class Format { floats, mxfp8, nvfp4 };

struct AppendPlan {
  Config config;
  MHAOperand operand;
  bool bytes = false;
  bool own_v = true;  ///< V has its own tensor
  AppendRotary rotary = {};
  int longest = 0;  ///< columns of a row in kv_dtype, K's or V's
  Format format = Format::floats;
  bool rotates() const { return rotary.pairs != AppendRotary::Pairs::none; }
  int group =
      0;  ///< elements of a scale that the kernel finds itself; 0: scales are given, or there are none
};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::bad_input, "no append kernel: " + what);
}

/// Elements of a scale that the kernel finds itself; 0: scales are given.
int scale_group(const AppendPlan& p, const Quantization& q) {
  if (!p.bytes) refuse("scales go with fp8_e4m3, int8 and fp4_e2m1");
  if (has_block_scales(q)) return q.block;
  const int group = q.granularity == Granularity::per_token   ? p.longest
                    : q.granularity == Granularity::per_block ? q.block
                                                              : 0;
  if (group > 0 && group < p.longest && group != 32 && group % 64 != 0)
    refuse("a scale covers 32 elements, a multiple of 64, or a row");
  return group;
}

void check_types(const Config& c) {
  const DType kv = *c.kv_dtype;
  if (c.dtype != DType::bf16 && c.dtype != DType::fp16) refuse("new rows are bf16 or fp16");
  if (kv != c.dtype && kv != DType::fp8_e4m3 && kv != DType::int8 && kv != DType::fp4_e2m1)
    refuse("rows are stored as they are, as fp8_e4m3, int8 or fp4_e2m1, not " + std::string(to_string(kv)));
  if (kv == DType::fp4_e2m1 && *c.cache_depth != c.depth) refuse("rows of fp4_e2m1 are whole ones");
  if (c.rope && *c.rope->dtype != c.dtype) refuse("rotary columns are stored as they are");
}

AppendPlan plan_append(const Config& user, const AppendRotary& rotary) {
  Config c = with_shared_defaults(user);
  const OperandKind kind = c.operand->kind;
  const DType kv = *c.kv_dtype;
  if (is_amd(c.target))
    refuse(std::string(to_string(c.target)) + " is not supported yet, NVIDIA targets are");
  if (!operand_form(kind).table())
    refuse("operands of kind " + std::string(to_string(kind)) + " have no pages");
  check_types(c);
  const int columns = k_columns(c);
  for (const int depth : {columns, *c.v_from_k ? columns : *c.ov_depth, c.rope ? *c.rope_depth : 16}) {
    if (depth % 16 != 0 || depth < 16 || depth > 1024) refuse("depth is a multiple of 16 up to 1024");
  }
  AppendPlan p{c,      MHAOperand(kind, c.operand->page_size.value_or(0), 1),  size_of(kv) == 1, !*c.v_from_k,
               rotary, *c.v_from_k ? columns : std::max(columns, *c.ov_depth), Format::floats,   0};
  if (p.rotates() && c.rope) refuse("rotary columns that lie apart come rotated");
  if (c.operand->quantization) p.group = scale_group(p, *c.operand->quantization);
  if (has_block_scales(c.operand->quantization))
    p.format = kv == DType::fp4_e2m1 ? Format::nvfp4 : Format::mxfp8;
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
    if (p.format == Format::nvfp4) add(Kind::pointer, "kv_factors");
  }
  for (const char* role : {"cu_seqlens_q", "seqlens_k"}) add(Kind::pointer, role);
  if (p.rotates()) {
    for (const char* role : {"rotary_cos", "rotary_sin", "rotary_seqlens"}) add(Kind::pointer, role);
    add(Kind::i32, "rotary_half"), add(Kind::i32, "rotary_positions");
  }
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
  if (role == "rotary_cos" || role == "rotary_sin") return "const u16* " + role;
  if (role == "k" || role == "v") return fmt::format("{}* {}", p.bytes ? "u8" : "u16", role);
  if (role.ends_with("_scale") && p.group > 0)
    return fmt::format("{}* {}", p.format == Format::floats ? "float" : "u8", role);
  return parameter_text(param);
}

void emit_functions(Writer& w, const AppendPlan& p) {
  Holes holes;
  holes.when("bf16", p.config.dtype == DType::bf16).when("int8", *p.config.kv_dtype == DType::int8);
  w.raw(fill_template("append.cuh", "types", holes));
  p.operand.emit_functions(w);
  if (p.bytes || p.rotates()) w.raw(fill_template("append.cuh", "widen", holes));
  if (p.rotates()) w.raw(fill_template("append.cuh", "rotate_types", holes));
  if (p.bytes) w.raw(fill_template("append.cuh", "bytes", holes));
  if (p.format == Format::mxfp8) w.raw(fill_template("append.cuh", "powers", holes));
  if (p.format == Format::nvfp4) w.raw(fill_template("append.cuh", "fours", holes));
}

/// A scale that the kernel finds: in words, what is stored of it, and what that stands for.
void set_found_scale(Holes& holes, const AppendPlan& p, const std::string& name) {
  const std::string factor = fmt::format("kv_factors[{}]", name == "k" ? 0 : 1);
  struct Texts {
    std::string note, type, stored, as_stored, value;
  } texts;
  switch (p.format) {
    case Format::floats:
      texts = {"their largest magnitude is the largest that " + std::string(to_string(*p.config.kv_dtype)) +
                   " holds",
               "float",
               fmt::format("largest > 0.0f ? largest / {} : 1.0f",
                           *p.config.kv_dtype == DType::int8 ? "127.0f" : "448.0f"),
               "stored", "stored"};
      break;
    case Format::mxfp8:
      texts = {"a power of two that takes their largest exponent to that of e4m3", "u32",
               "power_byte(largest)", "(u8)stored", "power_value(stored)"};
      break;
    case Format::nvfp4:
      texts = {"an e4m3 that, with the factor, takes their largest magnitude to 6", "u32",
               "narrow(largest / 6.0f / " + factor + ")", "(u8)stored", "e4m3_value(stored) * " + factor};
      break;
  }
  holes.text("note", texts.note).text("stored_type", texts.type).text("stored_scale", texts.stored);
  holes.text("as_stored", texts.as_stored).text("scale", texts.value);
}

/// Where scales come from, and which elements share one.
void set_scales(Holes& holes, const AppendPlan& p, const std::string& name, int depth) {
  const auto& quantization = p.config.operand->quantization;
  const bool found = p.group > 0, given = quantization && !found, whole = p.group >= depth;
  const bool parts = found && !whole && p.group < 64;
  const int steps = ceil_div(depth, 64), group = !found ? 0 : whole ? depth : p.group;
  const int groups = found ? ceil_div(depth, group) : 1;
  const int steps_per_scale = !found || whole ? steps : std::max(1, group / 64);
  holes.when("finds_scales", found).when("given_scale", given).when("parts", parts);
  holes.number("group", group).number("groups", groups).number("scales", ceil_div(steps, steps_per_scale));
  holes.number("steps_per_scale", steps_per_scale).number("lanes_per_scale", parts ? p.group / 2 : 32);
  holes.number("parts", parts ? 64 / p.group : 1).when("fours", p.format == Format::nvfp4);
  set_found_scale(holes, p, name);
  holes.text("scale_index", given ? scale_of_head(*quantization, "batch", "head") : "0");
  holes.text("by_scale", found ? fmt::format(" / scale[i / {}]", steps_per_scale) : given ? " / scale" : "");
  holes.text(
      "scale_of_row",
      found ? scale_of_row(*p.config.operand, name, p.operand.row_in_page("token"), "head", groups) : "");
}

std::string rotate_text(const AppendPlan& p, int depth) {
  if (!p.rotates()) return {};
  Holes holes;
  holes.number("steps", ceil_div(depth, 64)).text("row_step", p.rotary.fixed ? "" : " + row");
  holes.when("interleaved", p.rotary.pairs == AppendRotary::Pairs::interleaved);
  return fill_template("append.cuh", "rotate", holes).text();
}

std::string row_text(const AppendPlan& p, const std::string& name, int depth) {
  Holes holes;
  holes.text("tensor", name == "k" ? "K" : "V").text("name", name).text("source", name == "k" ? "q" : "o");
  holes.text("element", p.bytes ? "u8" : "u16").text("first_column", first_column(p.config));
  holes.text("row_offset", p.operand.row_offset(name, "page", "token"));
  holes.number("steps", ceil_div(depth, 64)).when("bytes", p.bytes);
  holes.number("depth", depth).when("partial", depth % 64 != 0);
  holes.text("if_in_row", depth % 64 == 0 ? "" : fmt::format("if (column < {}) ", depth));
  holes.text("rotate", name == "k" ? rotate_text(p, depth) : "");
  set_scales(holes, p, name, depth);
  return fill_template("append.cuh", "row", holes).text();
}

/// Rotary columns, as they are, behind the others or into their own tensor.
std::string rope_text(const AppendPlan& p) {
  if (!p.config.rope) return {};
  const bool own = has_rope_tensor(p.config);
  Holes holes;
  holes.number("columns", k_columns(p.config)).number("rope_depth", *p.config.rope_depth);
  holes.number("padded_depth", own ? 0 : *p.config.rope->padded_depth).when("own_tensor", own);
  holes.text("element", p.bytes ? "u8" : "u16").text("first_column", first_column(p.config));
  holes.text("row_offset", p.operand.row_offset(own ? "k_rope" : "k", "page", "token"));
  return fill_template("append.cuh", "rope", holes).text();
}

Lines kernel_text(const AppendPlan& p, const Manifest& m) {
  std::vector<std::string> declarations;
  for (const KernelParam& param : m.params) declarations.push_back(declaration(p, param));
  Holes holes;
  holes.number("threads", kAppendThreads).number("rows", kAppendedRows).number("warps", kAppendThreads / 32);
  holes.text("entry", m.entry).text("parameters", wrapped_list(declarations));
  holes.text("page", p.operand.populate("batch", "token", "0", "length"));
  holes.text("row_of_k", row_text(p, "k", k_columns(p.config))).text("rope_of_k", rope_text(p));
  holes.text("row_of_v", p.own_v ? row_text(p, "v", *p.config.ov_depth) : "");
  return fill_template("append.cuh", "kernel", holes);
}

}  // namespace

KernelSource make_append_kernel(const Config& config, const AppendRotary& rotary) {
  const AppendPlan p = plan_append(config, rotary);
  const auto params = params_of(p);
  KernelSource source;
  Manifest& m = source.manifest =
      manifest_of(p.config, !p.rotates()                                    ? "append_"
                            : p.rotary.pairs == AppendRotary::Pairs::halves ? "append_halves_"
                                                                            : "append_pairs_");
  m.num_q_heads = 0;  // it has no queries
  m.num_threads = kAppendThreads;
  m.grid = {GridRule::Kind::tiles, kAppendedRows, 1, 0};
  m.params = params;
  m.out_dtype = m.dtype;               // of the new rows, as they come
  if (!p.own_v) m.ov_depth = m.depth;  // what stands for new rows of V are those of K
  m.writes_lse = false;
  m.scale = 1;

  Writer text;
  emit_functions(text, p);
  text.raw(kernel_text(p, m));
  set_text(source, "Writes new rows of K (role q) and V (role o) into the pages of a cache.", text.lines());
  finish_text(source);
  return source;
}

}  // namespace kiln
