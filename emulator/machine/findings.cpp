// Findings: where they happened, folding of equal ones, and what kinds there are.
#include <algorithm>

#include "emulator/machine/causes.hpp"
#include "emulator/machine/machine.hpp"
#include "emulator/machine/module.hpp"
#include "emulator/report/mistakes.hpp"

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
                                                "missed-phase",
                                                "barrier-count",
                                                "divergent-barrier",
                                                "wgmma-mismatch",
                                                "tmem-race",
                                                "tmem-access",
                                                "tmem-uninitialized",
                                                "tmem-alloc",
                                                "tmem-leak",
                                                "tcgen05-descriptor",
                                                "cta-pair",
                                                "stale-collector",
                                                "launch-control",
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
      "integer",     "float",        "half",        "conversion",   "predicate",  "move",      "control",
      "load-global", "store-global", "load-shared", "store-shared", "local",      "parameter", "atomic",
      "shuffle",     "barrier",      "mbarrier",    "fence",        "async-copy", "bulk-copy", "matrix-load",
      "mma",         "wgmma",        "tcgen05",     "other"};
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

void report(LaunchState& state, Finding f) {
  const std::lock_guard lock(state.mutex);
  const bool ends = state.launch->stop_at_finding && f.severity != Severity::note;
  if (!state.mistakes->again(f.kind, f.site.ptx_line, f.has_other ? f.other.ptx_line : 0)) {
    const std::vector<std::string> causes = causes_of(*state.module, f);
    state.mistakes->add(std::move(f), causes);
  }
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

void report(Warp& w, const Op& op, int lane, std::string_view kind, std::string message, const Site& other,
            Severity severity) {
  Finding f;
  f.kind = kind;
  f.severity = severity;
  f.message = std::move(message);
  f.site = site_of(w, op, lane);
  f.other = other;
  f.has_other = true;
  report(*w.block->cluster, std::move(f));
}

}  // namespace kiln::emulator
