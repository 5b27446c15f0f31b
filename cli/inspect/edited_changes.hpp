// What an edit of an emitted kernel did to the compiled program.
#pragma once

#include <kiln/kiln.hpp>

#include "cli/output.hpp"

namespace kiln::cli {

/// {file, compiler, registers: [emitted, edited], spill_bytes, stack_bytes, smem_bytes, warnings, machine}, of AMD targets
/// accumulators and scalar_registers as well. `machine`: {kind, instructions: [emitted, edited], places, opcodes: {OPCODE:
/// [emitted, edited]}}: the opcodes whose counts differ, and at how many places of the shorter program another
/// instruction stands; {problem} without a disassembler.
Json changes_json(const KernelSource& edited, const Binary& before, const Binary& after);

/// The same with both compiled: `edited` must be of `plan`, its text from a file.
Json changes_json(Runtime& runtime, const Plan& plan, const KernelSource& edited);

/// Adds the times of both: {us: [emitted, edited], emitted_samples, ratio, interval, verdict} as of `bench --compare`.
void add_times(Json& changes, const std::vector<double>& before, const std::vector<double>& after);

void print_changes(const Json& changes);

}  // namespace kiln::cli
