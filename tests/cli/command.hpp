// Runs the built `kiln` as users do and captures what it prints. Each test program has its own folder and
// cache.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kiln::test {

struct CommandResult {
  int status = -1;  ///< exit status; 128 + signal when it was killed
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// Runs `kiln ARGUMENTS` through sh, with `input` on standard input and `environment` ("A=1 B=2") before it.
CommandResult run_kiln(const std::string& arguments, const std::string& input = "",
                       const std::string& environment = "");

/// A folder of this run for scratch files, ending with "/"; removed at exit.
const std::string& scratch();

/// One line and a newline, nothing more: what every error looks like.
bool is_one_line(const std::string& text);

}  // namespace kiln::test
