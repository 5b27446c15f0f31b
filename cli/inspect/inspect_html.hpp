// inspect --html: one self-contained page about a config, or about two.
#pragma once

#include <string>

#include "cli/output.hpp"

namespace kiln::cli {

/// The page of a report (report_json.hpp), beside another one unless that is null. Nothing is fetched.
std::string html_page(const Json& report, const Json& other);

}  // namespace kiln::cli
