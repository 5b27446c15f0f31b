// For schedules: refusing what is legal but not implemented, so that no set key is ever silently ignored.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "generator/config/keys.hpp"

namespace kiln {

/// A value that says what every kernel without the key does: it may be written out.
bool is_neutral(std::string_view key, const Json& value, int depth);

/// A "not-yet" violation at every set key that is neither required, nor `name`, nor in `supported` (key
/// names), nor has a value that changes no kernel ("tma_fold": "none"). `schedule` is named in the message.
void refuse_unsupported(const Config& config, std::string_view schedule,
                        std::span<const std::string_view> supported, Violations& out);
inline void refuse_unsupported(const Config& config, std::string_view schedule,
                               std::initializer_list<std::string_view> supported, Violations& out) {
  refuse_unsupported(config, schedule, std::span(supported.begin(), supported.size()), out);
}

/// A "not-yet" violation at `pointer` ("/mask", "/operand/page_size") with its present value. `what` says
/// what the schedule lacks; `legal` lists what it takes.
void refuse_value(const Config& config, std::string_view pointer, std::string_view what,
                  const std::string& legal, Violations& out);

/// A violation of a rule at every key of `keys` (pointers) the user set, with `what` as message. For rules
/// only a schedule can check, such as V15 over its exact shared memory.
void break_rule(const Config& user, std::string_view id, std::initializer_list<std::string_view> keys,
                std::string_view what, const std::string& legal, Violations& out);

/// break_rule for a planner, whose config and list stay the same: `refuse("V3", {"/BN"}, what, legal)`.
class Refusals {
 public:
  Refusals(const Config& user, Violations& out) : user_(user), out_(out) {}
  void operator()(std::string_view id, std::initializer_list<std::string_view> keys, std::string_view what,
                  const std::string& legal) const {
    break_rule(user_, id, keys, what, legal, out_);
  }
  /// Of a key with one value only: refuses another, and sets it.
  void only(std::optional<int>& key, int value, std::string_view id, std::string_view pointer,
            std::string_view what) const {
    if (key && *key != value) (*this)(id, {pointer}, what, std::to_string(value));
    key = value;
  }

 private:
  const Config& user_;
  Violations& out_;
};

}  // namespace kiln
