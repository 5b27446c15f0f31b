#include "cli/execute/mutant_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <kiln/error.hpp>
#include <map>

namespace kiln::cli {
namespace {

/// Where the text of `kernels` and of functions is.
std::vector<std::pair<std::size_t, std::size_t>> regions(const std::string& ptx,
                                                         const std::set<std::string>& kernels) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  for (std::size_t at = 0; (at = ptx.find("\n.", at)) != std::string::npos; ++at) {
    const std::size_t end = std::min(ptx.find('\n', at + 1), ptx.size());
    const std::string line = ptx.substr(at + 1, end - at - 1);
    const std::size_t entry = line.find(".entry ");
    if (entry == std::string::npos && line.find(".func") == std::string::npos) continue;
    std::string name = entry == std::string::npos ? "" : line.substr(entry + 7);
    name = name.substr(0, name.find_first_of("( \t"));
    if (!out.empty() && out.back().second == std::string::npos) out.back().second = at;
    if (entry == std::string::npos || kernels.contains(name)) out.emplace_back(at, std::string::npos);
  }
  return out;
}

/// At most `most` of each kind, evenly spread.
void thin_out(std::vector<Candidate>& candidates, std::size_t most) {
  std::map<std::string, std::size_t> total, seen;
  for (const Candidate& c : candidates) ++total[c.kind];
  std::erase_if(candidates, [&](const Candidate& c) {
    const std::size_t n = total[c.kind], i = seen[c.kind]++;
    return n > most && (i + 1) * most / n == i * most / n;
  });
}

std::string describe(const Candidate& m) {
  std::string text = fmt::format("{}, {}: {} ({}:{}", m.kind, m.change, m.statement, m.module, m.line);
  if (m.source_line > 0)
    text += fmt::format(", {}:{}", m.source_file.empty() ? "source" : m.source_file, m.source_line);
  return text + ")";
}

Json to_json(const Candidate& m) {
  return {{"module", m.module},           {"kind", m.kind},           {"change", m.change},
          {"statement", m.statement},     {"line", m.line},           {"source_file", m.source_file},
          {"source_line", m.source_line}, {"killed_by", m.killed_by}, {"equivalent", m.equivalent},
          {"reached", m.reached}};
}

struct Count {
  std::size_t mutants = 0, killed = 0, equivalent = 0, survivors = 0, unreached = 0;
  void add(const Candidate& m) {
    ++mutants;
    killed += m.killed_by.empty() ? 0 : 1;
    survivors += m.survives() ? 1 : 0;
    equivalent += m.equivalent.empty() ? 0 : 1;
    unreached += m.survives() && !m.reached ? 1 : 0;
  }
};

Json to_json(const Count& n) {
  return {{"mutants", n.mutants},
          {"killed", n.killed},
          {"equivalent", n.equivalent},
          {"survivors", n.survivors},
          {"unreached", n.unreached}};
}

using Counts = std::vector<std::pair<std::string, Count>>;

/// In the order of the table of kinds.
Counts count_kinds(const std::vector<Candidate>& mutants) {
  Counts out;
  for (const auto& kind : emulator::mutation_kinds()) {
    Count n;
    for (const Candidate& m : mutants)
      if (m.kind == kind.name) n.add(m);
    if (n.mutants > 0) out.emplace_back(kind.name, n);
  }
  return out;
}

std::string kinds_table(const Counts& kinds) {
  std::vector<std::vector<std::string>> rows = {
      {"kind", "mutants", "killed", "equivalent", "survive", "not reached"}};
  for (const auto& [name, n] : kinds)
    rows.push_back({name, std::to_string(n.mutants), std::to_string(n.killed), std::to_string(n.equivalent),
                    std::to_string(n.survivors), std::to_string(n.unreached)});
  return table(rows);
}

}  // namespace

std::vector<Candidate> kernel_candidates(const std::string& ptx, const std::set<std::string>& kernels,
                                         const MutantOptions& options) {
  using Set = emulator::MutationSet;
  std::vector<Candidate> out = ptx_candidates(ptx, options.kinds.empty() ? Set::synchronisation : Set::all);
  const auto where = regions(ptx, kernels);
  std::erase_if(out, [&](const Candidate& c) {
    return std::ranges::none_of(
        where, [&](const auto& r) { return r.first <= c.ptx->begin && c.ptx->begin < r.second; });
  });
  return out;
}

void choose(std::vector<Candidate>& candidates, const MutantOptions& options) {
  const std::vector<std::string>& kinds = options.kinds;
  if (!kinds.empty() && std::ranges::find(kinds, kAllKinds) == kinds.end())
    std::erase_if(candidates,
                  [&](const Candidate& c) { return std::ranges::find(kinds, c.kind) == kinds.end(); });
  std::erase_if(candidates,
                [&](const Candidate& c) { return c.statement.find(options.only) == std::string::npos; });
  if (options.sample > 0) thin_out(candidates, static_cast<std::size_t>(options.sample));
}

int print_mutants(const std::vector<Candidate>& mutants, const MutantOptions& options, bool json,
                  const std::string& remark, double ms) {
  Count all;
  for (const Candidate& m : mutants) all.add(m);
  const Counts kinds = count_kinds(mutants);
  if (json) {
    Json document = to_json(all), list = Json::array();
    document["kinds"] = Json::object();
    for (const auto& [name, n] : kinds) document["kinds"][name] = to_json(n);
    for (const Candidate& m : mutants)
      if (options.all || m.killed_by.empty()) list.push_back(to_json(m));
    document["list"] = std::move(list);
    print_json(document);
    return all.survivors == 0 ? 0 : 1;
  }
  for (const Candidate& m : mutants) {
    if (m.survives())
      fmt::print("{}{}{}\n", bad("survives "), describe(m), m.reached ? "" : ", which no launch reaches");
    else if (options.all)
      fmt::print("{}: {}\n", m.killed_by.empty() ? m.equivalent : m.killed_by, describe(m));
  }
  if (kinds.size() > 1) fmt::print("{}", kinds_table(kinds));
  if (!remark.empty()) fmt::print("{}\n", remark);
  fmt::print("{} of {} mutants killed, {} equivalent, {} survive ({} of them not reached), in {:.0f} s\n",
             all.killed, all.mutants, all.equivalent, all.survivors, all.unreached, ms / 1000);
  return all.survivors == 0 ? 0 : 1;
}

}  // namespace kiln::cli
