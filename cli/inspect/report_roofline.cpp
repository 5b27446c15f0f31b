// The limits of a device of a config's target, and what was measured of the kernel.
#include <algorithm>

#include "cli/inspect/page.hpp"
#include "cli/inspect/report_json.hpp"
#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "workbench/analysis/amd_loop.hpp"

namespace kiln::cli {
namespace {

Json peaks(const Config& resolved) {
  const bool bytes = size_of(resolved.dtype) == 1;
  if (is_amd(resolved.target)) {
    const AmdMachine& machine = amd_machine(to_string(resolved.target));
    return {{"device", machine.device},
            {"tflops", bytes ? machine.peak_8bit : machine.peak_16bit},
            {"tbs", machine.memory_tbs}};
  }
  if (resolved.target == Target::sm_80) return {{"device", "A100 80 GB"}, {"tflops", 312}, {"tbs", 2.04}};
  if (is_blackwell(resolved.target))  // HGX B300 is sold with the dense rates of B200 in 16 bits and FP8
    return {{"device", resolved.target == Target::sm_103a ? "B300" : "B200"},
            {"tflops", bytes ? 4500 : 2250},
            {"tbs", 8.0}};
  return {{"device", "H200"}, {"tflops", bytes ? 1979 : 989}, {"tbs", 4.8}};
}

/// Rows of templates/measured.json for a kernel that computes the same: every key of an entry's `config` has that value.
Json shipped_rows(const Config& resolved) {
  const auto pages = page_templates();
  const auto file = std::find_if(pages.begin(), pages.end(),
                                 [](const EmbeddedText& each) { return each.name == "measured.json"; });
  if (file == pages.end()) return Json::array();
  const Json config = config_to_dom(resolved);
  Json out = Json::array();
  for (const Json& entry : json_of(file->text)) {
    const Json& wanted = entry["config"];
    const auto fits = [&](const auto& item) {
      const Json::json_pointer at("/" + item.key());
      return config.contains(at) && config[at] == item.value();
    };
    bool all = true;
    for (const auto& item : wanted.items()) all = all && fits(item);
    if (!all) continue;
    for (Json row : entry["rows"]) {
      row["note"] = entry["note"];
      out.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace

Json roofline_json(const Config& resolved, const Json& measured) {
  Json out = peaks(resolved);
  out["measured"] = measured.is_null() ? shipped_rows(resolved) : measured;
  return out;
}

}  // namespace kiln::cli
