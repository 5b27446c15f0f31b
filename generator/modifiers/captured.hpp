// Tensors that a score expression reads.
#pragma once

#include <vector>

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// The captured tensors of a `score_mod` of kind expr, as the manifest has them.
std::vector<Manifest::Captured> captured_of(const ScoreMod& mod);

}  // namespace kiln
