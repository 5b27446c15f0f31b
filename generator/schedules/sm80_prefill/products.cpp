// The two products of an sm80_prefill tile, and P between them, with the scales of 8-bit keys and values.
#include <algorithm>

#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm80_prefill/parts.hpp"

namespace kiln::sm80 {
namespace {

/// float2 NAME_EIGHT: scales of this lane's two keys of each eight.
template <typename Scale>
void emit_scales(Writer& w, const PrefillPlan& p, const char* name, Scale scale) {
  for (int eight = 0; eight < p.BN / 8; ++eight)
    w.line("const float2 {}_{} = {};", name, eight, scale(eight));
}

// s_acc =, += or *= what `from` holds, each key in its unit.
void emit_scaled_scores(Writer& w, const PrefillPlan& p, int group, const char* from) {
  w.open("");
  emit_scales(w, p, "k_unit", [&](int eight) { return p.scales->k_scale(group, eight); });
  for (int eight = 0; eight < p.BN / 8; ++eight) {
    std::string text;
    for (int i = 4 * eight; i < 4 * eight + 4; ++i) {
      const std::string value = from ? fmt::format("{}[{}] * ", from, i) : "";
      text += fmt::format("{}s_acc[{}] {} {}k_unit_{}.{};", text.empty() ? "" : " ", i,
                          !from        ? "*="
                          : group == 0 ? "="
                                       : "+=",
                          value, eight, i % 2 == 0 ? "x" : "y");
    }
    w.line(text);
  }
  w.close();
}

// P as the A operand, times the scales of V's columns of a group.
void emit_pack(Writer& w, const PrefillPlan& p, int group) {
  const char* pack = pack_name(p.config.dtype);
  if (!p.scales->any()) {
    for (int i = 0; i < p.BN / 4; i += 2) {
      w.line("p[{0}] = {1}(s_acc[{2}], s_acc[{3}]); p[{4}] = {1}(s_acc[{5}], s_acc[{6}]);", i, pack, 2 * i,
             2 * i + 1, i + 1, 2 * i + 2, 2 * i + 3);
    }
    return;
  }
  w.open("");
  emit_scales(w, p, "v_unit", [&](int eight) { return p.scales->v_scale(group, eight); });
  for (int i = 0; i < p.BN / 4; ++i) {
    w.line("p[{0}] = {1}(s_acc[{2}] * v_unit_{4}.x, s_acc[{3}] * v_unit_{4}.y);", i, pack, 2 * i, 2 * i + 1,
           i / 2);
  }
  w.close();
}

}  // namespace

// The fragments of step j + 1 are loaded before the products of step j.
void emit_qk(Writer& w, const Parts& parts, int stage) {
  const PrefillPlan& p = parts.plan;
  w.comment("S = Q K(n)'");
  parts.queries->emit_tile(w);
  p.k->kv_mma_op().emit_registers(w);
  const bool grouped = p.scales->k_groups() > 1;
  if (grouped) w.line("float part[{}];  // products of the columns with one scale", p.BN / 2);
  struct Step {
    int bk_tile, k_mma;
  };
  std::vector<Step> steps;
  for (int bk_tile = 0; bk_tile < p.k->num_k_tiles(); ++bk_tile) {
    for (int k_mma = 0; k_mma < p.k->k_steps(bk_tile); ++k_mma) steps.push_back({bk_tile, k_mma});
  }
  const auto load = [&](int j) {
    parts.queries->emit_step(w, j);
    p.k->emit_load_from_shared(w, stage, steps[static_cast<std::size_t>(j)].bk_tile,
                               steps[static_cast<std::size_t>(j)].k_mma);
  };
  const int count = static_cast<int>(steps.size()), of_group = grouped ? p.scales->columns() / 16 : count;
  load(0);
  for (int j = 0; j < count; ++j) {
    const Step& step = steps[static_cast<std::size_t>(j)];
    w.comment("strip {}, step {}: depth {} .. {}{}", step.bk_tile, step.k_mma, 16 * j, 16 * j + 15,
              j + 1 < count ? "; fragments of the next step first" : "");
    if (j + 1 < count) load(j + 1);
    p.k->kv_mma_op().emit_mma(w, fmt::format("q_reg + {}", 4 * j), grouped ? "part" : "s_acc", step.bk_tile,
                              step.k_mma, j % of_group == 0);
    if (grouped && ((j + 1) % of_group == 0 || j + 1 == count))
      emit_scaled_scores(w, p, j / of_group, "part");
  }
  if (p.scales->any() && !grouped) emit_scaled_scores(w, p, 0, nullptr);
  parts.scales->emit_scores(w);
}

void emit_p(Writer& w, const PrefillPlan& p) {
  if (p.scales->v_groups() == 1) emit_pack(w, p, 0);  // else for each group of columns
}

void emit_pv(Writer& w, const PrefillPlan& p, int stage) {
  w.comment("O += P V(n)");
  p.v->kv_mma_op().emit_registers(w);
  const int groups = p.scales->v_groups(), all = p.ov_depth / 8;
  const int fragments = groups > 1 ? p.scales->columns() / 8 : all;
  for (int group = 0; group < groups; ++group) {
    const KVMmaOp::Range range{group * fragments, std::min(fragments, all - group * fragments)};
    if (groups > 1) {
      w.comment("columns {} .. {}", 8 * range.first, 8 * (range.first + range.count) - 1);
      emit_pack(w, p, group);
    }
    for (int bk_tile = 0; bk_tile < p.v->num_k_tiles(); ++bk_tile) {
      for (int k_mma = 0; k_mma < p.v->k_steps(bk_tile); ++k_mma) {
        const int key = bk_tile * p.BK + 16 * k_mma;
        w.comment("strip {}, step {}: keys {} .. {}", bk_tile, k_mma, key, key + 15);
        p.v->emit_load_from_shared(w, stage, bk_tile, k_mma, range);
        p.v->kv_mma_op().emit_mma(w, fmt::format("p + {}", key / 4), "o_acc", bk_tile, k_mma, false, range);
      }
    }
  }
}

}  // namespace kiln::sm80
