// Runs small PTX bodies on the emulated device: a kernel of (in, out) pointers around the text of a test.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>

namespace emulator_test {

using namespace kiln::emulator;

inline std::vector<std::byte> bytes_of(const auto& value) {
  std::vector<std::byte> out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

inline const char* kPrelude = ".version 8.7\n.target sm_90a\n.address_size 64\n";

/// Shared variables of most programs: `bar`, an mbarrier, and `s`.
inline const char* kShared = ".shared .align 8 .b64 bar;\n.shared .align 1024 .b8 s[4096];\n";

/// A kernel with registers of every size; %in and %out hold the pointers, %t the thread, %o the thread's
/// output address (u32 slots).
inline std::string kernel(const std::string& body, const std::string& declarations = {}) {
  return std::string(kPrelude) + declarations +
         ".visible .entry k(.param .u64 p_in, .param .u64 p_out)\n{\n"
         ".reg .pred %p<32>; .reg .b16 %h<32>; .reg .b32 %r<64>; .reg .f32 %f<64>; .reg .b64 %d<64>; .reg "
         ".f64 %g<16>;\n"
         ".reg .b64 %in, %out, %o; .reg .b32 %t;\n"
         "ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; "
         "add.u64 %o, %o, %out;\n" +
         body + "\nret;\n}\n";
}

struct Outcome {
  Report report;
  std::vector<std::uint32_t> out;
  /// Whether a finding of this kind was reported.
  bool found(std::string_view kind) const {
    for (const Finding& f : report.findings)
      if (f.kind == kind) return true;
    return false;
  }
  std::string text() const {
    std::string s;
    for (const Finding& f : report.findings)
      s += f.kind + " (line " + std::to_string(f.site.ptx_line) + "): " + f.message + "\n";
    return s;
  }
};

/// %r1: s + 4 * tid, %r2: bar, %r3: s, %r4: 4 * tid, %p1: thread 0.
inline std::string shared_kernel(const std::string& body) {
  return kernel(
      "mov.u32 %r1, s; mov.u32 %r3, s; mul.lo.u32 %r4, %t, 4; add.u32 %r1, %r1, %r4; mov.u32 %r2, bar; "
      "setp.eq.u32 %p1, %t, 0;\n" +
          body,
      kShared);
}

struct Setup {
  Dim3 grid{}, block{32, 1, 1}, cluster{};
  std::uint32_t smem = 0;
  Policy policy = Policy::eager;
  std::uint64_t seed = 1;
  bool findings = true, programmatic = false;
  bool reads_input_early = false, touches_early = false;  ///< of a programmatic launch, before its wait
  std::uint64_t budget = 1u << 24;
  std::size_t outputs = 1024;
  int host_threads = 0;  ///< 0: as Launch has it
  std::vector<std::uint32_t> input{};
};

inline Outcome run(const std::string& ptx, const Setup& setup = {}) {
  GlobalMemory memory;
  const Module module = Module::from_ptx(ptx);
  std::vector<std::uint32_t> input = setup.input;
  if (input.empty())
    for (std::uint32_t i = 0; i < 1024; ++i) input.push_back(i);
  const std::uint64_t in = memory.allocate(input.size() * 4, "in"),
                      out = memory.allocate(setup.outputs * 4, "out");
  memory.write(in, std::as_bytes(std::span(input)));
  Launch l;
  l.grid = setup.grid;
  if (setup.host_threads > 0) l.host_threads = setup.host_threads;
  l.block = setup.block;
  l.cluster = setup.cluster;
  l.dynamic_smem_bytes = setup.smem;
  l.policy = setup.policy;
  l.seed = setup.seed;
  l.findings = setup.findings;
  l.programmatic = setup.programmatic;
  if (setup.reads_input_early) l.early_reads = {{in, in + 64}};
  l.touches_early = setup.touches_early;
  l.instruction_budget = setup.budget;
  l.args = {bytes_of(in), bytes_of(out)};
  Outcome o;
  o.report = launch(memory, module, l);
  o.out.resize(setup.outputs);
  memory.read(out, std::as_writable_bytes(std::span(o.out)));
  return o;
}

/// What is wrong with a program, nothing when it is read.
inline std::string error_of(const std::string& ptx) {
  try {
    Module::from_ptx(ptx);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

/// A shared kernel with one warp.
inline Outcome one_warp(const std::string& body, Policy policy = Policy::eager) {
  return run(shared_kernel(body), {.policy = policy});
}
/// A shared kernel with two warps.
inline Outcome two_warps(const std::string& body, Policy policy = Policy::eager) {
  return run(shared_kernel(body), {.block = {64, 1, 1}, .policy = policy});
}
inline void finds(const std::string& kind, const Outcome& o) {
  INFO(kind, " expected, got: ", o.text());
  CHECK(o.found(kind));
}
inline void clean(const Outcome& o) {
  CHECK(o.text() == "");
}

inline constexpr Policy kPolicies[] = {Policy::eager, Policy::lazy, Policy::random};

}  // namespace emulator_test
