// What a compiler says of a source that a person wrote.
#pragma once

#include <kiln/kiln.hpp>

namespace kiln::cli {

/// What a compiler said of a source that has a file: its first error as one line that names the file and the line there,
/// and how many there are. KILN_LOG=debug has all that it said on standard error.
Error in_one_line(const Error& error, const KernelSource& source);

}  // namespace kiln::cli
