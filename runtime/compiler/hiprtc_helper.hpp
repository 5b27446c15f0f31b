// The helper program (runtime/helper/hiprtc_helper.c) as bytes.
#pragma once

#include <span>

#include "generator/emit/embedded_text.hpp"

namespace kiln {

/// One entry: the executable.
std::span<const EmbeddedText> hiprtc_helper();

}  // namespace kiln
