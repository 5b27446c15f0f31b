// The last step of emission: no line of a kernel is longer than 140 characters. Works on text alone and changes
// nothing but white space and where string literals are divided.
#pragma once

#include <kiln/source.hpp>

namespace kiln {

/// Divides the lines of `source` behind its head comment that are too long: between statements where a line has
/// several, else behind a comma or before an operator of as few parentheses as possible, four blanks deeper. A comment
/// at a line's end goes before it. Every piece keeps the origin of its line.
void wrap_lines(KernelSource& source);

}  // namespace kiln
