// V32: the registers of one lane on AMD.
#include <fmt/format.h>

#include "generator/config/defaults.hpp"
#include "generator/config/rules/amd_tiles.hpp"
#include "generator/config/rules/rule_sets.hpp"
#include "generator/targets/target.hpp"

namespace kiln::rules {
namespace {

std::string v32(const Config& c) {
  const auto k = buffer_constants(c, true), v = value_registers(c);
  if (!k || !v || !c.WM || *c.WM <= 0) return "";
  const int wave = target_info(c.target).wave_size, size = static_cast<int>(size_of(c.dtype));
  const int warps_n = std::max(1, *c.BN / *c.WN), ov = c.ov_depth.value_or(c.depth);
  const int q = *c.WM * align_up(c.depth, *c.BK) * size / 4 / wave;
  const int p = *c.WM * *c.WN / wave;
  const int o = *c.WM * ceil_div(ov, warps_n) / wave;
  const int total = k->vgprs + v->vgprs + q + p + o, limit = target_info(c.target).max_registers;
  if (total <= limit) return "";
  return fmt::format("{} registers a lane (K {}, V {}, Q {}, P {}, O {}) exceed {}", total, k->vgprs,
                     v->vgprs, q, p, o, limit);
}

}  // namespace

std::vector<Rule> register_rules() {
  return {
      {"V32",
       "9.2 V32",
       kAmd,
       {"/depth", "/ov_depth", "/dtype", "/WM", "/WN", "/BN", "/BK", "/mma_shape", "/reg_chunk_depth",
        "/reg_chunk_keys"},
       v32},
  };
}

}  // namespace kiln::rules
