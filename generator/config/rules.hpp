// The validation rules V1..V32 of the configs, as one table: a rule is its id, the keys it is over, and one
// function. Rules see a config in which defaults are filled as far as they are known; a rule whose values are
// unknown passes.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/config/keys.hpp"

namespace kiln {

struct Rule {
  std::string_view id;                 ///< "V8"
  std::string_view source;             ///< where the rule comes from, for readers of this code
  TargetSet targets;                   ///< targets it holds on
  std::vector<std::string_view> keys;  ///< pointers of the keys it is over
  /// What is wrong, or empty. Called with a config whose required keys are legal; other keys may be unset.
  std::string (*broken)(const Config& config);
};

std::span<const Rule> config_rules();

/// Checks every rule over the config with rule defaults filled. Each violation is reported at every key of
/// the rule that the user set (or whose default follows from one), with the nearest values of that key that
/// satisfy the rule. Rules over a key in `skip` (pointers already reported) are left out.
void check_rules(const Config& user, Violations& out, std::span<const std::string> skip = {});

/// The same over values a schedule resolved.
void check_resolved_rules(const Config& user, const Config& resolved, Violations& out);

/// The keys to blame for `keys`: those the user set, else the set keys their defaults follow from.
std::vector<std::string> set_sources(const Config& user, std::span<const std::string_view> keys);

/// Nearest values of `pointer` for which `accepts` holds for the changed config: "32, 64", or empty.
std::string nearest_legal(const Config& user, std::string_view pointer,
                          const std::function<bool(const Config&)>& accepts);

/// Value of a key as JSON text; empty when unset.
std::string key_value_text(const Config& config, std::string_view pointer);

}  // namespace kiln
