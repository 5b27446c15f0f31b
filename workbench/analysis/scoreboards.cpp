#include "workbench/analysis/scoreboards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>

namespace kiln {
namespace {

constexpr unsigned kNone = 7;  // no scoreboard

struct Instruction {
  std::string address, op, text;
  unsigned waits = 0;       // a mask of scoreboards
  unsigned raises = kNone;  // the scoreboard that is up until the results are there
  std::set<std::string> results, operands;
  std::string target;    // label of a branch
  bool goes_on = true;   // to the instruction after it
  bool forgets = false;  // a call, or a wait for everything
};

struct Section {
  std::vector<Instruction> code;
  std::map<std::string, std::size_t> labels;
};

template <std::size_t N>
bool starts_with_one_of(std::string_view text, const std::array<std::string_view, N>& starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view s) { return text.starts_with(s); });
}

bool is_predicate(std::string_view operand) {
  if (operand.starts_with("U")) operand.remove_prefix(1);
  return operand.size() == 2 && operand[0] == 'P' && (operand[1] == 'T' || std::isdigit(operand[1]) != 0);
}

/// How many of the operands, from the first, are results.
std::size_t results_of(std::string_view op, const std::vector<std::string>& operands) {
  static constexpr std::array<std::string_view, 28> kNoResult{
      "ST",      "RED.", "BAR", "SYNCS.ARR", "BRA", "BSSY",  "BSYNC",    "WARPSYNC", "HGMMA", "QGMMA",
      "LDGSTS",  "EXIT", "NOP", "ARRIVES",   "MEM", "FENCE", "CCTL",     "DEPBAR",   "IGMMA", "BREAK",
      "WARPGRO", "YIEL", "RET", "CALL",      "UTM", "UBLK",  "USETMAXR", "UTC"};
  static constexpr std::array<std::string_view, 7> kPredicates{"ISETP",  "FSETP", "DSETP", "HSETP2",
                                                               "UISETP", "PLOP3", "UPLOP3"};
  static constexpr std::array<std::string_view, 4> kCarries{"IADD3", "LEA", "UIADD3", "ULEA"};
  if (starts_with_one_of(op, kNoResult)) return 0;
  if (starts_with_one_of(op, kPredicates)) return 2;
  if (op.starts_with("FCHK") || op.starts_with("SYNCS")) return 1;
  if (starts_with_one_of(op, kCarries)) {
    std::size_t count = 1;
    while (count < operands.size() && is_predicate(operands[count])) ++count;
    return count;
  }
  // SHFL P0, R1, ...; R2UR P0, UR4, ...
  return !operands.empty() && is_predicate(operands[0]) && !op.starts_with("U") ? 2 : 1;
}

/// Registers of a result, or of what is stored.
int width_of(std::string_view op) {
  const auto has = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
  if (op.starts_with("LDSM")) return has(".4") ? 4 : has(".2") ? 2 : 1;
  if (op.starts_with("CS2R")) return has(".32") ? 1 : 2;
  if (op.starts_with("SHF")) return 1;  // of 64 bits, U64, it gives one half
  if (op.starts_with("IMAD.WIDE") || op.starts_with("UIMAD.WIDE")) return 2;
  return has(".128") ? 4 : has(".64") || has(".U64") ? 2 : 1;
}

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

/// Adds the registers that an operand names: `width` of each, two of an address of 64 bits.
void add_registers(std::string_view operand, int width, std::set<std::string>& out) {
  if (operand.find(".64") != std::string_view::npos) width = 2;
  for (std::size_t i = 0; i < operand.size(); ++i) {
    if (i > 0 && in_name(operand[i - 1])) continue;
    std::size_t at = i + (operand[i] == 'U' ? 1 : 0);
    if (at >= operand.size() || (operand[at] != 'R' && operand[at] != 'P')) continue;
    const std::string kind(operand.substr(i, at + 1 - i));
    int number = 0;
    const char* end = operand.data() + operand.size();
    const auto [rest, error] = std::from_chars(operand.data() + at + 1, end, number);
    if (error != std::errc{} || (rest != end && *rest != '.' && in_name(*rest))) continue;
    const int count = operand[at] == 'P' ? 1 : width;
    for (int n = 0; n < count; ++n) out.insert(kind + std::to_string(number + n));
  }
}

/// At commas outside of brackets.
std::vector<std::string> operands_of(std::string_view text) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      out.emplace_back();
    else if (c != ' ' || !out.back().empty())
      out.back() += c;
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

Instruction parsed(std::string address, std::string_view text) {
  Instruction one;
  one.address = std::move(address);
  one.text = std::string(text);
  const bool guarded = text.starts_with("@");
  if (guarded) {
    const std::size_t space = text.find(' ');
    add_registers(text.substr(0, space), 1, one.operands);
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ', space)));
  }
  one.op = std::string(text.substr(0, text.find(' ')));
  const std::string_view rest = text.size() > one.op.size() ? text.substr(one.op.size() + 1) : "";
  const std::vector<std::string> operands = operands_of(rest);
  const std::size_t results = results_of(one.op, operands);
  const int width = width_of(one.op);
  for (std::size_t n = 0; n < operands.size(); ++n) {
    const bool memory = operands[n].find('[') != std::string::npos;
    if (n < results && !memory)
      add_registers(operands[n], width, one.results);
    else
      add_registers(operands[n], one.op.starts_with("ST") && !memory ? width : 1, one.operands);
  }
  const auto has = [&](std::string_view part) { return one.op.find(part) != std::string::npos; };
  if (one.op.starts_with("BRA")) {
    const std::size_t label = rest.find("`(");
    if (label != std::string_view::npos)
      one.target = rest.substr(label + 2, rest.find(')', label) - label - 2);
    const bool on_predicate = !operands.empty() && !operands[0].starts_with("`");
    one.goes_on = guarded || on_predicate || has("DIV") || has("ANY");
  } else if (one.op.starts_with("EXIT") || one.op.starts_with("RET")) {
    one.goes_on = guarded;
  }
  one.forgets = one.op.starts_with("CALL") || one.op.starts_with("DEPBAR");
  return one;
}

