// The head comment of an emitted kernel: what it is, its config, its resources, how to rebuild it.
#pragma once

#include <string>

namespace kiln {

/// `facts` may span lines. The comment ends with a blank line; the cache key hashes only what follows it.
std::string kernel_head(const std::string& name, const std::string& config_json, const std::string& facts,
                        const std::string& build_command);

}  // namespace kiln
