// Cases whose threads each apply one instruction to their own operands.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulator/conformance/suite.hpp"

namespace conformance {

/// One form. In `body`, $d is the result and $a, $b, $c the operands; %p, %q are predicates, %t and %u
/// scratch b32, %w scratch b64, %h scratch b16, and with `slot` %slot is the global and %sslot the shared
/// address of 8 bytes of the thread's own, which are part of the output and start as zeros.
struct Form {
  std::string name;
  std::string result;  ///< type of $d
  std::vector<std::string> operands;
  std::string body;  ///< empty: "name $d, $a, ...;"
  Bound bound;
  bool slot = false;
};
void add_form(std::vector<Case>& cases, const std::string& family, const Form& form);

}  // namespace conformance
