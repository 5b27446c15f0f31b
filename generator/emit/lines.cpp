#include "generator/emit/lines.hpp"

namespace kiln {

void Lines::add(const Lines& other, int indent) {
  std::string_view rest = other.text_;
  for (const LineOrigin& origin : other.origins_) {
    const auto end = rest.find('\n');
    add_line(rest.substr(0, end), indent, origin);
    rest.remove_prefix(end + 1);
  }
}

void Lines::drop_blank_end() {
  while (origins_.size() > 1 && text_.ends_with("\n\n")) {
    text_.pop_back();
    origins_.pop_back();
  }
}

}  // namespace kiln
