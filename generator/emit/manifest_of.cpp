#include "generator/emit/manifest_of.hpp"

#include "generator/config/rope.hpp"
#include "generator/emit/head.hpp"
#include "generator/modifiers/captured.hpp"
#include "generator/modifiers/modifier.hpp"
#include "generator/operands/operand_form.hpp"

namespace kiln {

namespace {

Manifest named(const Config& c, const std::string& name) {
  Manifest m;
  m.name = name;
  m.entry = entry_name(name);
  m.target = std::string(to_string(c.target));
  m.config_json = to_json(c, -1);
  m.operation = c.operation;
  return m;
}

}  // namespace

Manifest manifest_of_rows(const Config& c, const std::string& name, int threads, int rows) {
  Manifest m = named(c, name);
  m.num_threads = threads;
  m.grid = {GridRule::Kind::tiles, rows, 1, 0};
  m.operand = OperandKind::contiguous;
  m.scale = 1;
  return m;
}

Manifest manifest_of(const Config& c, const std::string& prefix) {
  Manifest m = named(c, prefix + config_name(c));
  m.operand = c.operand->kind;
  m.page_size = page_rows(*c.operand);
  m.quantization = c.operand->quantization;
  m.dtype = c.dtype;
  m.kv_dtype = *c.kv_dtype;
  m.out_dtype = *c.out_dtype;
  m.depth = c.depth;
  m.ov_depth = *c.ov_depth;
  m.num_q_heads = c.num_q_heads.value_or(0);
  m.kv_num_heads = c.kv_num_heads.value_or(0);
  // left out where head rows of K and V are read whole
  if (*c.cache_depth != c.depth) {
    m.cache_depth = *c.cache_depth;
    m.head_dim_offset = *c.head_dim_offset;
  }
  if (c.rope) {
    m.rope =
        Manifest::Rope{*c.rope_depth, c.rope->padded_depth.value_or(0), *c.rope->dtype, has_rope_tensor(c)};
  }
  if (c.score_mod && modifier_kind(*c.score_mod).is_expression()) m.captured = captured_of(*c.score_mod);
  m.writes_lse = c.lse.value_or(false);
  m.scale = *c.scale;
  return m;
}

}  // namespace kiln
