#include "emulator/mutate/statement.hpp"

#include "base/ascii.hpp"

namespace kiln::emulator {
namespace {

bool blank(char c) {
  return is_ascii_space(c);
}
std::string_view trimmed(std::string_view s) {
  while (!s.empty() && blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && blank(s.back())) s.remove_suffix(1);
  return s;
}

}  // namespace

Statement::Statement(std::string_view module_text, const ptx::Instruction& in) : text(module_text) {
  opcode = static_cast<std::size_t>(in.opcode.data() - text.data());
  tail = opcode + in.opcode.size();
  if (!in.modifiers.empty())
    tail = static_cast<std::size_t>(in.modifiers.back().data() - text.data()) + in.modifiers.back().size();
  end = text.find(';', tail);
  end = end == std::string_view::npos ? text.size() : end + 1;
  begin = opcode;
  if (in.predicated) {
    const std::size_t at = text.rfind('@', opcode);
    if (at != std::string_view::npos) begin = at;
  }
  int depth = 0;
  std::size_t from = tail;
  for (std::size_t i = tail; i + 1 < end; ++i) {
    const char c = text[i];
    depth += c == '[' || c == '{' || c == '(' ? 1 : c == ']' || c == '}' || c == ')' ? -1 : 0;
    if (c != ',' || depth != 0) continue;
    operands.push_back(trimmed(text.substr(from, i - from)));
    from = i + 1;
  }
  const std::string_view last = trimmed(text.substr(from, end > from ? end - 1 - from : 0));
  if (!last.empty()) operands.push_back(last);
}

std::string Statement::join(std::string_view new_head, std::size_t index,
                            std::string_view replacement) const {
  std::string out(predicate());
  out += new_head;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    out += i == 0 ? " " : ", ";
    out += i == index ? replacement : operands[i];
  }
  return out + ";";
}

std::string Statement::with_operand(std::size_t index, std::string_view replacement) const {
  return join(head(), index, replacement);
}

std::string Statement::with_head(std::string_view new_head) const {
  return join(new_head, operands.size(), {});
}

AddressText split_address(std::string_view operand) {
  std::string_view inner = operand.substr(1, operand.size() - 2);
  std::size_t at = 0;
  inner = trimmed(inner);
  while (at < inner.size() && inner[at] != '+' && inner[at] != '-' && !blank(inner[at])) ++at;
  return {inner.substr(0, at), inner.substr(at)};
}

}  // namespace kiln::emulator
