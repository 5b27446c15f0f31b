// The buffers an AMD (or sm_80) config asks for, as parameters of the systems' constants.
#pragma once

#include <optional>

#include <kiln/config.hpp>

#include "generator/config/defaults.hpp"
#include "generator/config/keys.hpp"
#include "generator/systems/kv_buffer_constants.hpp"

namespace kiln::rules {

/// Targets that buffer K and V as those parameters say.
inline constexpr TargetSet kBuffered = kAmd | only(Target::sm_80);

/// What K and V are in shared memory: AMD kernels widen FP8 on the way there.
inline DType staged_dtype(const Config& c) {
  return is_amd(c.target) ? c.dtype : kv_dtype(c);
}

/// Constants of the K (or V) buffer, or nothing while a size is unknown or too odd to divide by.
std::optional<KVBufferConstants> buffer_constants(const Config& config, bool transpose);

/// Constants of the V fragments one warp holds: with several warps along the keys each reads all keys of its
/// share of the output columns (2.7).
std::optional<KVBufferConstants> value_registers(const Config& config);

/// LDS of one block, or nothing while a size is unknown.
std::optional<LdsBytes> amd_lds(const Config& config);

}  // namespace kiln::rules
