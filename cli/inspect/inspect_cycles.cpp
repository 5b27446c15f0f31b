#include "cli/inspect/inspect_cycles.hpp"

#include <fmt/format.h>

#include <kiln/kiln.hpp>

#include "generator/config/json_text.hpp"
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

/// Batches of one query a sequence over 8 KV heads, as bench/decode.sh measures them.
Json decode_launches_json(const CycleModel& model, const Config& resolved) {
  Json out = Json::array();
  constexpr std::pair<int, int> kProblems[] = {{1, 4},  {1, 16}, {1, 64},
                                               {16, 4}, {64, 4}, {64, 16}};  // batch, 1024 keys
  for (const auto& [batch, kilo] : kProblems) {
    ProblemShape shape;
    shape.depth = resolved.depth, shape.ov_depth = resolved.ov_depth.value_or(resolved.depth);
    shape.heads_kv = resolved.kv_num_heads.value_or(resolved.v_from_k.value_or(false) ? 1 : 8);
    shape.heads_q = resolved.num_q_heads.value_or(shape.heads_kv * resolved.group.value_or(4));
    shape.lengths_q.assign(static_cast<std::size_t>(batch), 1);
    shape.lengths_k.assign(static_cast<std::size_t>(batch), 1024 * kilo);
    const double us = predicted_us(model, resolved, shape), bytes = counted_bytes(resolved, shape);
    out.push_back({{"batch", batch},
                   {"heads", shape.heads_kv},
                   {"keys", 1024 * kilo},
                   {"us", us},
                   {"gbps", bytes / us * 1e-3},
                   {"of_read", bytes / us * 1e-3 / model.machine->memory_gbps}});
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
    const bool decode = m.tile_bytes > 0;
    Json out{{"device", m.machine->device},
             {"multiprocessors", m.machine->multiprocessors},
             {"ghz", m.machine->ghz},
             {"rows", m.rows},
             {"keys", m.keys},
             {"clocks", {{"start", m.start}, {"item", m.item}, {"tile", m.tile}}},
             {"busy", busy},
             {"bound", name_of(m.bound)},
             {"exposed", m.exposed}};
    if (decode)
      out["of_read"] = m.read_share();
    else
      out["tflops"] = m.steady_tflops(m.machine->ghz);
    out["launches"] = decode ? decode_launches_json(m, plan.resolved()) : launches_json(m, plan.resolved());
    return out;
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
  const std::string bound = model["bound"].get<std::string>();
  if (model.contains("of_read")) {
    fmt::print(
        "  bound by {}; {:.0f} clocks are exposed; {:.2f} of a pure read of the memory while all work\n",
        bound, number(model["exposed"]), number(model["of_read"]));
    for (const Json& l : model["launches"])
      fmt::print("  batch {:>2}, {} KV heads, {:>5} keys: {:>7.1f} us, {:.0f} GB/s, {:.2f} of a pure read\n",
                 l["batch"].get<int>(), l["heads"].get<int>(), l["keys"].get<int>(), number(l["us"]),
                 number(l["gbps"]), number(l["of_read"]));
    return;
  }
  fmt::print("  bound by {}; {:.0f} clocks are exposed; {:.0f} TFLOP/s at {} GHz while all work\n", bound,
             number(model["exposed"]), number(model["tflops"]), write_json(model["ghz"]));
  for (const Json& l : model["launches"])
    fmt::print("  batch {:>2}, {} heads, length {:>5}: {:>7.1f} us, {:.0f} TFLOP/s\n", l["batch"].get<int>(),
               l["heads"].get<int>(), l["seqlen"].get<int>(), number(l["us"]), number(l["tflops"]));
}

}  // namespace kiln::cli
