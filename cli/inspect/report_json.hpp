// Everything the page of `kiln inspect --html` shows, as one document; templates/inspect.html draws it.
#pragma once

#include <kiln/kiln.hpp>

#include "cli/output.hpp"

namespace kiln::cli {

/// {name, version, plan, params, proofs, source, origins, program, fragments, swizzles, timeline, choices, run, roofline}.
/// `user` is the config before planning. Compiles through the cache and runs the kernel on one small problem on the
/// emulated device; where that cannot be done, `program` and `run` have a `problem` that says why.
Json report_json(const Config& user, const Plan& plan, const KernelSource& source);

/// [{title, instruction, rows, cols, lanes, elements, at: [row, col, ...] by lane, then element}] of the matrix
/// instruction of a plan.
Json fragments_json(const Config& resolved);

/// [{operand, text, bits, base, shift, row_bytes, chunks: [row, chunk, ...]}]: which 16-byte chunk of which row is where
/// in the first KiB of a tile.
Json swizzles_json(const Config& resolved);

/// The compiled program: {kind, compiler, registers, spill_bytes, lines, source_lines}, of each line the line of the
/// emitted source that it comes from, or 0.
Json program_json(const Binary& binary);

/// [{key, value, from, doc, others: [{value, smem_bytes, num_threads, max_registers}], refused: [{value, why}]}].
Json choices_json(const Config& user, const Plan& plan);

}  // namespace kiln::cli
