#include "generator/schedules/sm80_decode/key_scales.hpp"

#include "generator/config/quantization.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm80 {
namespace {

class HeadScales final : public KeyScales {
 public:
  using KeyScales::KeyScales;
  void add_params(std::vector<KernelParam>& params) const override { add_scale_pointers(params); }
  void emit_item(Writer& w) const override {
    w.line("const float k_factor = k_scale[{0}], v_factor = v_scale[{0}];",
           scale_of_head(*p_.quantization, "s.batch", "s.kv_head"));
  }
  void emit_scores(Writer& w) const override {
    for (int i = 0; i < p_.WN / 2; i += 4)
      w.line("s_acc[{}] *= k_factor; s_acc[{}] *= k_factor; s_acc[{}] *= k_factor; s_acc[{}] *= k_factor;", i,
             i + 1, i + 2, i + 3);
  }
};

class TokenScales final : public KeyScales {
 public:
  using KeyScales::KeyScales;
  void add_params(std::vector<KernelParam>& params) const override {
    add_scale_pointers(params);
    add_scale_strides(params, *p_.config.operand, true);
  }
  void emit_setup(Writer& w) const override {
    w.line("const u32 smem_scales = smem_address(smem_bytes) + {} + warp * {};", p_.smem_scales,
           p_.num_stages * 8 * p_.scale_stage_floats());
  }
  void emit_names(Writer& w) const override {
    w.line("const int column = 2 * (lane & 3);  // of this lane's scores in groups of 8");
  }
  void emit_copy(Writer& w, const CachedTensor& of) const override {
    const char* const name = of.name;
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
             8 * p_.scale_stage_floats(), of.scales_at + 4 * i, 4 * groups, name, i, valid);
    }
    w.close();
    w.close();
  }
  void emit_tile(Writer& w) const override {
    w.line("const float* const k_scales = (const float*)(smem_bytes + {} + warp * {}) + stage * {};",
           p_.smem_scales, p_.num_stages * 8 * p_.scale_stage_floats(), 2 * p_.scale_stage_floats());
    w.line("const float* const v_scales = k_scales + {};", p_.scale_stage_floats());
  }
};

}  // namespace

std::unique_ptr<const KeyScales> scales_of(const DecodePlan& p) {
  if (p.scale_group > 0) return std::make_unique<TokenScales>(p);
  if (p.head_scale()) return std::make_unique<HeadScales>(p);
  return std::make_unique<KeyScales>(p);
}

}  // namespace kiln::sm80
