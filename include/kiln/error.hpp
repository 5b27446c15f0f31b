// Errors of kiln: one exception type with a code, and for configs the list of every violated rule.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

/// What went wrong, in the terms a caller can act on. The command line maps each to its exit status.
enum class ErrorCode {
  bad_config,   ///< the config breaks one or more rules (see Error::violations); exit status 2
  bad_input,    ///< a problem, file or argument is malformed or does not fit the config; exit status 2
  environment,  ///< a compiler, driver or device is missing or too old; exit status 3
  compile,      ///< the kernel compiler refused emitted source, or a static check on its output failed; exit
                ///< status 1
  device,       ///< the device reported an error; exit status 1
  internal,     ///< a broken invariant: a bug in kiln; exit status 1
};

/// One broken rule of a config. All of them are collected before anything is thrown.
struct Violation {
  std::string pointer;     ///< JSON pointer of the key ("/BK"), or of the place a missing key would have
  std::string value;       ///< the offending value as JSON text; empty for a missing key
  std::string rule;        ///< rule id ("V8", "schema", "not-yet") followed by what it asks, one line
  std::string suggestion;  ///< nearest legal value or values, or empty
};

/// The one exception type of kiln. what() is one line per violation, or one line that says what, where and
/// what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Error(const std::string& message, std::vector<Violation> violations)
      : std::runtime_error(message), code_(ErrorCode::bad_config), violations_(std::move(violations)) {}

  ErrorCode code() const { return code_; }
  const std::vector<Violation>& violations() const { return violations_; }

 private:
  ErrorCode code_;
  std::vector<Violation> violations_;
};

}  // namespace kiln
