// What of the schema works: every value of every key (integers and numbers by samples) that some config of a target and
// operation takes, with that config. Found by changing one value at a time of bare and shipped configs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "generator/config/keys.hpp"

namespace kiln::test {

/// A value of the schema: "/mask/sliding_window" = 64. `sample`: one of many, of an integer or number.
struct SchemaValue {
  std::string pointer;
  Json value;
  bool sample = false;
};

/// A key whose values are looked for: all of the target but those that say which config it is.
bool is_tried(const KeySpec& key, Target target);

/// Every value that `key` may have by its schema on `target`.
std::vector<SchemaValue> values_of(const KeySpec& key, Target target);

struct Accepted {
  SchemaValue value;
  Json config;  ///< that has it
};

/// Configs of a target and operation to start from.
std::vector<Json> bases_of(Target target, const std::string& operation);

/// The accepted values of each key of `target`.
std::map<std::string, std::vector<Accepted>> accepted_values(Target target, const std::string& operation);

/// "causal", "64, 128", "1..1024": values as a cell of a table. `all`: what the schema has.
std::string summary(const std::vector<SchemaValue>& all, const std::vector<Accepted>& accepted);

}  // namespace kiln::test
