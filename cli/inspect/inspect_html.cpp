// The report as a page: templates/inspect.html, which is handed one document.
#include "cli/inspect/inspect_html.hpp"

#include "cli/inspect/page.hpp"
#include "cli/output.hpp"

namespace kiln::cli {

std::string html_page(const Json& report, const Json& other) {
  Json data{{"report", report}};
  if (!other.is_null()) data["other"] = other;
  return filled_page("inspect.html", data);
}

}  // namespace kiln::cli
