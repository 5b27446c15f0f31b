#include "generator/emit/prelude.hpp"

#include <algorithm>
#include <sstream>

#include <kiln/error.hpp>
#include "generator/emit/templates.hpp"

namespace kiln {

Prelude::Prelude(std::string_view file) {
  read(file);
  for (auto& section : sections_) {  // one blank line between sections, none at their ends
    while (section.text.size() > 1 && section.text.ends_with("\n\n")) section.text.pop_back();
  }
}

void Prelude::read(std::string_view file) {
  constexpr std::string_view kMark = "//@ section ", kInclude = "//@ include ";
  std::istringstream in{std::string(embedded_template(file))};
  for (std::string line; std::getline(in, line);) {
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
      sections_.back().text += line + '\n';
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

void Prelude::add(const std::string& key, std::string text) {
  generated_.emplace(key, std::move(text));
}

std::string Prelude::text() const {
  std::string out;
  for (const auto& section : sections_) {
    if (used_.contains(section.name)) out += section.text + '\n';
  }
  for (const auto& [key, text] : generated_) out += text + '\n';
  return out;
}

}  // namespace kiln
