// Turning broken rules into messages: one line each, saying where, what value, which rule and what would be
// legal.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/error.hpp>
#include <nlohmann/json.hpp>

namespace kiln {

using Json = nlohmann::ordered_json;
using Violations = std::vector<Violation>;

/// JSON text of a value for a message: one line, cut to a readable length, control characters escaped.
std::string value_text(const Json& value);

/// JSON pointer of `key` below `parent`, with "~" and "/" escaped as RFC 6901 wants.
std::string child_pointer(std::string_view parent, std::string_view key);

/// "a, b, c"
std::string join(std::span<const std::string_view> items, std::string_view separator = ", ");

/// The item with the smallest edit distance to `text`, or empty when none is near enough to be a typing
/// mistake.
std::string_view nearest(std::string_view text, std::span<const std::string_view> items);

/// "/BK = 48: V8: BK must be ... (nearest legal: 32, 64)"
std::string violation_line(const Violation& violation);

/// Throws Error (bad_config) with one line per violation, each opened by `source_name`, unless there are
/// none.
void throw_if_any(std::string_view source_name, const Violations& violations);

}  // namespace kiln
