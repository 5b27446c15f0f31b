// Parameters and text that the decode kernels of all targets have in common: packed query rows, a stream-K walk.
#pragma once

#include <string>
#include <vector>

#include <kiln/source.hpp>

#include "generator/emit/writer.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln {

/// Members of `problem`, what the walk asks of the launch.
void add_problem_params(std::vector<KernelParam>& params, const StreamK& stream);
void emit_problem(Writer& w, const StreamK& stream);
/// Strides of Q and O.
void add_query_strides(std::vector<KernelParam>& params, bool ragged);

/// Keys that no row of an item's tile has hidden: clean_end and clean_first, as far as the mask has them. `first`,
/// `last`: key positions of the tile's first and last rows, expressions.
void emit_clean_range(Writer& w, const Mask& mask, const ScoreContext& context, const std::string& first,
                      const std::string& last);
/// The mask over keys from `first_key` up to `end`, where these are not all in that range.
void emit_mask_outside(Writer& w, const Mask& mask, const ScoreContext& context, const std::string& first_key,
                       const std::string& end);

}  // namespace kiln
