// Loops of one round become their bodies: emitters write loops for any number of rounds.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ascii.hpp"
#include "generator/emit/finish.hpp"
#include "generator/emit/lines.hpp"

namespace kiln {
namespace {

struct EmittedLine {
  std::string text;
  LineOrigin origin;
  std::size_t indent() const { return std::min(text.find_first_not_of(' '), text.size()); }
};
using EmittedLines = std::vector<EmittedLine>;

/// Position of an integer that multiplies what is at `at`; `at` where there is none.
std::size_t factor_before(std::string_view text, std::size_t at) {
  if (!text.substr(0, at).ends_with(" * ")) return at;
  std::size_t begin = at - 3;
  while (begin > 0 && is_ascii_digit(text[begin - 1])) --begin;
  const bool integer =
      begin + 3 < at && (begin == 0 || (!is_ascii_word(text[begin - 1]) && text[begin - 1] != '.'));
  return integer ? begin : at;
}

bool opens(std::string_view text, std::size_t at) {
  return at > 0 && (text[at - 1] == '[' || text[at - 1] == '(');
}

/// `text` with 0 for `counter`; the terms `128 * round + ` and ` + 128 * round` go.
std::string in_round_zero(std::string text, std::string_view counter) {
  for (std::size_t at = find_word(text, counter); at != std::string::npos;
       at = find_word(text, counter, at)) {
    const std::size_t end = at + counter.size(), begin = factor_before(text, at);
    if (begin < at && std::string_view(text).substr(0, begin).ends_with(" + ")) {
      text.erase(begin - 3, end - begin + 3);
      at = begin - 3;
    } else if ((begin < at || opens(text, at)) && std::string_view(text).substr(end).starts_with(" + ")) {
      text.erase(begin, end - begin + 3);
      at = begin;
    } else {
      text.replace(at, counter.size(), "0");
    }
  }
  return text;
}

/// The counter of a loop of one round, and what follows the head on its line: `{`, a statement or nothing.
struct SingleRound {
  std::string counter, behind;
};

std::optional<SingleRound> single_round(const EmittedLine& line) {
  constexpr std::string_view kBegin = "for (int ";
  std::string_view text = std::string_view(line.text).substr(line.indent());
  if (!text.starts_with(kBegin)) return {};
  text.remove_prefix(kBegin.size());
  const std::string counter(text.substr(0, text.find(' ')));
  text.remove_prefix(counter.size());
  const std::string rest = " = 0; " + counter + " < 1; ++" + counter + ")";
  if (!text.starts_with(rest)) return {};
  text.remove_prefix(rest.size());
  return SingleRound{counter, std::string(text.starts_with(' ') ? text.substr(1) : text)};
}

bool is_directive(const EmittedLine& line) {
  return line.indent() < line.text.size() && line.text[line.indent()] == '#';
}

/// Past the lines behind `head` that are deeper, or directives, which may have any indent.
std::size_t body_end(const EmittedLines& lines, std::size_t head) {
  std::size_t end = head + 1;
  while (end < lines.size() &&
         (lines[end].text.empty() || is_directive(lines[end]) || lines[end].indent() > lines[head].indent()))
    ++end;
  return end;
}

/// Whether the lines between `head` and `end` are the whole body of the loop at `head`.
bool is_body(const EmittedLines& lines, std::size_t head, std::size_t end, const SingleRound& round) {
  if (round.behind.empty()) return end > head + 1 && !is_directive(lines[end - 1]);
  if (round.behind != "{") return true;
  return end < lines.size() && lines[end].indent() == lines[head].indent() &&
         lines[end].text[lines[end].indent()] == '}';
}

/// Whether a line needs its loop, or has another variable of the counter's name.
bool needs_loop(const EmittedLine& line, const std::string& counter) {
  const auto has = [&](const std::string& word) {
    return find_word(line.text, word) != std::string_view::npos;
  };
  return has("break") || has("continue") || has("int " + counter) || line.text.ends_with('\\');
}

/// Writes the loop at `head` without its head; false, with nothing done, where that is not possible.
bool write_round(EmittedLines& lines, std::size_t head, const SingleRound& round) {
  const std::size_t end = round.behind.empty() || round.behind == "{" ? body_end(lines, head) : head + 1;
  const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(head);
  if (std::any_of(begin + 1, lines.begin() + static_cast<std::ptrdiff_t>(end),
                  [&](const EmittedLine& line) { return needs_loop(line, round.counter); }) ||
      !is_body(lines, head, end, round))
    return false;
  for (std::size_t i = head + 1; i < end; ++i) {
    lines[i].text = in_round_zero(std::move(lines[i].text), round.counter);
    if (round.behind.empty() && lines[i].text.starts_with("  ")) lines[i].text.erase(0, 2);
  }
  begin->text = std::string(begin->indent(), ' ') + in_round_zero(round.behind, round.counter);
  if (round.behind.empty()) lines.erase(begin);
  return true;
}

}  // namespace

void write_single_rounds(KernelSource& source) {
  if (source.text.find(" < 1; ++") == std::string::npos) return;
  EmittedLines lines;
  std::string_view rest = source.text;
  for (const LineOrigin& origin : source.origins) lines.push_back({std::string(take_line(rest)), origin});
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto round = single_round(lines[i]);
    if (!round || !write_round(lines, i, *round)) continue;
    if (i > 0 &&
        std::string_view(lines[i - 1].text).substr(lines[i - 1].indent()).starts_with("#pragma unroll"))
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(--i));
    --i;  // what is here now may be the head of another
  }
  Lines out;
  for (const EmittedLine& line : lines) out.add_line(line.text, 0, line.origin);
  out.move_to(source);
}

void finish_text(KernelSource& source) {
  write_single_rounds(source);
  wrap_lines(source);
}

}  // namespace kiln
