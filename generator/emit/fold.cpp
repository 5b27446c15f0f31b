#include "generator/emit/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/ascii.hpp"
#include "generator/emit/lines.hpp"

namespace kiln {
namespace {

constexpr std::size_t kLongestBlock = 8;  ///< lines
constexpr std::size_t kLeastSaved = 3;    ///< lines, or a strip stays as it is
constexpr std::size_t kLeastRepeats = 3;
constexpr std::int64_t kLargest = 1 << 30;  ///< of a literal

/// A line as text between decimal integer literals: "s[2] = max(s[2], 0.0f);" is "s[", 2, "] = max(s[", 2, "], 0.0f);".
struct Line {
  std::string_view text;
  std::vector<std::string_view> pieces;  ///< one more than literals
  std::vector<std::int64_t> literals;
  bool folds = false;  ///< a statement that may be the body of a loop
};

/// Past an identifier or a number that is no plain decimal integer, or one character.
std::size_t skip_token(std::string_view text, std::size_t at) {
  if (!is_ascii_word(text[at])) return at + 1;
  while (at < text.size() && (is_ascii_word(text[at]) || text[at] == '.')) ++at;
  return at;
}

void split(Line& line) {
  const std::string_view text = line.text;
  std::size_t piece = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_ascii_digit(text[end])) ++end;
    const bool integer = end > at && (end == text.size() || (!is_ascii_word(text[end]) && text[end] != '.'));
    std::int64_t value = 0;
    const bool read = std::from_chars(text.data() + at, text.data() + end, value).ec == std::errc();
    if (!integer || !read || value > kLargest) {
      at = skip_token(text, at);
      continue;
    }
    line.pieces.push_back(text.substr(piece, at - piece));
    line.literals.push_back(value);
    at = piece = end;
  }
  line.pieces.push_back(text.substr(piece));
}

/// A macro of capitals takes constants ("WGMMA_WAIT(1)"), and so do the compiler's own functions.
bool wants_constants(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = skip_token(text, at);
    const std::string_view word = text.substr(at, end - at);
    const bool capitals =
        word.size() > 2 &&
        std::none_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; }) &&
        word[0] >= 'A' && word[0] <= 'Z';
    if ((capitals && end < text.size() && text[end] == '(') || word.starts_with("__builtin") || word == "asm")
      return true;
    at = end;
  }
  return false;
}

bool is_statement(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos || text[first] == '#' || !(text.ends_with(';') || text.ends_with('}')))
    return false;
  const std::string_view code = text.substr(first);
  return code.find("//") == std::string_view::npos && !code.starts_with("case ") && !code.starts_with('}') &&
         std::count(code.begin(), code.end(), '{') == std::count(code.begin(), code.end(), '}') &&
         !wants_constants(code);
}

std::vector<Line> split_lines(std::string_view text) {
  std::vector<Line> out;
  while (!text.empty()) {
    Line line;
    line.text = take_line(text);
    line.folds = is_statement(line.text);
    if (line.folds) split(line);
    out.push_back(std::move(line));
  }
  return out;
}

/// Blocks of `period` lines that repeat `repeats` times.
struct Strip {
  std::size_t period = 0, repeats = 0;
  std::size_t loop_lines() const { return period + 3; }  ///< the pragma, the head and the end
  std::size_t saved() const { return period * repeats > loop_lines() ? period * repeats - loop_lines() : 0; }
};

/// A literal that changes in a template's argument list would be no constant there.
bool may_change(const Line& line, std::size_t literal) {
  return !line.pieces[literal].ends_with('<');
}

/// Whether `line`, `round` rounds after `first`, continues what `first` and `second` begin.
bool continues(const Line& first, const Line& second, const Line& line, std::int64_t round) {
  if (!line.folds || line.pieces != first.pieces) return false;
  for (std::size_t i = 0; i < line.literals.size(); ++i) {
    const std::int64_t step = second.literals[i] - first.literals[i];
    if (step != 0 && !may_change(first, i)) return false;
    if (line.literals[i] != first.literals[i] + round * step) return false;
  }
  return true;
}

Strip strip_of(std::span<const Line> lines, std::size_t period) {
  std::size_t repeats = 1;
  const auto block_continues = [&](std::size_t round) {
    for (std::size_t i = 0; i < period; ++i) {
      const Line &first = lines[i], &second = lines[period + i];
      if (!first.folds || second.pieces != first.pieces) return false;
      if (!continues(first, second, lines[round * period + i], static_cast<std::int64_t>(round)))
        return false;
    }
    return true;
  };
  while ((repeats + 1) * period <= lines.size() && block_continues(repeats)) ++repeats;
  return {period, repeats};
}

