// The last steps of emission, on text alone: what emitters write for any number of rounds and any width becomes what a
// person would write.
#pragma once

#include <kiln/source.hpp>

namespace kiln {

/// Both steps below.
void finish_text(KernelSource& source);

/// `for (int i = 0; i < 1; ++i)` goes, with its pragma: its body is left, with 0 for the counter.
void write_single_rounds(KernelSource& source);

/// Divides the lines of `source` behind its head comment that are longer than 140 characters: between statements where
/// a line has several, else behind a comma or before an operator of as few parentheses as possible, four blanks deeper.
/// A comment at a line's end goes before it. Every piece keeps the origin of its line.
void wrap_lines(KernelSource& source);

}  // namespace kiln
