// "source_style": "compact": strips of like lines as loops. A strip is a block of lines that repeats with its
// integer literals in arithmetic progression, as masks, maxima, exponentials and the packing of a tile do:
//
//   s_acc[0] -= base_0; s_acc[1] -= base_0;        #pragma unroll
//   s_acc[2] -= base_0; s_acc[3] -= base_0;   ->   for (int i = 0; i < 16; ++i)
//   ...                                              s_acc[2 * i] -= base_0; s_acc[2 * i + 1] -= base_0;
//
// Works on text alone: names and order of the lines stay, so the compiler unrolls what stood there.
#pragma once

#include <kiln/source.hpp>

namespace kiln {

/// Folds every strip of `source`; false where it has none. A loop keeps the origins of the strip's first block.
bool fold_strips(KernelSource& source);

}  // namespace kiln
