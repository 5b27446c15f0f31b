// The pages that kiln writes: templates/*.html, built into the command, each handed one document.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/generate/shipped.hpp"
#include "cli/output.hpp"

namespace kiln {

/// templates/*.html by name.
std::span<const EmbeddedText> page_templates();

namespace cli {

/// The page `name` with `data` where it says KILN_DATA. Nothing is fetched.
std::string filled_page(std::string_view name, const Json& data);

}  // namespace cli
}  // namespace kiln
