// Emitted text, and for each of its lines what wrote it: a file of kiln's sources or of templates/, and a line there.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kiln/source.hpp>

namespace kiln {

/// The place that calls: `Here here = Here(__builtin_FILE(), __builtin_LINE())` as a default argument.
struct Here {
  constexpr Here(const char* its_file, int its_line) : file(its_file), line(its_line) {}
  const char* file;
  int line;
};

/// The first line of `text`, without its newline; `text` begins after it.
inline std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

class Lines {
 public:
  Lines() = default;

  /// Adds `text` (any number of lines, the last one's newline may be missing) behind `indent` blanks, all from one place.
  void add(std::string_view text, const LineOrigin& origin, int indent = 0) {
    while (!text.empty()) add_line(take_line(text), indent, origin);
  }
  /// One line behind `indent` blanks; an empty one has none.
  void add_line(std::string_view line, int indent, const LineOrigin& origin) {
    if (!line.empty()) text_.append(static_cast<std::size_t>(indent), ' ').append(line);
    text_ += '\n';
    origins_.push_back(origin);
  }
  void add(const Lines& other, int indent = 0);
  /// These become the text of `source` and its origins; nothing is left.
  void move_to(KernelSource& source);
  /// Removes the last line while it is empty and another line is before it.
  void drop_blank_end();

  const std::string& text() const { return text_; }
  const std::vector<LineOrigin>& origins() const { return origins_; }
  bool empty() const { return origins_.empty(); }

 private:
  std::string text_;
  std::vector<LineOrigin> origins_;  ///< one a line
};

}  // namespace kiln
