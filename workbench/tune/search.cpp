#include "workbench/tune/search.hpp"

#include <set>

#include "generator/config/keys.hpp"
#include "generator/plan/neighbours.hpp"

namespace kiln {
namespace {

class Tuner {
 public:
  Tuner(const Config& user, std::size_t limit,
        const std::function<Measurement(const Plan&, const std::string&)>& measure,
        const std::function<bool()>& stop)
      : user_(user), limit_(limit), measure_(measure), stop_(stop) {}

  Search run() {
    attempt(user_, make_plan(user_));
    while (search_.finished && pass()) {
    }
    return std::move(search_);
  }

 private:
  /// Every free key once; whether anything got better.
  bool pass() {
    const auto before = search_.best;
    for (const std::string_view key : tunable_keys()) {
      if (is_set(user_, "/" + std::string(key))) continue;
      // The values of one key are all compared before the next: the best one is kept, not the first.
      for (const Neighbour& next : neighbours(best(), key)) {
        attempt(next.config, next.plan);
        if (!search_.finished) return false;
      }
    }
    return search_.best != before;
  }

  Config best() const { return search_.best ? search_.trials[*search_.best].config : user_; }

  void attempt(const Config& config, const Plan& plan) {
    Config kernel = plan.resolved();
    kernel.name.reset();  // says which keys were set, also to what they would be anyway
    if (!seen_.insert(to_json(kernel, -1)).second) return;
    if (search_.trials.size() >= limit_ || (!search_.trials.empty() && stop_ && stop_())) {
      search_.finished = false;
      return;
    }
    const std::string keys = keys_text(config);
    search_.trials.push_back({keys, config, measure_(plan, keys)});
    const auto& score = search_.trials.back().result.score;
    if (score && (!search_.best || *score < *search_.trials[*search_.best].result.score))
      search_.best = search_.trials.size() - 1;
  }

  std::string keys_text(const Config& config) const {
    std::string text;
    for (const std::string_view name : tunable_keys()) {
      if (is_set(user_, "/" + std::string(name))) continue;
      const auto value = find_key(name)->write(config);
      if (!value) continue;
      text += (text.empty() ? "" : ", ") + std::string(name) + " " +
              (value->is_string() ? value->get<std::string>() : value->dump());
    }
    return text;
  }

  const Config& user_;
  const std::size_t limit_;
  const std::function<Measurement(const Plan&, const std::string&)>& measure_;
  const std::function<bool()>& stop_;
  Search search_;
  std::set<std::string> seen_;
};

}  // namespace

Search search_kernels(const Config& config, std::size_t limit,
                      const std::function<Measurement(const Plan&, const std::string& keys)>& measure,
                      const std::function<bool()>& stop) {
  return Tuner(config, limit, measure, stop).run();
}

}  // namespace kiln
