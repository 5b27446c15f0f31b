// The head comment of an emitted kernel: what it is, its config, its resources, how to rebuild it.
#pragma once

#include <string>

namespace kiln {

/// `facts` may span lines. The comment ends with a blank line; the cache key hashes only what follows it.
std::string kernel_head(const std::string& name, const std::string& config_json, const std::string& facts,
                        const std::string& build_command);

/// Symbol of the kernel of a config. The prefix keeps names such as `int` or `max` apart from the language's
/// own and from the prelude's.
inline std::string entry_name(const std::string& name) {
  return "kiln_" + name;
}

}  // namespace kiln
