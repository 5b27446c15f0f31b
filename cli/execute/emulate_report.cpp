#include "cli/execute/emulate_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/plural.hpp"

namespace kiln::cli {
namespace {

namespace em = kiln::emulator;

Json site_json(const em::Site& s) {
  return {{"kernel", demangled(s.kernel)},
          {"symbol", s.kernel},
          {"block", {s.block.x, s.block.y, s.block.z}},
          {"warp", s.warp},
          {"lane", s.lane},
          {"ptx_line", s.ptx_line},
          {"ptx_column", s.ptx_column},
          {"ptx", s.ptx_text},
          {"source_file", s.source_file},
          {"source_line", s.source_line},
          {"source_column", s.source_column},
          {"caller_file", s.caller_file},
          {"caller_line", s.caller_line},
          {"caller_column", s.caller_column}};
}

}  // namespace

Json finding_json(const em::Finding& f) {
  Json entry{{"kind", f.kind},       {"severity", em::to_string(f.severity)},
             {"message", f.message}, {"count", f.count},
             {"places", f.places},   {"site", site_json(f.site)}};
  if (f.has_other) entry["other"] = site_json(f.other);
  for (const em::Finding::Place& p : f.more) {
    Json place{{"site", site_json(p.site)}};
    if (f.has_other) place["other"] = site_json(p.other);
    entry["more"].push_back(std::move(place));
  }
  return entry;
}

std::string findings_summary(const std::vector<em::Finding>& findings) {
  const auto of = [&](em::Severity severity) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const em::Finding& f) { return f.severity == severity; });
  };
  std::vector<std::string> parts;
  for (const auto& [severity, one, several] : {std::tuple{em::Severity::error, "error", "errors"},
                                               {em::Severity::undefined, "undefined", "undefined"},
                                               {em::Severity::note, "note", "notes"}})
    if (const auto n = of(severity); n != 0) parts.push_back(fmt::format("{} {}", n, n == 1 ? one : several));
  if (parts.empty()) return {};
  return fmt::format("{}: {}", number_of(static_cast<int>(findings.size()), "finding"),
                     fmt::join(parts, ", "));
}

Json report_json(const em::Report& report) {
  const em::Counters& c = report.counters;
  Json findings = Json::array();
  for (const em::Finding& f : report.findings) findings.push_back(finding_json(f));
  Json kinds = Json::object();
  for (const auto& [kind, number] : c.by_kind) kinds[kind] = number;
  return {{"instructions", c.warp_instructions},
          {"bank_conflicts", c.shared_bank_conflicts},
          {"findings", std::move(findings)},
          {"completed", report.completed},
          {"by_kind", std::move(kinds)},
          {"shared_accesses", c.shared_accesses},
          {"global_accesses", c.global_accesses},
          {"global_sectors", c.global_sectors},
          {"global_bytes_read", c.global_bytes_read},
          {"global_bytes_written", c.global_bytes_written},
          {"async_bytes", c.async_bytes},
          {"matrix_flops", c.matrix_flops},
          {"output", report.output}};
}

void print_report(const em::Report& report, double ms, Diagnostics& diagnostics) {
  const em::Counters& c = report.counters;
  if (!report.output.empty()) fmt::print("{}", report.output);
  for (const em::Finding& f : report.findings) fmt::print("{}\n", diagnostics.text(f));
  fmt::print(
      "{} warp instructions in {:.0f} ms, {} shared accesses with {} bank conflicts, {} global sectors\n",
      c.warp_instructions, ms, c.shared_accesses, c.shared_bank_conflicts, c.global_sectors);
  if (const std::string text = findings_summary(report.findings); !text.empty())
    fmt::print("{}\n", bad(text));
  if (!report.completed) fmt::print("{}\n", bad("stopped before its end"));
}

}  // namespace kiln::cli
