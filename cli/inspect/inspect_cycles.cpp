#include "cli/inspect/inspect_cycles.hpp"

#include <fmt/format.h>

#include <kiln/kiln.hpp>

#include "workbench/analysis/cycle_model.hpp"

namespace kiln::cli {
namespace {

/// Launches of 16k tokens and about 2048 columns of heads, as bench/prefill.py measures them.
Json launches_json(const CycleModel& model, const Config& resolved) {
  constexpr std::int64_t kTokens = 16384, kHidden = 2048;
  Json out = Json::array();
  for (std::int64_t length = 1024; length <= kTokens; length *= 2) {
    ProblemShape shape;
    shape.depth = resolved.depth, shape.ov_depth = resolved.ov_depth.value_or(resolved.depth);
    shape.heads_q = shape.heads_kv = kHidden % shape.depth == 0 ? kHidden / shape.depth : 16;
    shape.lengths_q.assign(static_cast<std::size_t>(kTokens / length), length);
    shape.lengths_k = shape.lengths_q;
    const double us = predicted_us(model, resolved, shape);
    out.push_back({{"batch", kTokens / length},
                   {"heads", shape.heads_q},
                   {"seqlen", length},
                   {"us", us},
                   {"tflops", counted_flop(resolved, shape) / us * 1e-6}});
  }
  return out;
}

}  // namespace

Json cycle_model_json(const Plan& plan, const KernelSource& source) {
  try {
    RuntimeOptions options;
    options.device = "emulated";
    Runtime runtime(options);
    const CycleModel m = model_cycles(runtime, plan, source);
    Json busy = Json::object();
    for (std::size_t r = 0; r < m.busy.size(); ++r)
      busy[std::string(name_of(static_cast<CycleResource>(r)))] = m.busy[r];
    return {{"device", m.machine->device},
            {"multiprocessors", m.machine->multiprocessors},
            {"ghz", m.machine->ghz},
            {"rows", m.rows},
            {"keys", m.keys},
            {"clocks", {{"start", m.start}, {"item", m.item}, {"tile", m.tile}}},
            {"busy", busy},
            {"bound", name_of(m.bound)},
            {"exposed", m.exposed},
            {"tflops", m.steady_tflops(m.machine->ghz)},
            {"launches", launches_json(m, plan.resolved())}};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::environment && error.code() != ErrorCode::bad_input) throw;
    return {{"problem", error.what()}};
  }
}

void print_cycle_model(const Json& model) {
  fmt::print("\n{} (predicted from a run on the emulated device)\n", bold("cycle model"));
  if (model.contains("problem")) {
    fmt::print("  {}\n", model["problem"].get<std::string>());
    return;
  }
  const auto number = [](const Json& value) { return value.get<double>(); };
  fmt::print(
      "  clocks of a multiprocessor of {}: {:.0f} for {} rows by {} keys, {:.0f} an item, {:.0f} once\n",
      model["device"].get<std::string>(), number(model["clocks"]["tile"]), model["rows"].get<int>(),
      model["keys"].get<int>(), number(model["clocks"]["item"]), number(model["clocks"]["start"]));
  std::string text;
  for (const auto& [name, clocks] : model["busy"].items())
    if (number(clocks) >= 0.5)
      text += fmt::format("{}{} {:.0f}", text.empty() ? "" : ", ", name, number(clocks));
  fmt::print("  busy in them: {}\n", text);
  fmt::print("  bound by {}; {:.0f} clocks are exposed; {:.0f} TFLOP/s at {} GHz while all work\n",
             model["bound"].get<std::string>(), number(model["exposed"]), number(model["tflops"]),
             model["ghz"].dump());
  for (const Json& l : model["launches"])
    fmt::print("  batch {:>2}, {} heads, length {:>5}: {:>7.1f} us, {:.0f} TFLOP/s\n", l["batch"].get<int>(),
               l["heads"].get<int>(), l["seqlen"].get<int>(), number(l["us"]), number(l["tflops"]));
}

}  // namespace kiln::cli
