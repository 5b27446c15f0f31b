// The cycle model: its tables against the machines' peaks, finding the main loop, and a compiled loop whose
// instructions are known.
#include <doctest/doctest.h>

#include "runtime/compiler/clang.hpp"
#include "tests/runtime/amd_support.hpp"
#include "workbench/analysis/amd_loop.hpp"
#include "workbench/analysis/control_flow.hpp"

using namespace kiln;
using namespace kiln::test;
using emulator::amdgcn::InstructionView;

TEST_CASE("matrix instructions at their rate give each machine's peak") {
  struct Row {
    const char *target, *text;
    int cycles;
    bool eight_bit;
  };
  const Row rows[] = {
      {"gfx90a", "v_mfma_f32_32x32x8bf16_1k a[0:15], v[0:1], v[2:3], a[0:15]", 64, false},
      {"gfx90a", "v_mfma_f32_16x16x16f16 a[0:3], v[0:1], v[2:3], a[0:3]", 32, false},
      {"gfx942", "v_mfma_f32_32x32x8_bf16 v[0:15], v[0:1], v[2:3], v[0:15]", 32, false},
      {"gfx942", "v_mfma_f32_16x16x16_f16 v[0:3], v[0:1], v[2:3], v[0:3]", 16, false},
      {"gfx942", "v_mfma_f32_32x32x16_fp8_fp8 v[0:15], v[0:1], v[2:3], v[0:15]", 32, true},
      {"gfx942", "v_mfma_f32_16x16x32_bf8_fp8 v[0:3], v[0:1], v[2:3], v[0:3]", 16, true},
      {"gfx950", "v_mfma_f32_32x32x16_bf16 v[0:15], v[0:3], v[4:7], v[0:15]", 32, false},
      {"gfx950", "v_mfma_f32_16x16x32_f16 v[0:3], v[0:3], v[4:7], v[0:3]", 16, false},
      {"gfx950", "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[0:7], v[8:15], v[0:15]", 64, true},
      {"gfx950", "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[0:7], v[8:15], v[0:3], v1, v2", 32, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(mfma_cycles(row.target, row.text) == row.cycles);
    const AmdMachine& machine = amd_machine(row.target);
    const double peak = static_cast<double>(mfma_flops(row.text)) / row.cycles * 4 * machine.compute_units *
                        machine.ghz * 1e-3;
    const double stated = row.eight_bit ? machine.peak_8bit : machine.peak_16bit;
    CHECK(peak == doctest::Approx(stated).epsilon(0.005));
  }
  // The short shapes run at half rate on gfx950, 4-bit operands at twice the rate of 8-bit ones.
  CHECK(mfma_cycles("gfx950", "v_mfma_f32_32x32x8_bf16 v[0:15], v[0:1], v[2:3], v[0:15]") == 32);
  CHECK(mfma_cycles("gfx950", "v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[0:3], v[8:11], v[0:15] cbsz:4 blgp:4") ==
        32);
  CHECK(mfma_cycles("gfx90a", "v_mfma_f32_32x32x16_fp8_fp8 v[0:15], v[0:1], v[2:3], v[0:15]") == 0);
  CHECK(mfma_cycles("gfx942", "v_mfma_f64_16x16x4_f64 v[0:7], v[0:1], v[2:3], v[0:7]") == 0);
  CHECK(mfma_flops("v_mfma_f32_4x4x4_16b_bf16 v[0:3], v[0:1], v[2:3], v[0:3]") == 2 * 4 * 4 * 4 * 16);
  CHECK(error_of([] { amd_machine("sm_90a"); }) == ErrorCode::bad_input);
}

TEST_CASE("the main loop is the innermost one with the most matrix instructions") {
  // Kind, and where a branch leads; "jump" is unconditional.
  const auto code = [](std::initializer_list<std::pair<const char*, int>> rows) {
    std::vector<InstructionView> all;
    for (const auto& [kind, branch] : rows) {
      const bool jump = std::string_view(kind) == "jump";
      InstructionView view{all.size() * 4, jump ? "s_branch" : kind, jump ? "branch" : kind, std::nullopt};
      if (branch >= 0) view.branch = static_cast<std::uint64_t>(branch) * 4;
      all.push_back(view);
    }
    return all;
  };
  using Path = std::vector<std::size_t>;
  // An outer loop over everything, two inner ones, a forward branch.
  const auto nested = main_loop(code({{"valu", -1},
                                      {"mfma", -1},
                                      {"branch", 1},
                                      {"branch", 5},
                                      {"mfma", -1},
                                      {"mfma", -1},
                                      {"mfma", -1},
                                      {"branch", 5},
                                      {"branch", 0},
                                      {"end", -1}}));
  REQUIRE(nested);
  CHECK(nested->path == Path{5, 6, 7});
  CHECK(nested->mfma == 2);
  // A mask that is skipped, a product that a wave may skip, and a wait that was moved behind the end.
  const auto ways = main_loop(code({{"valu", -1},
                                    {"branch", 10},  // 1: to the wait
                                    {"mfma", -1},    // 2
                                    {"branch", 6},
                                    {"valu", -1},  // 4: the mask
                                    {"valu", -1},
                                    {"branch", 8},  // 6: skips the product
                                    {"mfma", -1},
                                    {"branch", 0},  // 8
                                    {"end", -1},
                                    {"wait", -1},  // 10
                                    {"jump", 2}}));
  REQUIRE(ways);
  CHECK(ways->path == Path{0, 1, 2, 3, 6, 7, 8});
  CHECK(ways->mfma == 2);
  // Loads that only lanes with a row make are made by some lane of every wave.
  const auto loads = main_loop(
      code({{"mfma", -1}, {"branch", 3}, {"vmem_load", -1}, {"wait", -1}, {"branch", 0}, {"end", -1}}));
  REQUIRE(loads);
  CHECK(loads->path == Path{0, 1, 2, 3, 4});
  // A loop with two ways back to blocks before and after its first instruction.
  const auto rotated =
      main_loop(code({{"valu", -1}, {"mfma", -1}, {"branch", 0}, {"mfma", -1}, {"jump", 1}}));
  REQUIRE(rotated);
  CHECK(rotated->mfma == 2);
  CHECK(!main_loop(code({{"valu", -1}, {"branch", 0}})));
  CHECK(!main_loop(code({{"mfma", -1}, {"end", -1}})));
  CHECK(!main_loop({}));
}

TEST_CASE("a compiled loop is modelled by what is in it") {
  Clang clang;
  if (!clang.offer("gfx942").obstacle.empty()) {
    MESSAGE("skipped: " << clang.offer("gfx942").obstacle);
    return;
  }
  KernelSource source = hip_source("loop", R"(
typedef short short4v __attribute__((ext_vector_type(4)));
typedef float float16v __attribute__((ext_vector_type(16)));
KERNEL(256) kernel(const short4v* a, float16v* out, int n) {
  __shared__ short4v tile[256];
  tile[LANE] = a[LANE];
  __builtin_amdgcn_s_barrier();
  float16v acc = {};
  #pragma clang loop unroll(disable)
  for (int i = 0; i < n; ++i) {
    const short4v x = tile[(LANE + i) & 255], y = tile[(LANE + 2 * i) & 255];
    acc = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(x, y, acc, 0, 0, 0);
    acc = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(y, x, acc, 0, 0, 0);
    acc[0] = __builtin_amdgcn_exp2f(acc[0]);
  }
  out[LANE] = acc;
}
)",
                                   "gfx942");
  source.manifest.num_threads = 256;
  const Binary binary = clang.compile({source, "gfx942"});
  const AmdLoopModel model = model_amd_loop(binary, source.manifest);
  CHECK(model.mfma == 2);
  CHECK(model.transcendental == 1);
  CHECK(model.lds_reads == 2);
  CHECK(model.narrow_lds == 0);
  CHECK(model.narrow_loads == 0);
  CHECK(model.dma == 0);
  CHECK(model.barriers == 0);
  CHECK(model.scratch == 0);
  // 2 KiB of LDS and few registers: eight waves on each SIMD.
  CHECK(model.waves_per_simd == 8);
  CHECK(model.blocks_per_cu == 8);
  CHECK(model.matrix == 2 * 32 * 8);
  CHECK(model.lds == 2 * 4 * 32);
  CHECK(model.flops == 2 * 16384 * 32);
  CHECK(model.bound == "matrix");
  CHECK(model.tflops_bound == doctest::Approx(1307).epsilon(0.005));
  CHECK(model.tflops_in_order <= model.tflops_bound);
  CHECK(error_of([&] {
          model_amd_loop(clang.compile({tiny_hip(1, "gfx942"), "gfx942"}), source.manifest);
        }) == ErrorCode::bad_input);
}
