#include "cli/inspect/page.hpp"
#include "generator/config/json_text.hpp"

#include <algorithm>
#include <kiln/error.hpp>

namespace kiln::cli {

std::string filled_page(std::string_view name, const Json& data) {
  constexpr std::string_view kHole = "KILN_DATA";
  const auto pages = page_templates();
  const auto page =
      std::find_if(pages.begin(), pages.end(), [&](const EmbeddedText& each) { return each.name == name; });
  if (page == pages.end()) throw Error(ErrorCode::internal, "no page is called " + std::string(name));
  const std::string_view html = page->text;
  const std::size_t hole = html.find(kHole);
  std::string text = write_json(data);
  // "</script" would end the element that the document is in.
  for (std::size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3))
    text.replace(at, 2, "<\\/");
  return std::string(html.substr(0, hole)) + text + std::string(html.substr(hole + kHole.size()));
}

}  // namespace kiln::cli
