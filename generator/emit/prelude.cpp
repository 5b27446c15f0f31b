#include "generator/emit/prelude.hpp"

#include <algorithm>
#include <sstream>

#include <kiln/error.hpp>
#include "generator/emit/templates.hpp"

namespace kiln {

Prelude::Prelude(std::string_view file) {
  read(file);
  for (auto& section : sections_) section.text.drop_blank_end();  // one blank line between them
}

void Prelude::read(std::string_view file) {
  constexpr std::string_view kMark = "//@ section ", kInclude = "//@ include ";
  const EmbeddedText& whole = embedded_template(file);
  std::istringstream in{std::string(whole.text)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.rfind(kInclude, 0) == 0) {
      read(std::string_view(line).substr(kInclude.size()));
    } else if (line.rfind(kMark, 0) == 0) {
      std::istringstream words(line.substr(kMark.size()));
      Section section;
      words >> section.name;
      for (std::string word; words >> word;) {
        if (word != "needs") section.needs.push_back(word);
      }
      sections_.push_back(std::move(section));
    } else if (!sections_.empty()) {
      sections_.back().text.add_line(line, 0, {whole.name, number});
    }
  }
}

void Prelude::use(std::string_view name) {
  if (used_.contains(name)) return;
  const auto found =
      std::find_if(sections_.begin(), sections_.end(), [&](const Section& s) { return s.name == name; });
  if (found == sections_.end())
    throw Error(ErrorCode::internal, "no prelude section '" + std::string(name) + "'");
  used_.emplace(name);
  for (const auto& need : found->needs) use(need);
}

void Prelude::add(const std::string& key, Lines text) {
  generated_.emplace(key, std::move(text));
}

void Prelude::add(const std::string& key, std::string_view text, Here here) {
  Lines lines;
  lines.add(text, {here.file, here.line});
  add(key, std::move(lines));
}

Lines Prelude::lines() const {
  constexpr LineOrigin kBetween{__FILE__, __LINE__};
  Lines out;
  for (const auto& section : sections_) {
    if (!used_.contains(section.name)) continue;
    out.add(section.text);
    out.add_line("", 0, kBetween);
  }
  for (const auto& [key, text] : generated_) {
    out.add(text);
    out.add_line("", 0, kBetween);
  }
  return out;
}

}  // namespace kiln
