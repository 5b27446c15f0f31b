#include "cli/inspect/report_json.hpp"

#include <array>
#include <sstream>

#include "cli/inspect/inspect_amd.hpp"
#include "emulator/machine/trace.hpp"
#include "generator/config/json_text.hpp"
#include "generator/schedules/schedule.hpp"
#include "workbench/analysis/amd_loop.hpp"
#include "workbench/verify/ladder.hpp"
#include "workbench/verify/runner.hpp"

namespace kiln::cli {
namespace {

Json origins(const KernelSource& source) {
  Json files = Json::array(), lines = Json::array();
  for (const LineOrigin& origin : source.origins) {
    const auto found = std::find(files.begin(), files.end(), origin.file);
    lines.push_back({found - files.begin(), origin.line});
    if (found == files.end()) files.push_back(origin.file);
  }
  return {{"files", files}, {"lines", lines}};
}

Json timeline_json(const Plan& plan) {
  const Timeline timeline = plan.schedule().timeline();
  if (timeline.empty()) return nullptr;
  static constexpr std::array kKinds{"copy", "scores", "softmax", "output"};
  Json spans = Json::array();
  for (const TimelineSpan& span : timeline.spans) {
    spans.push_back({{"lane", span.lane},
                     {"begin", span.begin},
                     {"end", span.end},
                     {"kind", kKinds.at(static_cast<std::size_t>(span.kind))},
                     {"text", span.text}});
  }
  return {{"lanes", timeline.lanes}, {"spans", spans}, {"note", timeline.note}};
}

Json run_json(const TracedRun& run) {
  Json counters = Json::object();
  for (const auto& [name, value] : run.counters) counters[name] = value;
  return {{"problem_text", run.problem},
          {"findings", run.findings},
          {"replay", replay_json(run.replay)},
          {"counters", counters}};
}

}  // namespace

const char* kind_text(KernelParam::Kind kind) {
  static constexpr std::array kNames{"tensor map", "pointer", "i32", "i64", "f32", "struct"};
  return kNames.at(static_cast<std::size_t>(kind));
}

TracedRun traced_run(Runtime& runtime, const Plan& plan, const KernelSource& source) {
  const int keys = plan.resolved().BN.value_or(64);
  const std::int64_t rows = plan.resolved().operation == Operation::decode ? 1 : 2 * keys;
  const PosedCases posed = pose_cases(plan.resolved(), {{rows, 3 * keys}}, 0, 2);
  const std::shared_ptr<Kernel> kernel = runtime.load(source);
  emulator::Trace trace;
  RunResult result;
  {
    const emulator::TraceScope scope(trace);
    result = run_workload(runtime, *kernel, posed.work);
  }
  return {posed.work.shape.text(), result.findings.size(), result.counters, replay(trace.events())};
}

Json source_lines(const KernelSource& source) {
  Json lines = Json::array();
  std::istringstream in(source.text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Json report_json(const Config& user, const Plan& plan, const KernelSource& source, const Json& measured) {
  Json document{{"name", source.manifest.name}, {"version", version()}, {"entry", source.manifest.entry}};
  document["plan"] = json_of(plan.to_json());
  document["params"] = Json::array();
  for (const KernelParam& param : source.manifest.params)
    document["params"].push_back({{"role", param.role}, {"kind", kind_text(param.kind)}});
  document["proofs"] = Json::array();
  for (const auto& proof : plan.schedule().layout_proofs())
    document["proofs"].push_back(
        {{"what", proof.what}, {"holds", proof.holds}, {"bank_conflicts", proof.bank_conflicts}});
  document["source"] = source_lines(source);
  document["origins"] = origins(source);
  document["fragments"] = fragments_json(plan.resolved());
  document["swizzles"] = swizzles_json(plan.resolved());
  document["timeline"] = timeline_json(plan);
  document["choices"] = choices_json(user, plan);
  document["roofline"] = roofline_json(plan.resolved(), measured);
  if (is_amd(plan.resolved().target)) document["cycle_model"] = amd_cycle_model(source);
  RuntimeOptions options;
  options.device = "emulated";
  Runtime runtime(options);
  try {
    document["program"] = program_json(*runtime.compile(source));
    document["run"] = run_json(traced_run(runtime, plan, source));
  } catch (const Error& error) {
    if (!document.contains("program")) document["program"] = {{"problem", error.what()}};
    document["run"] = {{"problem", error.what()}};
  }
  return document;
}

}  // namespace kiln::cli
