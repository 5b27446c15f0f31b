#include "generator/emit/text_template.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include <kiln/error.hpp>
#include "generator/emit/templates.hpp"

namespace kiln {
namespace {

constexpr std::string_view kMark = "//@ ", kSection = "//@ section ";

[[noreturn]] void fail(std::string_view what, std::string_view name) {
  throw Error(ErrorCode::internal, fmt::format("template: {} '{}'", what, name));
}

std::string filled(std::string_view line, const Holes& holes) {
  std::string out;
  for (auto open = line.find("${"); open != std::string_view::npos; open = line.find("${")) {
    const auto close = line.find('}', open);
    if (close == std::string_view::npos) fail("no end of the hole in", line);
    out += line.substr(0, open);
    out += holes.text_of(line.substr(open + 2, close - open - 2));
    line.remove_prefix(close + 1);
  }
  return out.append(line);
}

/// A hole that has its line to itself: its name, else nothing.
std::string_view lone_hole(std::string_view line) {
  const auto first = line.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  line.remove_prefix(first);
  const bool lone = line.starts_with("${") && line.find('}') == line.size() - 1;
  return lone ? line.substr(2, line.size() - 3) : std::string_view();
}

/// The open conditions, innermost last.
class Conditions {
 public:
  explicit Conditions(const Holes& holes) : holes_(holes) {}
  bool shown() const { return open_.empty() || open_.back().shown; }
  bool closed() const { return open_.empty(); }

  void take(std::string_view command) {
    if (command.starts_with("if ")) return begin(command.substr(3));
    if (open_.empty() || (command != "else" && command != "end")) fail("stray line", command);
    if (command == "else")
      open_.back().shown = open_.back().around && !open_.back().value;
    else
      open_.pop_back();
  }

 private:
  struct Open {
    bool around, value, shown;
  };
  void begin(std::string_view name) {
    const bool negated = name.starts_with('!');
    const bool value = holes_.is(name.substr(negated ? 1 : 0)) != negated;
    open_.push_back({shown(), value, shown() && value});
  }
  const Holes& holes_;
  std::vector<Open> open_;
};

}  // namespace

Holes& Holes::text(std::string_view name, std::string value) {
  lines_.erase(std::string(name));
  texts_.insert_or_assign(std::string(name), std::move(value));
  return *this;
}

Holes& Holes::lines(std::string_view name, Lines value) {
  lines_.insert_or_assign(std::string(name), std::move(value));
  return *this;
}

Holes& Holes::number(std::string_view name, int value) {
  text(name, std::to_string(value));
  return text(std::string(name) + "-1", std::to_string(value - 1));
}

Holes& Holes::when(std::string_view name, bool value) {
  conditions_.insert_or_assign(std::string(name), value);
  return *this;
}

const std::string& Holes::text_of(std::string_view name) const {
  if (const Lines* const lines = lines_of(name)) return lines->text();
  const auto found = texts_.find(name);
  if (found == texts_.end()) fail("no text for the hole", name);
  return found->second;
}

const Lines* Holes::lines_of(std::string_view name) const {
  const auto found = lines_.find(name);
  return found == lines_.end() ? nullptr : &found->second;
}

bool Holes::is(std::string_view condition) const {
  const auto found = conditions_.find(condition);
  if (found == conditions_.end()) fail("no value of the condition", condition);
  return found->second;
}

Lines fill_text(std::string_view text, const Holes& holes, LineOrigin first) {
  Lines out;
  Conditions conditions(holes);
  for (LineOrigin origin = first; !text.empty(); ++origin.line) {
    const std::string_view line = take_line(text);
    if (line.starts_with(kMark)) {
      conditions.take(line.substr(kMark.size()));
      continue;
    }
    const std::string_view hole = lone_hole(line);
    if (hole.empty()) {
      const std::string whole = filled(line, holes);
      if (!conditions.shown()) continue;
      if (whole.empty())
        out.add_line("", 0, origin);
      else
        out.add(whole, origin);
      continue;
    }
    const int indent = static_cast<int>(line.find_first_not_of(' '));
    std::string_view lines = holes.text_of(hole);
    if (!conditions.shown()) continue;
    if (const Lines* const known = holes.lines_of(hole)) {
      out.add(*known, indent);
      continue;
    }
    while (!lines.empty()) out.add_line(take_line(lines), indent, origin);
  }
  if (!conditions.closed()) fail("no end of a condition", "if");
  return out;
}

Lines fill_template(std::string_view file, std::string_view section, const Holes& holes) {
  const EmbeddedText& whole = embedded_template(file);
  std::string_view text = whole.text;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (!line.starts_with(kSection) || line.substr(kSection.size()) != section) continue;
    std::string_view rest = text;
    const char* const begin = rest.data();
    const char* end = begin + rest.size();
    while (!rest.empty()) {
      const char* const at = rest.data();
      if (!take_line(rest).starts_with(kSection)) continue;
      end = at;
      break;
    }
    return fill_text(std::string_view(begin, static_cast<std::size_t>(end - begin)), holes,
                     {whole.name, number + 1});
  }
  fail("no section", section);
}

Lines fill_section(std::string_view file, std::string_view section, const Holes& holes) {
  Lines lines = fill_template(file, section, holes);
  lines.drop_blank_end();
  return lines;
}

}  // namespace kiln