/// The strip at the beginning of `lines` that saves the most lines.
Strip best_strip(std::span<const Line> lines) {
  Strip best;
  for (std::size_t period = 1; period <= kLongestBlock && kLeastRepeats * period <= lines.size(); ++period) {
    const Strip strip = strip_of(lines, period);
    if (strip.repeats >= kLeastRepeats && strip.saved() > best.saved()) best = strip;
  }
  return best;
}

/// Where the loop begins: so that what is added to most multiples is less than a step.
std::int64_t first_round(std::span<const Line> lines, std::size_t period) {
  std::vector<std::int64_t> starts{0};
  for (std::size_t i = 0; i < period; ++i) {
    for (std::size_t n = 0; n < lines[i].literals.size(); ++n) {
      const std::int64_t begin = lines[i].literals[n], step = lines[period + i].literals[n] - begin;
      if (step > 0 && begin / step <= 4) starts.push_back(begin / step);
    }
  }
  const auto count = [&](std::int64_t start) { return std::count(starts.begin(), starts.end(), start); };
  return *std::max_element(starts.begin(), starts.end(),
                           [&](std::int64_t a, std::int64_t b) { return count(a) < count(b); });
}

/// begin + step (i - start), in brackets where its neighbours bind more tightly than + and *.
std::string progression(std::int64_t begin, std::int64_t step, std::int64_t start, std::string_view before,
                        std::string_view after, std::string_view i) {
  const std::int64_t rest = begin - step * start;
  std::string text;
  if (step < 0) {
    text = fmt::format("{} - {}", rest, step == -1 ? std::string(i) : fmt::format("{} * {}", -step, i));
  } else {
    text = step == 1 ? std::string(i) : fmt::format("{} * {}", step, i);
    if (rest != 0) text += fmt::format(" {} {}", rest < 0 ? '-' : '+', std::abs(rest));
  }
  const auto tail = before.find_last_not_of(' ');
  const char left = tail == std::string_view::npos ? ' ' : before[tail];
  const auto next = after.find_first_not_of(' ');
  const char right = next == std::string_view::npos ? ' ' : after[next];
  constexpr std::string_view kLeft = "[(,<>=", kRight = "]),<>=;";
  const bool loose =
      kLeft.find(left) != std::string_view::npos && kRight.find(right) != std::string_view::npos;
  return loose ? text : "(" + text + ")";
}

std::string folded(const Line& first, const Line& second, std::int64_t start, std::string_view i) {
  std::string out;
  for (std::size_t n = 0; n < first.literals.size(); ++n) {
    out += first.pieces[n];
    const std::int64_t begin = first.literals[n], step = second.literals[n] - begin;
    out += step == 0 ? std::to_string(begin)
                     : progression(begin, step, start, first.pieces[n], first.pieces[n + 1], i);
  }
  return out + std::string(first.pieces.back());
}

/// Whether some line has `word` as an identifier.
bool uses(std::span<const Line> lines, std::string_view word) {
  return std::any_of(lines.begin(), lines.end(), [word](const Line& line) {
    for (std::size_t at = 0; at < line.text.size();) {
      const std::size_t end = skip_token(line.text, at);
      if (line.text.substr(at, end - at) == word) return true;
      at = end;
    }
    return false;
  });
}

void add_loop(Lines& out, std::span<const Line> lines, const Strip& strip, const LineOrigin* origins) {
  const std::int64_t start = first_round(lines, strip.period);
  const std::string_view i = uses(lines.first(strip.period), "i") ? "round" : "i";
  const int indent = static_cast<int>(lines[0].text.find_first_not_of(' '));
  out.add_line("#pragma unroll", indent, origins[0]);
  out.add_line(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0}) {{", i, start,
                           start + static_cast<std::int64_t>(strip.repeats)),
               indent, origins[0]);
  for (std::size_t n = 0; n < strip.period; ++n)
    out.add_line(folded(lines[n], lines[strip.period + n], start, i), 2, origins[n]);
  out.add_line("}", indent, origins[0]);
}

}  // namespace

bool fold_strips(KernelSource& source) {
  const std::vector<Line> all = split_lines(source.text);
  Lines out;
  for (std::size_t at = 0; at < all.size();) {
    const std::span<const Line> rest(all.data() + at, all.size() - at);
    const LineOrigin* origins = source.origins.data() + at;
    const Strip strip = all[at].folds ? best_strip(rest) : Strip{};
    if (strip.saved() >= kLeastSaved) {
      add_loop(out, rest, strip, origins);
      at += strip.period * strip.repeats;
    } else {
      out.add_line(all[at].text, 0, origins[0]);
      ++at;
    }
  }
  const bool folded = out.origins().size() < all.size();
  out.move_to(source);
  return folded;
}

}  // namespace kiln
