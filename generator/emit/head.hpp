// The head comment of an emitted kernel: what it is, its config, its resources, how to rebuild it.
#pragma once

#include <string>

#include <kiln/source.hpp>
#include "generator/emit/lines.hpp"

namespace kiln {

/// Gives `source`, which has its manifest, the head comment and behind it `body`. `facts` may span lines. The comment
/// ends with a blank line; the cache key hashes only what follows it.
void set_text(KernelSource& source, const std::string& facts, const Lines& body);

/// Symbol of the kernel of a config. The prefix keeps names such as `int` or `max` apart from the language's
/// own and from the prelude's.
inline std::string entry_name(const std::string& name) {
  return "kiln_" + name;
}

}  // namespace kiln
