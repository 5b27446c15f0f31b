// From a config to a resolved one for sm80_prefill: what is refused, and what unset keys become.
#pragma once

#include "generator/layout/swizzle.hpp"
#include "generator/schedules/schedule.hpp"

namespace kiln::sm80 {

/// What the plan needs beside the resolved keys.
struct Resolved {
  Config config;
  layout::Swizzle swizzle;  ///< vector domain
  int smem_q_bytes = 0;     ///< rows of Q, and of O on its way out
  int smem_bytes = 0;
  int registers = 0;  ///< 32-bit registers a thread may use
  bool q_in_registers = false;
};

/// Fills and checks every key; nullopt with violations when a rule is broken.
std::optional<Resolved> resolve_prefill(const Config& user, Violations& out);

}  // namespace kiln::sm80
