// Findings: where they happened, folding of equal ones, and what kinds there are.
#include <algorithm>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/module.hpp"

namespace kiln::emulator {

std::span<const std::string_view> finding_kinds() {
  static constexpr std::string_view kKinds[] = {"out-of-bounds",
                                                "misaligned",
                                                "uninitialized-read",
                                                "uninitialized-register",
                                                "async-register",
                                                "async-memory",
                                                "shared-race",
                                                "warp-race",
                                                "warp-mask",
                                                "global-race",
                                                "early-access",
                                                "missing-proxy-fence",
                                                "missing-mbarrier-fence",
                                                "ended-block",
                                                "transaction-count",
                                                "mbarrier-overrun",
                                                "invalid-mbarrier",
                                                "barrier-count",
                                                "divergent-barrier",
                                                "wgmma-mismatch",
                                                "bad-metadata",
                                                "bad-handle",
                                                "missing-wgmma-fence",
                                                "deadlock",
                                                "register-budget",
                                                "bad-tensor-map",
                                                "bad-coordinates",
                                                "instruction-budget",
                                                "trap"};
  return kKinds;
}

std::string_view to_string(Severity severity) {
  static constexpr std::string_view kNames[] = {"error", "undefined", "note"};
  return kNames[static_cast<std::size_t>(severity)];
}

const char* name_of(Kind kind) {
  static constexpr const char* kNames[] = {
      "integer",    "float",       "half",         "conversion",  "predicate",    "move",
      "control",    "load-global", "store-global", "load-shared", "store-shared", "local",
      "parameter",  "atomic",      "shuffle",      "barrier",     "mbarrier",     "fence",
      "async-copy", "bulk-copy",   "matrix-load",  "mma",         "wgmma",        "other"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Kind::count));
  return kNames[static_cast<std::size_t>(kind)];
}

Site site_of(const Warp& w, const Op& op, int lane) {
  const Cluster& c = *w.block->cluster;
  const ptx::Module& m = c.launch->module->ast;
  const ptx::Instruction& in = *c.program->sources[op.source].in;
  Site s;
  s.kernel = m.functions[c.program->entry_function].name;
  s.block = w.block->id;
  s.warp = w.index;
  s.lane = lane;
  s.ptx_line = in.line;
  s.ptx_text = c.launch->module->line(in.line);
  const std::string_view text = m.text;
  if (in.line > 0 && in.opcode.data() >= text.data() && in.opcode.data() < text.data() + text.size()) {
    const auto at = static_cast<std::size_t>(in.opcode.data() - text.data());
    const std::size_t start = text.rfind('\n', at), end = text.find_first_of(";\n", at);
    s.ptx_column = static_cast<int>(at - (start == std::string_view::npos ? 0 : start + 1)) + 1;
    s.ptx_length = static_cast<int>((end == std::string_view::npos ? text.size() : end) - at);
  }
  s.source_line = in.source_line;
  s.source_column = in.source_column;
  const auto file = [&](int line, int index) {
    const auto i = static_cast<std::size_t>(index);
    return line != 0 && i < m.files.size() ? m.files[i] : std::string();
  };
  s.source_file = file(in.source_line, in.source_file);
  s.caller_file = file(in.caller_line, in.caller_file);
  s.caller_line = in.caller_line;
  s.caller_column = in.caller_column;
  return s;
}

namespace {

bool one_of(std::string_view kind, std::initializer_list<std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// How many instructions that synchronise come before a line: what lies between two of them shares its
/// missing synchronisation.
std::string region(const Module::Impl& m, int line) {
  const auto& lines = m.synchronisations;
  return std::to_string(std::upper_bound(lines.begin(), lines.end(), line) - lines.begin());
}

/// Names the mistake behind a finding: findings with equal names are one.
std::string cause(const Module::Impl& m, const Finding& f) {
  if (one_of(f.kind, {"shared-race", "warp-race", "global-race", "async-memory", "missing-proxy-fence",
                      "async-register", "missing-wgmma-fence", "uninitialized-register"}) ||
      (f.kind == "uninitialized-read" && f.has_other))
    return f.kind + ' ' + region(m, f.site.ptx_line) + (f.has_other ? ' ' + region(m, f.other.ptx_line) : "");
  if (one_of(f.kind, {"out-of-bounds", "misaligned", "uninitialized-read"})) {
    if (f.site.source_line != 0)
      return f.kind + ' ' + f.site.source_file + ':' + std::to_string(f.site.source_line) + ':' +
             std::to_string(f.site.caller_line);
    return f.kind + ' ' + f.site.ptx_text.substr(0, f.site.ptx_text.find_first_of(" \t")) + ' ' +
           region(m, f.site.ptx_line);
  }
  return f.kind + ' ' + std::to_string(f.site.ptx_line) + ' ' + std::to_string(f.other.ptx_line);
}

constexpr std::size_t kMorePlaces = 7;

/// Counts `f` in with what is the same mistake.
void fold(LaunchState& state, Finding& known, Finding&& f) {
  ++known.count;
  if (known.site.ptx_line == f.site.ptx_line && known.other.ptx_line == f.other.ptx_line) return;
  const std::uint64_t place =
      static_cast<std::uint64_t>(f.site.ptx_line) << 32 | static_cast<std::uint32_t>(f.other.ptx_line);
  auto& places = state.places[&known - state.report.findings.data()];
  if (!places.insert(place).second) return;
  ++known.places;
  if (known.more.size() < kMorePlaces) known.more.push_back({std::move(f.site), std::move(f.other)});
}

}  // namespace

void report(Cluster& c, Finding f) {
  LaunchState& state = *c.launch;
  const std::lock_guard lock(state.mutex);
  const std::string name = cause(*state.module, f);
  const bool ends = state.launch->stop_at_finding && f.severity != Severity::note;
  const auto [it, fresh] = state.causes.try_emplace(name, state.report.findings.size());
  if (!fresh) {
    if (it->second < state.report.findings.size())
      fold(state, state.report.findings[it->second], std::move(f));
    return;
  }
  if (state.report.findings.size() < static_cast<std::size_t>(std::max(1, state.launch->max_findings)))
    state.report.findings.push_back(std::move(f));
  else
    it->second = static_cast<std::size_t>(-1);  // counted nowhere: the report is full
  if (!ends) return;
  state.report.completed = false;
  state.stop = true;
}

void report(Warp& w, const Op& op, int lane, std::string_view kind, std::string message, Severity severity) {
  Finding f;
  f.kind = kind;
  f.severity = severity;
  f.message = std::move(message);
  f.site = site_of(w, op, lane);
  report(*w.block->cluster, std::move(f));
}

void report(Warp& w, const Op& op, int lane, std::string_view kind, std::string message, const Site& other) {
  Finding f;
  f.kind = kind;
  f.message = std::move(message);
  f.site = site_of(w, op, lane);
  f.other = other;
  f.has_other = true;
  report(*w.block->cluster, std::move(f));
}

}  // namespace kiln::emulator
