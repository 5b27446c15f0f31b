// What a schedule says when a config asks for something it cannot do: violations with pointer, value and
// nearest value.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "generator/config/keys.hpp"
#include "generator/schedules/schedule.hpp"

namespace kiln {

class Checks {
 public:
  /// `asked`: the config as the user wrote it; decides which keys of a rule over several are reported.
  Checks(const Config& asked, Violations& out) : asked_(asked), dom_(config_to_dom(asked)), out_(out) {}

  void violate(std::string pointer, std::string value, std::string rule, std::string suggestion) {
    out_.push_back({std::move(pointer), std::move(value), std::move(rule), std::move(suggestion)});
  }
  void violate(std::string pointer, int value, std::string rule, std::string suggestion) {
    violate(std::move(pointer), std::to_string(value), std::move(rule), std::move(suggestion));
  }
  /// Reports at every one of these keys the user set, or at the first when none was.
  void violate_all(std::initializer_list<std::string_view> keys, const std::string& rule,
                   const std::string& suggestion) {
    bool any = false;
    for (const auto key : keys) {
      const std::string pointer = "/" + std::string(key);
      if (!is_set(asked_, pointer)) continue;
      any = true;
      violate(pointer, text(pointer), rule, suggestion);
    }
    if (!any) violate("/" + std::string(*keys.begin()), std::string(), rule, suggestion);
  }
  /// JSON text of the value at a pointer, empty when it is not set.
  std::string text(const std::string& pointer) const {
    const auto at = Json::json_pointer(pointer);
    return dom_.contains(at) ? value_text(dom_.at(at)) : std::string();
  }

 private:
  const Config asked_;
  const Json dom_;
  Violations& out_;
};

}  // namespace kiln
