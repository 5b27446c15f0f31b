// The cycle model of sm_90a, sm_100a and sm_103a kernels as inspect shows it.
#pragma once

#include <kiln/generator.hpp>

#include "cli/output.hpp"

namespace kiln::cli {

/// The model as JSON; {"problem": why} where there is none.
Json cycle_model_json(const Plan& plan, const KernelSource& source);
void print_cycle_model(const Json& model);

}  // namespace kiln::cli
