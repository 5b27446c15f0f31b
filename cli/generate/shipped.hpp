// The files of configs/, built into the command so that shipped configs work wherever the binary lies.
#pragma once

#include <span>

#include "generator/emit/embedded_text.hpp"

namespace kiln {

std::span<const EmbeddedText> embedded_configs();

}  // namespace kiln
