// Key table rows: choice of the main loop and its tuning knobs.
#include "generator/config/key_makers.hpp"

namespace kiln::keys {
namespace {

/// Any name here: which schedules exist is the planner's knowledge, and it refuses unknown ones with a list.
KeySpec schedule_key() {
  return {"schedule",
          "main loop of the target; default auto",
          kAllTargets,
          false,
          {{"type", "string"}, {"pattern", "^[a-z][a-z0-9_]*$"}},
          [](const Json& value, Config& config, const ReadContext& context) {
            if (!value.is_string()) {
              context.fail(value, "wants the name of a schedule or auto", "auto");
            } else if (value == "auto") {
              config.schedule = std::nullopt;
            } else {
              config.schedule = value.get<std::string>();
            }
          },
          [](const Config& config) -> std::optional<Json> {
            if (config.schedule) return Json(*config.schedule);
            return std::nullopt;
          }};
}

/// "unrolled" is what an absent key means, and is not kept.
KeySpec source_style_key() {
  return {"source_style",
          "a line for every register, or strips of like lines as unrolled loops; default unrolled",
          kAllTargets,
          false,
          {{"enum", {"unrolled", "compact"}}},
          [](const Json& value, Config& config, const ReadContext& context) {
            config.source_style = std::nullopt;
            if (value == "compact") {
              config.source_style = "compact";
            } else if (value != "unrolled") {
              context.fail(value, "wants unrolled or compact", "unrolled, compact");
            }
          },
          [](const Config& config) -> std::optional<Json> {
            if (config.source_style) return Json(*config.source_style);
            return std::nullopt;
          }};
}

KeySpec exp_offload_key() {
  return {"exp_offload",
          "fraction of exponentials computed without the special-function unit; default 0",
          kTma,
          false,
          {{"type", "number"}, {"minimum", 0}, {"maximum", 1}},
          [](const Json& value, Config& config, const ReadContext& context) {
            const double number = value.is_number() ? value.get<double>() : -1;
            if (number >= 0 && number <= 1) {
              config.exp_offload = number;
            } else {
              context.fail(value, "wants a number from 0 to 1", number > 1 ? "1" : "0");
            }
          },
          [](const Config& config) -> std::optional<Json> {
            if (config.exp_offload) return Json(*config.exp_offload);
            return std::nullopt;
          }};
}

}  // namespace

std::vector<KeySpec> schedule_keys() {
  return {
      schedule_key(),
      source_style_key(),
      name_key("scale_placement", &Config::scale_placement, {"prescale_q", "post"}, kAllTargets,
               "scale multiplied into Q or into the exponent; default post"),
      name_key("pv_operand", &Config::pv_operand, {"registers", "shared"}, only(Target::sm_90a),
               "where PV reads P from; default registers where they fit"),
      int_key("cluster", &Config::cluster, {1, 16}, kTma,
              "blocks of a cluster that share K and V; default 1"),
      int_key("fp8_flush_interval", &Config::fp8_flush_interval, {0, 64}, only(Target::sm_90a),
              "tiles between flushes of the FP8 accumulator, 0 for never; default 0"),
      exp_offload_key(),
      bool_key("pair_cta", &Config::pair_cta, kBlackwell, "two blocks share one tile; default false"),
      bool_key("single_o", &Config::single_o, kBlackwell, "one O accumulator; default false"),
      name_key("scheduler", &Config::scheduler, {"static", "counter", "launch_control"}, kBlackwell,
               "where a block's next work item comes from; by default launch_control under bounded masks"),
      int_key("bn_cap", &Config::bn_cap, {16, 256, 16}, kBlackwell, "upper bound of BN"),
  };
}

}  // namespace kiln::keys
