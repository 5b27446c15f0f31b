#include "cli/sweep/sweep_generate.hpp"

#include <numeric>

#include "generator/config/json_text.hpp"
#include "generator/schedules/schedule.hpp"
#include "workbench/problem/parallel.hpp"

namespace kiln::cli {
namespace {

/// Combinations that a thread takes at a time: a few milliseconds each.
constexpr std::size_t kGrain = 4;

Plan plan_of(const Combination& combination) {
  return make_plan(parse_config(write_json(combination.config), "sweep"));
}

void plan_one(const Combination& combination, Generated& out) {
  try {
    out.plan = plan_of(combination);
  } catch (const Error& error) {
    out.refused = error.code() == ErrorCode::bad_config;
    out.error = error.what();
  }
}

void generate_one(const Combination& combination, Generated& out) {
  try {
    const KernelSource source = generate(*out.plan);
    out.name = source.manifest.name;
    out.proofs = out.plan->schedule().layout_proofs();
    out.same_twice = generate(plan_of(combination)).text == source.text;
  } catch (const Error& error) {
    out.error = error.what();
  }
}

}  // namespace

std::vector<Generated> generate_all(std::span<const Combination> combinations,
                                    const std::function<bool()>& chosen) {
  std::vector<Generated> all(combinations.size());
  const auto on_all_cores = [&](std::span<const std::size_t> indices, auto&& step) {
    parallel_blocks(indices.size(), kGrain, [&](std::size_t begin, std::size_t end) {
      for (const std::size_t i : indices.subspan(begin, end - begin)) step(combinations[i], all[i]);
    });
  };
  std::vector<std::size_t> indices(all.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  on_all_cores(indices, plan_one);
  std::erase_if(indices, [&](std::size_t i) { return !all[i].plan || !chosen(); });
  on_all_cores(indices, generate_one);
  return all;
}

}  // namespace kiln::cli
