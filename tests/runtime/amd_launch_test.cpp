// AMD kernels through the whole runtime on the emulated device: a plain attention kernel in HIP, written by
// hand, that takes its arguments by the manifest's roles.
#include <doctest/doctest.h>

#include "tests/runtime/amd_support.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr const char* kAttention = R"(
typedef unsigned short u16;
typedef unsigned int u32;
__device__ static inline float to_f32(u16 x) { return __builtin_bit_cast(float, (u32)x << 16); }
__device__ static inline u16 to_bf16(float x) {
  u32 bits = __builtin_bit_cast(u32, x);
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
// One workgroup of 64 lanes a query row and head; lane d owns column d of O.
KERNEL(64) attention(const u16* q, const u16* k, const u16* v, u16* o, float* lse, int heads_q, int heads_kv, int seqlen_q,
                     int seqlen_k, long q_row, long k_row, long v_row, long o_row, float scale_log2) {
  __shared__ float partial[64];
  const int row = (int)__builtin_amdgcn_workgroup_id_x(), head = (int)__builtin_amdgcn_workgroup_id_y();
  const int batch = (int)__builtin_amdgcn_workgroup_id_z(), kv_head = head / (heads_q / heads_kv);
  const u16* q_at = q + (batch * (long)seqlen_q + row) * q_row + head * 64;
  float top = -__builtin_inff(), sum = 0, acc = 0;
  for (int key = 0; key < seqlen_k; ++key) {
    const long at = batch * (long)seqlen_k + key;
    partial[LANE] = to_f32(q_at[LANE]) * to_f32(k[at * k_row + kv_head * 64 + LANE]);
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    float score = 0;
    for (int i = 0; i < 64; ++i) score += partial[i];
    __builtin_amdgcn_s_barrier();
    score *= scale_log2;
    const float next = __builtin_fmaxf(top, score);
    const float keep = __builtin_exp2f(top - next), p = __builtin_exp2f(score - next);
    sum = sum * keep + p;
    acc = acc * keep + p * to_f32(v[at * v_row + kv_head * 64 + LANE]);
    top = next;
  }
  o[(batch * (long)seqlen_q + row) * o_row + head * 64 + LANE] = to_bf16(sum > 0 ? acc / sum : 0);
  if (LANE == 0) {
    lse[((long)batch * heads_q + head) * seqlen_q + row] =
        sum > 0 ? (top + __builtin_log2f(sum)) * 0.6931471805599453f : -__builtin_inff();
  }
}
)";

KernelSource attention(const std::string& target) {
  KernelSource source = hip_source("attention", kAttention, target);
  Manifest& manifest = source.manifest;
  manifest.entry = "attention";
  manifest.grid.block_rows = 1;
  manifest.depth = manifest.ov_depth = 64;
  manifest.writes_lse = true;
  manifest.scale = 0.125;
  const auto add = [&](ParamKind kind, const char* role) {
    KernelParam param;
    param.kind = kind;
    param.role = role;
    manifest.params.push_back(param);
  };
  for (const char* role : {"q", "k", "v", "o", "lse"}) add(ParamKind::pointer, role);
  for (const char* role : {"heads_q", "heads_kv", "seqlen_q", "seqlen_k"}) add(ParamKind::i32, role);
  for (const char* role : {"q_stride_seq", "k_stride_seq", "v_stride_seq", "o_stride_seq"})
    add(ParamKind::i64, role);
  add(ParamKind::f32, "scale_log2");
  return source;
}

Config config_of(const std::string& target) {
  return parse_config(
      R"({"target": ")" + target + R"(", "operation": "prefill", "dtype": "bf16", "depth": 64})", "test");
}

bool can_compile(Runtime& runtime, const KernelSource& source) {
  try {
    runtime.load(source);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::environment) throw;
    MESSAGE("skipped: " << error.what());
    return false;
  }
}

}  // namespace

TEST_CASE("an AMD kernel runs right on the emulated device under every policy") {
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    CAPTURE(target);
    Runtime runtime(quiet());
    const KernelSource source = attention(target);
    if (!can_compile(runtime, source)) continue;
    const auto kernel = runtime.load(source);
    CHECK(kernel->binary().target == target);
    ProblemShape shape;
    shape.heads_q = 4;
    shape.heads_kv = 2;
    shape.depth = shape.ov_depth = 64;
    shape.lengths_q = {5, 5};
    shape.lengths_k = {9, 9};
    const Config config = config_of(target);
    const Workload work = random_workload(shape, config, 1);
    for (const auto policy :
         {EmulatorOptions::Policy::eager, EmulatorOptions::Policy::lazy, EmulatorOptions::Policy::random}) {
      EmulatorOptions emulator;
      emulator.policy = policy;
      RunOptions options;
      options.emulator = &emulator;
      const RunResult result = run_workload(runtime, *kernel, work, options);
      CHECK(result.emulated);
      CHECK_MESSAGE(result.findings.empty(), (result.findings.empty() ? "" : result.findings[0].message));
      Semantics semantics;
      semantics.scale = 0.125;
      const Reference reference =
          reference_attention(work, semantics, choose_rows(shape, semantics.mask, 1e300, 0));
      const CheckReport check = check_output(work, result.output, reference, tolerance_of(config));
      CHECK_MESSAGE(check.passed(), (check.passed() ? "" : check.failures[0]));
      CHECK(std::any_of(result.counters.begin(), result.counters.end(),
                        [](const auto& c) { return c.first == "instructions.lds_read" && c.second > 0; }));
    }
  }
}

TEST_CASE("a missing barrier of an AMD kernel is found, with its line in the source") {
  const ScopedEnv choice("KILN_AMD_COMPILER", "clang");  // it writes line tables
  Runtime runtime(quiet());
  KernelSource source = hip_source("reverse", R"(
KERNEL(128) reverse(const unsigned short* q, unsigned short* o) {
  __shared__ unsigned short row[128];
  const int at = (int)__builtin_amdgcn_workgroup_id_x() * 128;
  row[LANE] = q[at + LANE];
  asm volatile("" ::: "memory");
  o[at + LANE] = row[127 - LANE];
}
)",
                                   "gfx942");
  Manifest& manifest = source.manifest;
  manifest.entry = "reverse";
  manifest.num_threads = 128;
  manifest.grid.block_rows = 1;
  manifest.depth = manifest.ov_depth = 128;
  manifest.scale = 1;
  for (const char* role : {"q", "o"}) {
    KernelParam param;
    param.kind = ParamKind::pointer;
    param.role = role;
    manifest.params.push_back(param);
  }
  if (!can_compile(runtime, source)) return;
  const auto kernel = runtime.load(source);
  ProblemShape shape;
  shape.depth = shape.ov_depth = 128;
  shape.lengths_q = shape.lengths_k = {2};
  const RunResult result = run_workload(runtime, *kernel, random_workload(shape, config_of("gfx942"), 1));
  REQUIRE(!result.findings.empty());
  CHECK(result.findings[0].source_file == "reverse.hip");
  CHECK(result.findings[0].source_line > 10);
  CHECK(result.findings[0].message.find("ISA line") != std::string::npos);
}

TEST_CASE("the emulated device says which kernels it does not run") {
  Runtime runtime(quiet());
  std::string message;
  CHECK(error_of([&] { runtime.load(tiny_hip(1, "gfx1100")); }, &message) == ErrorCode::environment);
  CHECK(message.find("gfx1100") != std::string::npos);
}
