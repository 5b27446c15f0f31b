#include "cli/inspect/report_json.hpp"

#include <array>
#include <sstream>

#include "cli/inspect/inspect_amd.hpp"
#include "emulator/machine/trace.hpp"
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

/// [[what, warp, line, instructions, id, phase, count], ...] in the order of the run.
Json trace_json(const emulator::Trace& trace) {
  static constexpr std::array kNames{"arrive", "copy",        "wait",         "bar_arrive", "bar_wait",
                                     "commit", "commit_wait", "wgmma_commit", "wgmma_wait"};
  Json out = Json::array();
  for (const emulator::TraceEvent& e : trace.events())
    out.push_back({kNames.at(static_cast<std::size_t>(e.what)), e.warp, e.line, e.instructions, e.id, e.phase,
                   e.count});
  return out;
}

/// One small problem on the emulated device: what the kernel executed.
Json run_json(Runtime& runtime, const Plan& plan, const KernelSource& source) {
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
  Json counters = Json::object();
  for (const auto& [name, value] : result.counters) counters[name] = value;
  return {{"problem_text", posed.work.shape.text()},
          {"findings", result.findings.size()},
          {"trace", trace_json(trace)},
          {"counters", counters}};
}

/// Dense peaks of a device of the target, TFLOP/s and TB/s: data sheets of A100 80 GB and H200; AMD's as the cycle
/// model has them.
Json roofline_json(const Config& resolved) {
  const bool bytes = size_of(resolved.dtype) == 1;
  if (is_amd(resolved.target)) {
    const AmdMachine& machine = amd_machine(to_string(resolved.target));
    return {{"device", machine.device},
            {"tflops", bytes ? machine.peak_8bit : machine.peak_16bit},
            {"tbs", machine.memory_tbs}};
  }
  if (resolved.target == Target::sm_80) return {{"device", "A100 80 GB"}, {"tflops", 312}, {"tbs", 2.04}};
  return {{"device", "H200"}, {"tflops", bytes ? 1979 : 989}, {"tbs", 4.8}};
}

const char* kind_text(KernelParam::Kind kind) {
  static constexpr std::array kNames{"tensor map", "pointer", "i32", "i64", "f32", "struct"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace

Json report_json(const Config& user, const Plan& plan, const KernelSource& source) {
  Json document{{"name", source.manifest.name}, {"version", version()}, {"entry", source.manifest.entry}};
  document["plan"] = Json::parse(plan.to_json());
  document["params"] = Json::array();
  for (const KernelParam& param : source.manifest.params)
    document["params"].push_back({{"role", param.role}, {"kind", kind_text(param.kind)}});
  document["proofs"] = Json::array();
  for (const auto& proof : plan.schedule().layout_proofs())
    document["proofs"].push_back(
        {{"what", proof.what}, {"holds", proof.holds}, {"bank_conflicts", proof.bank_conflicts}});
  Json lines = Json::array();
  std::istringstream in(source.text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  document["source"] = lines;
  document["origins"] = origins(source);
  document["fragments"] = fragments_json(plan.resolved());
  document["swizzles"] = swizzles_json(plan.resolved());
  document["timeline"] = timeline_json(plan);
  document["choices"] = choices_json(user, plan);
  document["roofline"] = roofline_json(plan.resolved());
  if (is_amd(plan.resolved().target)) document["cycle_model"] = amd_cycle_model(source);
  RuntimeOptions options;
  options.device = "emulated";
  Runtime runtime(options);
  try {
    document["program"] = program_json(*runtime.compile(source));
    document["run"] = run_json(runtime, plan, source);
  } catch (const Error& error) {
    if (!document.contains("program")) document["program"] = {{"problem", error.what()}};
    document["run"] = {{"problem", error.what()}};
  }
  return document;
}

}  // namespace kiln::cli
