// Strict reading of JSON text: duplicate keys, numbers out of range and deep nesting are reported where they
// stand instead of being dropped, and broken syntax with its line and column.
#pragma once

#include <string_view>

#include "generator/config/report.hpp"

namespace kiln {

/// Texts above this size are refused unread: no config comes near it.
constexpr std::size_t kMaxConfigBytes = 1u << 20;

/// The document, or a null value when nothing can be read further. A number out of range appears as null in
/// the result; its pointer is in `out`.
Json read_json(std::string_view text, Violations& out);

/// Whether brackets nest deeper than anything kiln reads (64 levels). nlohmann::json reads any depth, but
/// writing such a value again recurses until the stack is full: texts from outside are asked first.
bool nested_too_deep(std::string_view text);

}  // namespace kiln
