// What is said about arguments that do not fit a manifest.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "runtime/launch/problem.hpp"
#include "tests/runtime/support.hpp"

namespace kiln::test {

/// What make_problem says about `args` after `change`; empty when it accepts them.
template <class Change>
std::string refusal(const Manifest& manifest, AttentionArgs args, const Change& change) {
  change(args);
  std::string message;
  const auto code = error_of([&] { make_problem(manifest, args); }, &message);
  CHECK((!code || *code == ErrorCode::bad_input));
  return message;
}

inline bool has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE("\"" << part << "\" is not in: " << text);
  return false;
}

}  // namespace kiln::test
