#include "workbench/verify/mutants.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

namespace kiln {
namespace {

/// What notices another text (or s_trap) in place of the candidate's.
std::string with(const Killer& killer, const Candidate& c, const std::string& replacement) {
  Candidate other = c;
  if (other.ptx) other.ptx->replacement = replacement;
  if (other.patch) other.patch->word = emulator::amdgcn::kTrap;
  return killer(other);
}

/// Which statements some run comes by, with lanes for which the predicate holds if it stays. Found out once for each.
class Reach {
 public:
  bool of(const Candidate& c, const Killer& killer) {
    if (!c.ptx && !c.patch) return true;
    const bool unguarded = c.kind == emulator::info(emulator::MutationKind::guard_dropped).name;
    const std::string guard = unguarded || !c.ptx || !c.statement.starts_with('@')
                                  ? ""
                                  : c.statement.substr(0, c.statement.find(' ') + 1);
    const std::tuple place(c.owner, c.ptx ? c.ptx->begin : c.patch->offset, guard);
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = known_.find(place); found != known_.end()) return found->second;
    }
    const bool reached = !with(killer, c, guard + "trap;").empty();
    const std::scoped_lock lock(mutex_);
    return known_[place] = reached;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, std::size_t, std::string>, bool> known_;
};

void judge_one(Candidate& c, const Killer& killer, Reach& reach, bool reach_first) {
  if (reach_first && !reach.of(c, killer)) {
    c.reached = false;
    if (c.patch) c.equivalent = c.patch->equivalent;
    return;
  }
  c.killed_by = killer(c);
  if (!c.killed_by.empty()) return;
  if (c.patch) c.equivalent = c.patch->equivalent;
  if (c.ptx)
    c.equivalent = emulator::equivalent_reason(
        *c.ptx, [&](const std::string& text) { return !with(killer, c, text).empty(); });
  if (c.survives()) c.reached = reach.of(c, killer);
}

}  // namespace

std::vector<Candidate> ptx_candidates(const std::string& text, emulator::MutationSet set) {
  std::vector<Candidate> out;
  for (emulator::Mutation& m : emulator::mutations(text, set)) {
    Candidate c{.kind = std::string(emulator::info(m.kind).name),
                .change = m.change,
                .statement = m.ptx_text,
                .line = m.ptx_line,
                .source_file = m.source_file,
                .source_line = m.caller_line > 0 ? m.caller_line : m.source_line};
    c.ptx = std::move(m);
    out.push_back(std::move(c));
  }
  return out;
}

std::vector<Candidate> code_object_candidates(const std::string& image, const std::string& name,
                                              const std::string& kernel) {
  const auto bytes = std::as_bytes(std::span(image.data(), image.size()));
  const auto module = emulator::amdgcn::Module::from_code_object(bytes, name);
  std::vector<Candidate> out;
  for (emulator::amdgcn::Mutation& m : emulator::amdgcn::mutations(module, kernel)) {
    Candidate c{.kind = std::string(emulator::info(m.kind).name),
                .change = m.change,
                .statement = m.text,
                .line = m.line,
                .source_line = m.source_line};
    c.patch = std::move(m);
    out.push_back(std::move(c));
  }
  return out;
}

std::string changed_program(const std::string& program, const Candidate& c) {
  if (c.ptx) return emulator::apply_mutation(program, *c.ptx);
  return c.patch ? emulator::amdgcn::apply(program, *c.patch) : program;
}

void judge(std::vector<Candidate>& candidates, const std::function<Killer()>& make_killer,
           const JudgeOptions& options) {
  std::atomic<std::size_t> next{0};
  std::size_t done = 0, survivors = 0;
  std::mutex mutex;
  Reach reach;
  const auto work = [&] {
    const Killer killer = make_killer();
    for (std::size_t i; (i = next++) < candidates.size();) {
      judge_one(candidates[i], killer, reach, options.reach_first);
      const std::scoped_lock lock(mutex);
      ++done;
      survivors += candidates[i].survives() ? 1 : 0;
      if (options.progress) options.progress(done, candidates.size(), survivors);
    }
  };
  const std::size_t cores = options.threads > 0 ? static_cast<std::size_t>(options.threads)
                                                : std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min(cores, candidates.size()); ++t) others.emplace_back(work);
  work();
}

}  // namespace kiln
