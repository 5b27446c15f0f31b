#include "generator/schedules/sm80_decode/key_scales.hpp"

#include "generator/config/quantization.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm80 {

void KeyScales::add_params(std::vector<KernelParam>& params) const {
  if (!p_.quantization) return;
  for (const char* role : {"k_scale", "v_scale"}) params.push_back({KernelParam::Kind::pointer, role, {}});
  if (by_key()) add_scale_strides(params, *p_.config.operand, true);
}

void KeyScales::emit_setup(Writer& w) const {
  if (!by_key()) return;
  w.line("const u32 smem_scales = smem_address(smem_bytes) + {} + warp * {};", p_.smem_scales,
         p_.num_stages * 8 * p_.scale_stage_floats());
}

void KeyScales::emit_names(Writer& w) const {
  if (by_key()) w.line("const int column = 2 * (lane & 3);  // of this lane's scores in groups of 8");
}

void KeyScales::emit_copy(Writer& w, const char* name) const {
  if (!by_key()) return;
  const int groups = p_.k->groups(), bytes = groups % 4 == 0 ? 16 : groups % 2 == 0 ? 8 : 4;
  const int each = bytes / 4;
  w.open("");
  std::string page = "load_page";
  if (p_.operand->chunks() > 1) {
    w.line("const int row_page = __shfl_sync(0xffffffffu, load_page, lane / {} % {});",
           p_.operand->chunk_rows(), p_.operand->chunks());
    page = "row_page";
  }
  const std::string row = "load_row + lane", in_page = p_.operand->row_in_page(row);
  std::string first;
  if (p_.operand->table()) first = fmt::format("{} * {}_scale_stride_page + ", page, name);
  if (operand_form(p_.config.operand->kind).batch_keys())
    first = fmt::format("load.batch * {}_scale_stride_batch + ", name);
  std::string token = in_page;
  if (operand_form(p_.config.operand->kind).ragged_k()) token = "load.sequence.k_start + " + in_page;
  w.line("const float* const {0}_scale_src = {0}_scale + {1}{2};", name, first,
         scale_of_row(*p_.config.operand, name, token, "load.kv_head", groups));
  const std::string valid =
      fmt::format("{}{} < load.sequence.seqlen_k", p_.operand->table() ? page + " >= 0 && " : "", row);
  w.open("if (lane < {})", p_.WN);
  for (int i = 0; i < groups; i += each) {
    w.line("cp_async_small<{}>(smem_scales + stage * {} + {} + lane * {}, {}_scale_src + {}, {});", bytes,
           8 * p_.scale_stage_floats(), (*name == 'v' ? 4 * p_.scale_stage_floats() : 0) + 4 * i, 4 * groups,
           name, i, valid);
  }
  w.close();
  w.close();
}

void KeyScales::emit_item(Writer& w) const {
  if (!p_.head_scale()) return;
  w.line("const float k_factor = k_scale[{0}], v_factor = v_scale[{0}];",
         scale_of_head(*p_.quantization, "s.batch", "s.kv_head"));
}

void KeyScales::emit_tile(Writer& w) const {
  if (!by_key()) return;
  w.line("const float* const k_scales = (const float*)(smem_bytes + {} + warp * {}) + stage * {};",
         p_.smem_scales, p_.num_stages * 8 * p_.scale_stage_floats(), 2 * p_.scale_stage_floats());
  w.line("const float* const v_scales = k_scales + {};", p_.scale_stage_floats());
}

void KeyScales::emit_scores(Writer& w) const {
  if (!p_.head_scale()) return;
  for (int i = 0; i < p_.WN / 2; i += 4)
    w.line("s_acc[{}] *= k_factor; s_acc[{}] *= k_factor; s_acc[{}] *= k_factor; s_acc[{}] *= k_factor;", i,
           i + 1, i + 2, i + 3);
}

}  // namespace kiln::sm80
