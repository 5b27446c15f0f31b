// A PTX statement as text: where it stands, and its operands as they are written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/parse/ast.hpp"

namespace kiln::emulator {

struct Statement {
  std::string_view text;                   ///< of the module
  std::size_t begin = 0;                   ///< of the predicate, else of the opcode
  std::size_t opcode = 0;                  ///< first byte of the opcode
  std::size_t tail = 0;                    ///< first byte after the modifiers
  std::size_t end = 0;                     ///< one past the semicolon
  std::vector<std::string_view> operands;  ///< split at top-level commas, trimmed

  Statement(std::string_view module_text, const ptx::Instruction& in);
  std::string_view predicate() const { return text.substr(begin, opcode - begin); }
  std::string_view head() const { return text.substr(opcode, tail - opcode); }  ///< opcode and modifiers
  /// The statement with one operand replaced: "@%p1 head a, b;".
  std::string with_operand(std::size_t index, std::string_view replacement) const;
  /// The same with another opcode or other modifiers.
  std::string with_head(std::string_view head) const;

 private:
  std::string join(std::string_view head, std::size_t index, std::string_view replacement) const;
};

/// "[%r1+16]" -> "%r1" and "+16".
struct AddressText {
  std::string_view base, rest;
};
AddressText split_address(std::string_view operand);

}  // namespace kiln::emulator
