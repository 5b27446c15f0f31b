#include "generator/emit/writer.hpp"

namespace kiln {

void Writer::put(std::string_view text, Here here) {
  const LineOrigin origin{here.file, here.line};
  const auto end = text.find('\n');
  lines_.add_line(text.substr(0, end), 2 * indent_, origin);
  if (end != std::string_view::npos) lines_.add(text.substr(end + 1), origin);
}

void Writer::raw(std::string_view text, Here here) {
  lines_.add(text, {here.file, here.line}, 2 * indent_);
}

}  // namespace kiln
