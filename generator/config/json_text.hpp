// Strict reading of JSON text: duplicate keys, numbers out of range and deep nesting are reported where they
// stand instead of being dropped, and broken syntax with its line and column.
#pragma once

#include <string>
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

/// The document that kiln itself wrote or carries, read without the checks above; is_discarded() where it is none.
/// nlohmann::json's reader and writer are templates that take seconds to compile: here they are compiled once.
Json json_of(std::string_view text);

/// The document on one line, or with `indent` spaces a level; bytes that are no UTF-8 are replaced.
std::string write_json(const Json& document, int indent = -1);

}  // namespace kiln
