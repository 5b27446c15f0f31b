#include "generator/schedules/common/decode_text.hpp"

#include <fmt/format.h>

#include <string_view>

namespace kiln {

void add_problem_params(std::vector<KernelParam>& params, const StreamK& stream) {
  for (const auto& m : stream.members())
    params.push_back({m.type == std::string_view("int") ? KernelParam::Kind::i32 : KernelParam::Kind::pointer,
                      m.role,
                      {}});
}

void emit_problem(Writer& w, const StreamK& stream) {
  std::string members;
  for (const auto& m : stream.members()) members += fmt::format("{}{}", members.empty() ? "" : ", ", m.role);
  w.line("const Problem problem = {{{}}};", members);
}

void add_query_strides(std::vector<KernelParam>& params, bool ragged) {
  for (const char* tensor : {"q", "o"}) {
    for (const char* axis : {"batch", "seq", "head"}) {
      if (ragged && std::string_view(axis) == "batch") continue;
      params.push_back({KernelParam::Kind::i64, fmt::format("{}_stride_{}", tensor, axis), {}});
    }
  }
}

void emit_clean_range(Writer& w, const Mask& mask, const ScoreContext& context, const std::string& first,
                      const std::string& last) {
  if (!mask.has_bits())
    w.line("const int clean_end = {};  // keys before it are hidden from no row by their end",
           mask.end_key(first, context.seqlen_k, context.batch));
  if (mask.bounded_below()) w.line("const int clean_first = {};", mask.first_key(last, context.batch));
}

void emit_mask_outside(Writer& w, const Mask& mask, const ScoreContext& context, const std::string& first_key,
                       const std::string& end) {
  if (mask.has_bits()) return mask.emit_apply(w, context, first_key, {});
  w.open("if ({} > clean_end{})", end,
         mask.bounded_below() ? fmt::format(" || {} < clean_first", first_key) : "");
  mask.emit_apply(w, context, first_key, {});
  w.close();
}

}  // namespace kiln
