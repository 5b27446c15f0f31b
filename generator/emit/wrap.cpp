// Lines that are too long are divided where they hold together least.
#include "generator/emit/finish.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "generator/emit/lines.hpp"

namespace kiln {
namespace {

constexpr std::size_t kWidth = 140;
constexpr std::size_t kDeeper = 4;
constexpr int kInLiteral = 1000;  ///< a cost above that of any other place

/// A place where a line may be divided: what is before `at` stays.
struct Break {
  std::size_t at = 0;
  int cost = 0;
  enum class Kind { statement, operand, literal } kind = Kind::operand;
};

/// Reads a line of C++ and finds where it may be divided, and where its comment begins.
class Scanner {
 public:
  explicit Scanner(std::string_view line) : line_(line) {
    for (std::size_t i = 0; i < line_.size() && comment_ == std::string_view::npos; ++i) step(i);
  }
  const std::vector<Break>& breaks() const { return breaks_; }
  std::size_t comment() const { return comment_; }

 private:
  void step(std::size_t i) {
    const char c = line_[i];
    if (quote_ != 0) return step_in_literal(i);
    if (c == '"' || c == '\'') quote_ = c;
    if (c == '/' && next_is(i, '/')) comment_ = i;
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ')' || c == ']' || c == '}') --depth_;
    if (!next_is(i, ' ')) return;
    if (c == ';' && depth_ == 0) breaks_.push_back({i + 2, 0, Break::Kind::statement});
    if (c == ',' || c == ';') breaks_.push_back({i + 2, 2 * depth_ + 1});
    if (before_operator(i + 1)) breaks_.push_back({i + 2, 2 * depth_ + (line_[i + 2] == '*' ? 4 : 2)});
  }
  void step_in_literal(std::size_t i) {
    const char c = line_[i];
    if (c == '\\') {
      escaped_ = !escaped_;
      return;
    }
    if (c == quote_ && !escaped_) quote_ = 0;
    if (quote_ == '"' && c == ',' && next_is(i, ' '))
      breaks_.push_back({i + 2, kInLiteral, Break::Kind::literal});
    escaped_ = false;
  }
  bool next_is(std::size_t i, char c) const { return i + 1 < line_.size() && line_[i + 1] == c; }
  /// Whether an operator with blanks around begins behind the blank at `blank`.
  bool before_operator(std::size_t blank) const {
    constexpr std::array<std::string_view, 11> kOperators = {" + ",  " - ", " * ", " ? ", " : ", " && ",
                                                             " || ", " | ", " ^ ", " & ", " << "};
    return std::ranges::any_of(kOperators,
                               [&](std::string_view o) { return line_.substr(blank).starts_with(o); });
  }

  std::string_view line_;
  std::vector<Break> breaks_;
  std::size_t comment_ = std::string_view::npos;
  char quote_ = 0;
  bool escaped_ = false;
  int depth_ = 0;
};

std::string blanks(std::size_t n) {
  return std::string(n, ' ');
}

std::string_view without_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

void wrap_comment(std::string_view words, std::size_t indent, std::vector<std::string>& out) {
  const std::size_t width = kWidth - indent - 3;
  while (words.size() > width) {
    std::size_t end = words.rfind(' ', width);
    if (end == std::string_view::npos) end = std::min(words.find(' '), words.size());
    out.push_back(blanks(indent) + "// " + std::string(words.substr(0, end)));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  if (!words.empty()) out.push_back(blanks(indent) + "// " + std::string(words));
}

/// Between the statements nearest to the middle of a line of `size`, so that like ones stay in like groups. Null where
/// that does not make two lines.
const Break* between_statements(const std::vector<Break>& breaks, std::size_t indent, std::size_t size) {
  const std::size_t middle = indent + (size - indent) / 2;
  const auto distance = [&](const Break& b) { return b.at > middle ? b.at - middle : middle - b.at; };
  const Break* best = nullptr;
  for (const Break& b : breaks)
    if (b.kind == Break::Kind::statement && (best == nullptr || distance(b) < distance(*best))) best = &b;
  return best != nullptr && best->at <= kWidth + 1 && size - best->at + indent <= kWidth ? best : nullptr;
}

/// The cheapest place within the width, the last of several; one that leaves less than a third of the width counts
/// only where nothing else does. Null where there is none.
const Break* choose(const std::vector<Break>& breaks, std::size_t indent, std::size_t size) {
  const Break* best = between_statements(breaks, indent, size);
  if (best != nullptr) return best;
  for (const std::size_t least : {indent + (kWidth - indent) / 3, indent + 1}) {
    for (const Break& b : breaks) {
      const std::size_t end =
          b.at + (b.kind == Break::Kind::literal ? 2 : 0);  // a space and a quote in place of a space
      if (b.at > least && end <= kWidth + 1 && (best == nullptr || b.cost <= best->cost)) best = &b;
    }
    if (best != nullptr) return best;
  }
  return best;
}

void wrap_code(std::string line, std::size_t indent, std::vector<std::string>& out) {
  std::size_t first = indent;  // of the statement, behind whose first line the others are deeper
  while (line.size() > kWidth) {
    const Scanner scanner(line);
    const Break* at = choose(scanner.breaks(), first, line.size());
    if (at == nullptr) break;
    std::string head(without_end(std::string_view(line).substr(0, at->at)));
    std::string_view rest = std::string_view(line).substr(at->at);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const bool literal = at->kind == Break::Kind::literal;
    if (literal) head += " \"";
    first = indent + (at->kind == Break::Kind::statement ? 0 : kDeeper);
    out.push_back(std::move(head));
    line = blanks(first) + (literal ? "\"" : "") + std::string(rest);
  }
  out.push_back(std::move(line));
}

bool fits(std::string_view line) {
  if (line.size() <= kWidth || line.ends_with('\\')) return true;
  return line[std::min(line.find_first_not_of(' '), line.size() - 1)] == '#';
}

std::vector<std::string> wrap(std::string_view line) {
  std::vector<std::string> out;
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t comment = Scanner(line).comment();
  if (comment != std::string_view::npos) {
    const std::string_view words = line.substr(comment + 2);
    wrap_comment(words.substr(std::min(words.find_first_not_of(' '), words.size())), indent, out);
  }
  if (comment != indent) wrap_code(std::string(without_end(line.substr(0, comment))), indent, out);
  return out;
}

}  // namespace

void wrap_lines(KernelSource& source) {
  Lines out;
  std::string_view rest = source.text;
  for (const LineOrigin& origin : source.origins) {
    const std::size_t at = source.text.size() - rest.size();
    const std::string_view line = take_line(rest);
    if (at < source.head_bytes || fits(line)) {
      out.add_line(line, 0, origin);
    } else {
      for (const std::string& piece : wrap(line)) out.add_line(piece, 0, origin);
    }
  }
  out.move_to(source);
}

}  // namespace kiln
