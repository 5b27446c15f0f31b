// The search without a device: a score that is known must lead to the kernel that has it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "generator/plan/neighbours.hpp"
#include "workbench/tune/search.hpp"

using namespace kiln;

namespace {

Config config_of(const std::string& keys) {
  return parse_config(R"({"operation": "prefill", "dtype": "bf16", "depth": 128, )" + keys + "}", "test");
}

Measurement far_from(const Plan& plan, int bn, int stages) {
  const Config& c = plan.resolved();
  return {std::abs(*c.BN - bn) + 10.0 * std::abs(*c.num_kv_stages - stages), ""};
}

}  // namespace

TEST_CASE("the search ends at the kernel with the least score and tries none twice") {
  const Config config = config_of(R"("target": "sm_90a")");
  std::multiset<std::string> tried;
  const Search search = search_kernels(config, 1000, [&](const Plan& plan, const std::string&) {
    Config kernel = plan.resolved();
    kernel.name = "k";
    tried.insert(generate(make_plan(kernel)).text);
    return far_from(plan, 80, 2);
  });
  REQUIRE(search.best);
  CHECK(search.finished);
  CHECK(*search.trials[*search.best].result.score == 0);
  const Config best = make_plan(search.trials[*search.best].config).resolved();
  CHECK(*best.BN == 80);
  CHECK(*best.num_kv_stages == 2);
  CHECK(search.trials.front().keys.empty());
  CHECK(search.trials.size() == tried.size());
  for (const std::string& one : tried) CHECK(tried.count(one) == 1);
}

TEST_CASE("over short pages the search tries boxes of all panels of a page") {
  const Config config = config_of(R"("target": "sm_90a", "operand": {"kind": "paged", "page_size": 16})");
  const Search search = search_kernels(config, 1000, [](const Plan& plan, const std::string&) {
    const Config& c = plan.resolved();
    return Measurement{c.tma_fold == "chunk_inner" ? 1.0 : 2.0, ""};
  });
  REQUIRE(search.best);
  CHECK(make_plan(search.trials[*search.best].config).resolved().tma_fold == "chunk_inner");
}

TEST_CASE("keys the user set stay, kernels that do not count are never the best") {
  const Config config = config_of(R"("target": "sm_90a", "BN": 64, "schedule": "sm90_prefill")");
  const Search search = search_kernels(config, 1000, [&](const Plan& plan, const std::string&) {
    if (*plan.resolved().num_kv_stages == 3) return Measurement{{}, "wrong"};
    return far_from(plan, 128, 3);
  });
  REQUIRE(search.best);
  for (const Trial& trial : search.trials) {
    CHECK(trial.config.BN == 64);
    CHECK(trial.config.schedule == "sm90_prefill");
  }
  CHECK(*make_plan(search.trials[*search.best].config).resolved().num_kv_stages != 3);
  const Search none = search_kernels(config, 5, [](const Plan&, const std::string&) {
    return Measurement{{}, "wrong"};
  });
  CHECK(!none.best);
}

TEST_CASE("limit and stop end the search, the first kernel is always measured") {
  const Config config = config_of(R"("target": "sm_80")");
  const auto measure = [](const Plan& plan, const std::string&) { return far_from(plan, 32, 1); };
  const Search limited = search_kernels(config, 3, measure);
  CHECK(limited.trials.size() == 3);
  CHECK(!limited.finished);
  const Search stopped = search_kernels(config, 100, measure, [] { return true; });
  CHECK(stopped.trials.size() == 1);
  CHECK(!stopped.finished);
  CHECK(stopped.best);
}

TEST_CASE("every schedule has neighbours, and each of them is a legal config of the same meaning") {
  for (const char* keys :
       {R"("target": "sm_90a")", R"("target": "sm_80")", R"("target": "gfx942")", R"("target": "gfx950")"}) {
    CAPTURE(keys);
    const Config config = config_of(keys);
    const Config own = make_plan(config).resolved();
    std::set<std::string> kernels;
    for (const std::string_view key : tunable_keys()) {
      for (const Neighbour& next : neighbours(config, key)) {
        const Config& c = next.plan.resolved();
        CHECK(parse_config(to_json(next.config), "again").depth == 128);
        CHECK(c.mask->kind == own.mask->kind);
        CHECK(c.scale == own.scale);
        CHECK(c.lse == own.lse);
        kernels.insert(to_json(c, -1));
      }
    }
    CHECK(kernels.size() > 3);
  }
}