/// The word that a comment of `nvdisasm -hex` holds; false where there is none.
bool word_of(std::string_view line, std::uint64_t& word) {
  const std::size_t at = line.rfind("/* 0x");
  if (at == std::string_view::npos) return false;
  const char* begin = line.data() + at + 5;
  return std::from_chars(begin, line.data() + line.size(), word, 16).ec == std::errc{};
}

/// `controls`: how many control words were read, one an instruction.
std::map<std::string, Section> sections_of(const std::string& listing, std::size_t& controls) {
  std::map<std::string, Section> sections;
  Section* section = nullptr;
  std::vector<std::string> labels;
  bool lower = false;  // the line before held an instruction and its lower word
  std::istringstream in(listing);
  for (std::string line; std::getline(in, line);) {
    std::uint64_t word = 0;
    const std::size_t start = line.find_first_not_of(" \t");
    if (start == std::string::npos) continue;
    if (lower && word_of(line, word)) {
      Instruction& one = section->code.back();
      const auto control = static_cast<unsigned>(word >> 41);
      one.raises = control >> 5 & 7, one.waits = control >> 11 & 63;
      lower = false;
      ++controls;
    } else if (const std::size_t head = line.find(".section"); head != std::string::npos) {
      const std::size_t name = line.find(".text.", head);
      section =
          name == std::string::npos ? nullptr : &sections[line.substr(name, line.find(',', name) - name)];
      labels.clear();
    } else if (line.starts_with(".L_x_")) {
      labels.push_back(line.substr(0, line.find(':')));
    } else if (section != nullptr && line.compare(start, 2, "/*") == 0) {
      const std::size_t end = line.find("*/", start), code = line.find_first_not_of(' ', end + 2),
                        stop = line.find(';', code);
      if (end == std::string::npos || code == std::string::npos || stop == std::string::npos) continue;
      std::string_view text = std::string_view(line).substr(code, stop - code);
      while (text.ends_with(' ')) text.remove_suffix(1);
      for (const std::string& label : labels) section->labels[label] = section->code.size();
      labels.clear();
      section->code.push_back(parsed(line.substr(start + 2, end - start - 2), text));
      lower = word_of(line, word);
    }
  }
  return sections;
}

/// Of a register: the scoreboards that are up for its value, and the instructions that raised them.
struct Pending {
  unsigned scoreboard;
  std::size_t by;
  bool operator<(const Pending& other) const {
    return std::tie(scoreboard, by) < std::tie(other.scoreboard, other.by);
  }
};
using State = std::map<std::string, std::set<Pending>>;

/// An instruction whose result is used too early, the one that uses it, and the register.
struct Missing {
  std::size_t user, by;
  std::string reg;
  bool operator<(const Missing& other) const {
    return std::tie(user, by, reg) < std::tie(other.user, other.by, other.reg);
  }
};

void wait_for(unsigned scoreboards, State& state) {
  if (scoreboards == 0) return;
  for (auto& [reg, pending] : state)
    std::erase_if(pending, [&](const Pending& p) { return (scoreboards >> p.scoreboard & 1) != 0; });
  std::erase_if(state, [](const auto& entry) { return entry.second.empty(); });
}

/// What is pending after instruction `n`.
State after(State state, std::size_t n, const Instruction& one, std::set<Missing>& found) {
  wait_for(one.waits, state);
  const auto use = [&](const std::string& reg) {
    const auto at = state.find(reg);
    if (at == state.end()) return;
    for (const Pending& p : at->second) found.insert({n, p.by, reg});
  };
  for (const std::string& reg : one.operands) use(reg);
  // Two LDTM fill half of the lanes of a register each.
  if (!one.op.starts_with("LDTM"))
    for (const std::string& reg : one.results) use(reg);
  for (const std::string& reg : one.results) {
    state.erase(reg);
    if (one.raises != kNone) state[reg].insert({one.raises, n});
  }
  if (one.forgets) state.clear();
  return state;
}

std::set<Missing> search(const Section& section) {
  std::set<Missing> found;
  std::map<std::size_t, State> before{{0, {}}};
  std::vector<std::size_t> work{0};
  while (!work.empty()) {
    const std::size_t n = work.back();
    work.pop_back();
    const Instruction& one = section.code[n];
    const State state = after(before[n], n, one, found);
    std::vector<std::size_t> next;
    if (one.goes_on && n + 1 < section.code.size()) next.push_back(n + 1);
    if (const auto label = section.labels.find(one.target); label != section.labels.end())
      next.push_back(label->second);
    for (const std::size_t m : next) {
      bool changed = !before.contains(m);
      State& there = before[m];
      for (const auto& [reg, pending] : state)
        for (const Pending& p : pending) changed |= there[reg].insert(p).second;
      if (changed) work.push_back(m);
    }
  }
  return found;
}

}  // namespace

WaitReport check_waits(const std::string& listing) {
  WaitReport report;
  for (const auto& [name, section] : sections_of(listing, report.instructions)) {
    if (section.code.empty()) continue;
    for (const Missing& m : search(section)) {
      const Instruction &by = section.code[m.by], &user = section.code[m.user];
      report.missing.push_back(fmt::format("{} of {}: {} (scoreboard {}) is not waited for at {}: {}", m.reg,
                                           by.address, by.text, by.raises, user.address, user.text));
    }
  }
  return report;
}

}  // namespace kiln
