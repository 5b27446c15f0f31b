#include "generator/emit/templates.hpp"

#include <string>

#include <kiln/error.hpp>

namespace kiln {

const EmbeddedText& embedded_template(std::string_view file) {
  constexpr std::string_view kFolder = "templates/";
  for (const EmbeddedText& entry : embedded_templates()) {
    if (entry.name.substr(kFolder.size()) == file) return entry;
  }
  throw Error(ErrorCode::internal, "no template named " + std::string(file) + " was built in");
}

}  // namespace kiln
