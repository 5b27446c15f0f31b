// Device code that is written as text in templates/, with named holes and conditions. Lines of a section:
//
//   ${BM}              a hole; alone in its line it may be several lines (indented alike) or none
//   //@ if split       up to `//@ else` or `//@ end`: only where the condition `split` is true (`!split`: false)
//
// Every hole and every condition must be given, also where the text is left out: a name that is spelled wrongly is an
// error of kiln, at once.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "generator/emit/lines.hpp"

namespace kiln {

/// What a template's holes and conditions stand for.
class Holes {
 public:
  Holes& text(std::string_view name, std::string value);
  /// Where the hole has its line to itself, these keep their origins.
  Holes& lines(std::string_view name, Lines value);
  /// The holes `name` and `name-1`.
  Holes& number(std::string_view name, int value);
  Holes& when(std::string_view name, bool value);

  /// Throws Error (internal) for a name that was not given.
  const std::string& text_of(std::string_view name) const;
  /// Null where the hole was not given as lines.
  const Lines* lines_of(std::string_view name) const;
  bool is(std::string_view condition) const;

 private:
  std::map<std::string, std::string, std::less<>> texts_;  ///< lines_ come before these
  std::map<std::string, Lines, std::less<>> lines_;
  std::map<std::string, bool, std::less<>> conditions_;
};

/// A section of templates/`file`, filled. Ends with a newline; blank lines at the end of the section stay. Throws Error
/// (internal) for a section, a hole or a condition that is not there, and for an `if` without its `end`.
Lines fill_template(std::string_view file, std::string_view section, const Holes& holes);

/// The same without those blank lines, for a hole of another section.
Lines fill_section(std::string_view file, std::string_view section, const Holes& holes);

/// As fill_template, for a section's text, whose first line is line `first.line` of `first.file`.
Lines fill_text(std::string_view text, const Holes& holes, LineOrigin first = {"", 1});

}  // namespace kiln
