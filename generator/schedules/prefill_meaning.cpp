#include "generator/schedules/prefill_meaning.hpp"

#include <algorithm>

#include "generator/config/defaults.hpp"
#include "generator/config/unsupported.hpp"

namespace kiln {

bool check_prefill_meaning(const Config& c, std::string_view schedule,
                           std::initializer_list<std::string_view> own_keys, Violations& out) {
  const auto before = out.size();
  std::vector<std::string_view> keys{
      "kv_dtype",        "out_dtype",     "ov_depth", "mma_shape",  "BM",        "BN",          "BK",
      "num_threads",     "swizzle",       "operand",  "mask",       "score_mod", "sink",        "lse",
      "scale",           "split_kv",      "group",    "rope_depth", "q_depth",   "cache_depth", "nope_depth",
      "head_dim_offset", "num_kv_stages", "v_from_k"};
  keys.insert(keys.end(), own_keys);
  refuse_unsupported(c, schedule, keys, out);

  const Config m = with_shared_defaults(c);
  const auto takes = [&](bool fits, std::string_view pointer, std::string_view what,
                         const std::string& legal) {
    if (!fits) refuse_value(c, pointer, std::string(schedule) + " " + std::string(what), legal, out);
  };
  const auto is_16_bit = [](DType type) { return type == DType::bf16 || type == DType::fp16; };
  const std::string depth = std::to_string(c.depth);
  takes(is_16_bit(c.dtype), "/dtype", "takes bf16 and fp16", "bf16, fp16");
  takes(*m.kv_dtype == c.dtype, "/kv_dtype", "takes kv_dtype equal to dtype",
        std::string(to_string(c.dtype)));
  takes(is_16_bit(*m.out_dtype), "/out_dtype", "writes bf16 and fp16", "bf16, fp16");
  takes(!m.operand->quantization, "/operand/quantization", "takes no scales", "leave it out");
  takes(!*m.v_from_k, "/v_from_k", "reads V from its own tensor", "false");
  takes(c.split_kv.value_or(1) == 1, "/split_kv", "does not split the keys", "1");
  takes(c.group.value_or(1) == 1, "/group", "packs no heads", "1");
  takes(*m.q_depth == c.depth, "/q_depth", "takes q_depth equal to depth", depth);
  takes(*m.cache_depth == c.depth, "/cache_depth", "takes cache_depth equal to depth", depth);
  takes(*m.nope_depth == c.depth, "/nope_depth", "has no rope columns", depth);
  takes(*m.rope_depth == 0, "/rope_depth", "has no rope columns", "0");
  takes(*m.head_dim_offset == 0, "/head_dim_offset", "reads rows from their first column", "0");
  if (!(*m.scale > 0)) {
    break_rule(c, "scale", {"/scale"}, "the maximum is taken before scaling, so scale is positive", "", out);
  }
  for (const auto& [pointer, value] : {std::pair{"/depth", c.depth}, std::pair{"/ov_depth", *m.ov_depth}}) {
    if (value % 16 != 0 || value < 16 || value > 256) {
      break_rule(c, schedule, {pointer}, "depth is a multiple of 16 between 16 and 256",
                 std::to_string(std::clamp((value + 15) / 16 * 16, 16, 256)), out);
    }
  }
  return out.size() == before;
}

}  // namespace kiln
