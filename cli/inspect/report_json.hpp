// Everything the page of `kiln inspect --html` shows, as one document; templates/inspect.html draws it.
#pragma once

#include <kiln/kiln.hpp>

#include "cli/inspect/replay.hpp"
#include "cli/output.hpp"

namespace kiln::cli {

/// One small problem on the emulated device, with who waited for whom.
struct TracedRun {
  std::string problem;  ///< its shape in words
  std::size_t findings = 0;
  std::vector<std::pair<std::string, std::uint64_t>> counters;
  Replay replay;
};
TracedRun traced_run(Runtime& runtime, const Plan& plan, const KernelSource& source);

/// "tensor map", "pointer", "i32" ...: what kind of argument a kernel takes.
const char* kind_text(KernelParam::Kind kind);

/// The lines of a kernel's source, as an array.
Json source_lines(const KernelSource& source);

/// {name, version, plan, params, proofs, source, origins, program, fragments, swizzles, timeline, choices, run, roofline}.
/// `user` is the config before planning. Compiles through the cache and runs the kernel on one small problem on the
/// emulated device; where that cannot be done, `program` and `run` have a `problem` that says why.
/// `measured`: rows as `kiln bench --json` writes them, or null: then those of bench/RESULTS.md, where there are any.
Json report_json(const Config& user, const Plan& plan, const KernelSource& source, const Json& measured);

/// [{title, instruction, rows, cols, lanes, elements, at: [row, col, ...] by lane, then element}] of the matrix
/// instruction of a plan.
Json fragments_json(const Config& resolved);

/// [{operand, text, bits, base, shift, row_bytes, chunks: [row, chunk, ...]}]: which 16-byte chunk of which row is where
/// in the first KiB of a tile.
Json swizzles_json(const Config& resolved);

/// The compiled program: {kind, compiler, registers, accumulators, scalar_registers, spill_bytes, lines, source_lines}, of
/// each line the line of the emitted source that it comes from, or 0. NVIDIA: `machine` is its SASS (sass.hpp).
Json program_json(const Binary& binary);

/// {device, tflops, tbs, source, measured: [{problem, tflops, gbps, note}]}: dense peaks of a device of the target, and what
/// was measured of this kernel.
Json roofline_json(const Config& resolved, const Json& measured);

/// [{key, value, from, why, doc, cost, others: [cost], refused: [{value, why}]}], a cost as {value, smem_bytes, num_threads,
/// max_registers, blocks, clocks, next}: `clocks` by the schedule's model for 64 x 64 scores, `next` of the next best.
Json choices_json(const Config& user, const Plan& plan);

}  // namespace kiln::cli
