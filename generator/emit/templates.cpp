#include "generator/emit/templates.hpp"

#include <string>

#include <kiln/error.hpp>

namespace kiln {

std::string_view embedded_template(std::string_view file) {
  for (const EmbeddedText& entry : embedded_templates()) {
    if (entry.name == file) return entry.text;
  }
  throw Error(ErrorCode::internal, "no template named " + std::string(file) + " was built in");
}

}  // namespace kiln
