// The files of templates/, built into the library: preludes that schedules paste in front of what they emit.
#pragma once

#include <span>
#include <string_view>

#include "generator/emit/embedded_text.hpp"

namespace kiln {

/// Every template, sorted by name.
std::span<const EmbeddedText> embedded_templates();

/// templates/`file` ("sm90.cuh"), under its name with the folder. Throws Error (internal) for a file that is not there.
const EmbeddedText& embedded_template(std::string_view file);

}  // namespace kiln
