// From a config that fails to the fewest keys that still fail.
#pragma once

#include <functional>

#include "cli/output.hpp"

namespace kiln::cli {

constexpr int kShrinkTrials = 24;  ///< how many smaller configs a sweep tries for each that fails

/// Leaves out keys of `config` one after another while `fails` says that what is left fails in the same way; required
/// keys stay. At most `trials` calls.
Json shrunk(Json config, int trials, const std::function<bool(const Json& without)>& fails);

}  // namespace kiln::cli
