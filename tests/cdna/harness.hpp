// Compiles emitted CDNA kernels with clang, runs them on the emulated device under every completion policy
// and compares with the float64 reference.
#pragma once

#include <string>
#include <vector>

#include <kiln/emulator/amdgcn.hpp>
#include <kiln/generator.hpp>
#include "workbench/reference/check.hpp"
#include "workbench/verify/ladder.hpp"

namespace cdna_test {

/// Whether clang and LLVM are there; if not, says so once (tests then have nothing to do).
bool toolchain();

/// A config of this target as JSON text: `more` holds further keys ("\"mask\": \"causal\"").
std::string config_text(const std::string& target, const std::string& dtype, int depth,
                        const std::string& more = "", const std::string& operation = "prefill");

/// The same of decode.
inline std::string decode_config(const std::string& target, const std::string& dtype, int depth,
                                 const std::string& more = "") {
  return config_text(target, dtype, depth, more, "decode");
}

inline const std::vector<std::string> kTargets = {"gfx90a", "gfx942", "gfx950"};
inline constexpr const char* kCausalLse = R"("mask": "causal", "lse": true)";

/// What a config is refused with; empty: it is not.
std::string refusal(const std::string& config);

struct Built {
  kiln::Plan plan;
  kiln::KernelSource source;
  kiln::emulator::amdgcn::Module module;
};
/// A source's code object, by clang; of the manifest only name and target are looked at.
kiln::emulator::amdgcn::Module compile(const kiln::KernelSource& source);
/// Generates and compiles; the same text is compiled once.
const Built& build(const std::string& config);

/// (queries, keys) of each request; equal ones for contiguous operands.
using Lengths = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// One launch per policy (`all` false: lazy only) on fresh values; checks results, findings and that every
/// element was written.
void check_kernel(const std::string& config, const Lengths& lengths, bool all = true, int heads_q = 4,
                  int heads_kv = 2);

/// The launch path of `kiln verify`, which knows scales, pages and decode: under lazy completion, with `all`
/// also under random.
void check_ladder(const std::string& config, const std::vector<kiln::LadderCase>& cases, bool all = false);

/// No scratch, no spills, registers within the plan's occupancy, exactly the planned matrix instructions, no
/// narrow accesses; layout proofs hold, without bank conflicts where `conflict_free`.
void check_compiled(const std::string& config, bool conflict_free);

}  // namespace cdna_test
