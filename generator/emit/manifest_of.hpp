// What a manifest says of a kernel's config.
#pragma once

#include <string>

#include <kiln/source.hpp>

namespace kiln {

/// Name, entry, target, config, operation, operand, types, depths and scale of a resolved config; threads,
/// memory, grid, parameters and what to expect of the program are the emitter's to add. `prefix`: of a kernel
/// that goes with the config's own.
Manifest manifest_of(const Config& resolved, const std::string& prefix = "");

/// Of a kernel over the rows of results, `rows` of all sequences a block: name, entry, target, config, operation, threads,
/// grid; operand contiguous, scale 1. Parameters, types and depths are the emitter's to add.
Manifest manifest_of_rows(const Config& resolved, const std::string& name, int threads, int rows);

}  // namespace kiln
