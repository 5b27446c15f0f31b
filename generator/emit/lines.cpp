#include "generator/emit/lines.hpp"

namespace kiln {

void Lines::add(const Lines& other, int indent) {
  std::string_view rest = other.text_;
  for (const LineOrigin& origin : other.origins_) add_line(take_line(rest), indent, origin);
}

void Lines::move_to(KernelSource& source) {
  source.text = std::move(text_);
  source.origins = std::move(origins_);
  text_.clear(), origins_.clear();
}

void Lines::drop_blank_end() {
  while (origins_.size() > 1 && text_.ends_with("\n\n")) {
    text_.pop_back();
    origins_.pop_back();
  }
}

}  // namespace kiln
