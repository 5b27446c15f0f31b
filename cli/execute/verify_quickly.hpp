// `kiln verify CONFIG --quick` for other commands.
#pragma once

#include <string>

namespace kiln::cli {

/// Rules, layouts, compiler and emulated runs of a config, printed as `kiln verify` prints them. Returns its exit status.
int verify_quickly(const std::string& config);

}  // namespace kiln::cli
