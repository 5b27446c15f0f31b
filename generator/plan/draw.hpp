// Configs drawn at random from the schema: every key of the table with every kind of value it takes, kept
// where they plan. For tests of "what is accepted runs right"; the drawing knows nothing of any schedule.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/keys.hpp"

namespace kiln {

/// What a set of configs held: each value of each key, members of objects under their pointers.
class KeyCoverage {
 public:
  void add(const Json& config);
  /// "pointer": {"value": times}
  Json covered() const;
  /// Keys that never occurred, and the values of lists (and true, false) that did not, for `targets`.
  Json never(TargetSet targets) const;

 private:
  std::map<std::string, std::map<std::string, std::size_t>> seen_;
};

class ConfigDraw {
 public:
  /// Draws for `targets`. `starts` are configs to begin some draws with, beside bare ones: keys that only
  /// work together are found from there.
  ConfigDraw(std::uint64_t seed, std::vector<Target> targets, std::vector<Json> starts = {});

  /// The next config that plans.
  Json next();
  /// A value of `key`, drawn from its schema.
  Json value(const KeySpec& key, Target target);
  /// Changes of single keys that were tried, and how many of them planned.
  std::size_t tried() const { return tried_; }
  std::size_t accepted() const { return accepted_; }

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  Json start();
  Json drawn(const Json& schema, std::string_view key, Target target);
  Json drawn_schedule(Target target);
  Json drawn_integer(const Json& schema);
  Json drawn_number(const Json& schema);
  Json drawn_object(const Json& schema, Target target);
  /// Drawn members of an object, where some ask for others.
  Json consistent(Json members);

  std::mt19937_64 random_;
  std::vector<Target> targets_;
  std::vector<Json> starts_;
  std::size_t tried_ = 0, accepted_ = 0;
};

/// What a plan comes to: the emitted text without the comment that quotes the config, and the manifest
/// without config and name. Kernels are named after their configs, so those that are compared need one
/// `name`.
std::string kernel_of(const Plan& plan);

/// Keys of `config` that could as well be left out although the plan says their value is not what it would
/// choose: a kernel is the same with them and without.
std::vector<std::string> idle_keys(const Json& config);
bool is_idle_key(const Json& config, const std::string& name);

/// Whether a document plans; errors that are no refusals are thrown on.
bool plans(const Json& config);

}  // namespace kiln
