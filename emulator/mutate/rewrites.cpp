#include "emulator/mutate/rewrites.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>

namespace kiln::emulator {
namespace {

using ptx::Instruction;

bool has_any(const Instruction& in, std::initializer_list<std::string_view> modifiers) {
  return std::ranges::any_of(modifiers, [&](std::string_view m) { return in.has(m); });
}

/// `other` (with its dot, or empty) in place of a modifier and its dot, if the head has it.
std::string replaced(std::string head, std::string_view modifier, std::string_view other) {
  const std::string text = "." + std::string(modifier);
  for (std::size_t at = head.find(text); at != std::string::npos; at = head.find(text, at + 1)) {
    const std::size_t end = at + text.size();
    if (end == head.size() || head[end] == '.') return head.replace(at, text.size(), other);
  }
  return head;
}

/// Bytes of a type: "u32" is 4; 0: it has no number.
std::size_t bytes_of(std::string_view type) {
  std::size_t bits = 0;
  std::from_chars(type.data() + std::min<std::size_t>(1, type.size()), type.data() + type.size(), bits);
  return bits / 8;
}

/// The operations of an atomic with the old value in kiln_old: what makes kiln_new. Empty: another operation.
std::string operation_of(const Statement& s, const Instruction& in, std::string_view type,
                         std::size_t first) {
  const std::string t(type), b(s.operands[first]);
  const std::string bits = "b" + std::string(type.substr(1));
  const auto binary = [&](std::string_view op, const std::string& of) {
    std::string text(op);
    return text.append(".").append(of).append(" kiln_new, kiln_old, ").append(b).append("; ");
  };
  for (const std::string_view op : {"add", "min", "max"})
    if (in.has(op)) return binary(op, t);
  for (const std::string_view op : {"and", "or", "xor"})
    if (in.has(op)) return binary(op, bits);
  if (in.has("exch")) return "mov." + bits + " kiln_new, " + b + "; ";
  if (in.has("cas") && first + 1 < s.operands.size())
    return "setp.eq." + bits + " kiln_same, kiln_old, " + b + "; selp." + bits + " kiln_new, " +
           std::string(s.operands[first + 1]) + ", kiln_old, kiln_same; ";
  return {};
}

}  // namespace

std::string split_atomic(const Statement& s, const Instruction& in) {
  static constexpr std::array<std::string_view, 8> kTypes = {"u32", "s32", "b32", "f32",
                                                             "u64", "s64", "b64", "f64"};
  const bool atom = in.opcode == "atom";
  const std::size_t address = atom ? 1 : 0;
  if (has_any(in, {"async", "vec", "noftz", "v2", "v4", "v8"}) || s.operands.size() < address + 2) return {};
  const std::string_view type = in.modifiers.back();
  if (std::ranges::find(kTypes, type) == kTypes.end()) return {};
  const std::string operation = operation_of(s, in, type, address + 1);
  if (operation.empty()) return {};
  std::string space;
  for (const std::string_view m : {"global", "shared", "shared::cta", "shared::cluster"})
    if (in.has(m)) space = "." + std::string(m);
  const std::string bits = "b" + std::string(type.substr(1)), guard(s.predicate()), at(s.operands[address]);
  std::string text = "{ .reg ." + bits + " kiln_old, kiln_new; .reg .pred kiln_same; " + guard + "ld" +
                     space + "." + bits + " kiln_old, " + at + "; " + operation + guard + "st" + space + "." +
                     bits + " " + at + ", kiln_new; ";
  if (atom && s.operands[0] != "_")
    text += guard + "mov." + bits + " " + std::string(s.operands[0]) + ", kiln_old; ";
  return text + "}";
}

std::string narrow_scope(const Statement& s, const Instruction& in) {
  if (has_any(in, {"proxy", "mbarrier_init", "async", "mmio"})) return {};
  std::string head(s.head());
  const std::string before = head;
  if (in.opcode == "membar") {
    for (const std::string_view scope : {"gl", "sys"}) head = replaced(head, scope, ".cta");
  } else {
    for (const std::string_view scope : {"gpu", "sys", "cluster"}) head = replaced(head, scope, ".cta");
    const bool atomic = in.opcode == "atom" || in.opcode == "red";
    const bool shared = has_any(in, {"shared", "shared::cta", "shared::cluster"});
    if (atomic && head == before && !shared &&
        !has_any(in, {"cta", "relaxed", "acquire", "release", "acq_rel"}))
      head.insert(in.opcode.size(), ".relaxed.cta");
  }
  return head == before ? "" : s.with_head(head);
}

std::string plain_access(const Statement& s, const Instruction& in) {
  if (!has_any(in, {"volatile", "relaxed"}) || has_any(in, {"async", "mmio"})) return {};
  std::string head(s.head());
  for (const std::string_view m : {"volatile", "relaxed", "cta", "cluster", "gpu", "sys"})
    head = replaced(head, m, "");
  return s.with_head(head);
}

std::string next_address(const Statement& s, const Instruction& in, std::size_t operand) {
  std::size_t bytes = bytes_of(in.modifiers.back());
  for (const auto& [modifier, times] : {std::pair{"v2", 2U}, std::pair{"v4", 4U}, std::pair{"v8", 8U}})
    if (in.has(modifier)) bytes *= times;
  const ptx::Operand& address = in.operands[operand];
  if (bytes == 0 || address.kind != ptx::Operand::Kind::address || address.items.empty()) return {};
  const AddressText parts = split_address(s.operands[operand]);
  // A symbol has the offset in its base.
  const std::int64_t offset = address.value + static_cast<std::int64_t>(bytes);
  if (address.items[0].kind != ptx::Operand::Kind::reg && address.items[0].kind != ptx::Operand::Kind::symbol)
    return {};
  return s.with_operand(operand, "[" + std::string(parts.base) + "+" + std::to_string(offset) + "]");
}

std::string other_bound(const Statement& s, const Instruction& in) {
  static constexpr std::array<std::string_view, 4> kTypes = {"s32", "u32", "s64", "u64"};
  static constexpr std::pair<std::string_view, std::string_view> kOther[] = {
      {"lt", ".le"}, {"le", ".lt"}, {"gt", ".ge"}, {"ge", ".gt"},
      {"lo", ".ls"}, {"ls", ".lo"}, {"hi", ".hs"}, {"hs", ".hi"}};
  if (std::ranges::find(kTypes, in.modifiers.back()) == kTypes.end()) return {};
  for (const auto& [from, to] : kOther)
    if (in.has(from)) return s.with_head(replaced(std::string(s.head()), from, to));
  return {};
}

std::string without_guard(const Statement& s, const Instruction& in) {
  if (!in.predicated || has_any(in, {"param", "bulk"})) return {};
  return std::string(s.text.substr(s.opcode, s.end - s.opcode));
}

}  // namespace kiln::emulator
