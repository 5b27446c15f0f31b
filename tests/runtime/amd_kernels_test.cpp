// The kernels that kiln emits for AMD, through plan, compiler, static checks, the emulated device and the
// cycle model.
#include <doctest/doctest.h>

#include <kiln/generator.hpp>

#include "tests/runtime/amd_support.hpp"
#include "workbench/analysis/amd_loop.hpp"
#include "workbench/verify/ladder.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

struct Made {
  Plan plan;
  KernelSource source;
};
Made make(const std::string& target, int depth, const std::string& more = "") {
  Plan plan = make_plan(parse_config(R"({"target": ")" + target +
                                         R"(", "operation": "prefill", "dtype": "bf16", "depth": )" +
                                         std::to_string(depth) + more + "}",
                                     "test"));
  KernelSource source = generate(plan);
  return {std::move(plan), std::move(source)};
}

std::shared_ptr<const Binary> compile(Runtime& runtime, const Made& made) {
  try {
    return runtime.compile(made.source);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::environment) throw;
    MESSAGE("skipped: " << error.what());
    return nullptr;
  }
}

}  // namespace

TEST_CASE("emitted AMD kernels hold the static checks and are bound by what the model can name") {
  Runtime runtime(quiet());
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    for (const int depth : {64, 128, 256}) {
      CAPTURE(target);
      CAPTURE(depth);
      const Made made = make(target, depth, R"(, "mask": "causal")");
      const auto binary = compile(runtime, made);
      if (!binary) continue;
      for (const std::string& broken : static_failures(made.plan, made.source.manifest, *binary))
        FAIL_CHECK(broken);
      const AmdLoopModel model = model_amd_loop(*binary, made.source.manifest);
      const AmdMachine& machine = amd_machine(target);
      CHECK(model.mfma > 0);
      CHECK(model.dma > 0);
      CHECK(model.barriers > 0);
      CHECK(model.waves_per_simd >= 1);
      CHECK(model.tflops_bound > 0);
      CHECK(model.tflops_bound <= machine.peak_16bit * 1.005);
      CHECK(model.tflops_in_order <= model.tflops_bound);
      CHECK(model.tflops_lockstep <= model.tflops_in_order);
      CHECK(model.read_tbs > 0);
      CHECK((amd_published(made.source.manifest).tflops > 0) == (std::string_view(target) != "gfx90a"));
      // What the matrix unit does in an iteration is the tile's two products, for every wave and stage.
      const Config& c = made.plan.resolved();
      const std::int64_t tile = 4LL * *c.BM * *c.BN * depth;
      CHECK(model.flops % (tile * model.blocks_per_cu) == 0);
    }
  }
}

TEST_CASE("emitted AMD kernels climb the ladder") {
  Runtime runtime(quiet());
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    CAPTURE(target);
    const Made made = make(target, 64, R"(, "mask": "causal", "lse": true)");
    if (!compile(runtime, made)) continue;
    EmulatorOptions emulator;
    emulator.policy = EmulatorOptions::Policy::lazy;
    const LadderRun run =
        run_cases(runtime, made.plan, made.source, boundary_cases(made.plan.resolved(), true), emulator, 2);
    CHECK_MESSAGE(run.passed(),
                  (run.check.failures.empty() ? run.findings.empty() ? "" : run.findings[0].message
                                              : run.check.failures[0]));
  }
}

TEST_CASE("HIPRTC compiles the same AMD source as clang") {
  const ScopedEnv choice("KILN_AMD_COMPILER", "hiprtc");
  Runtime runtime(quiet());
  const Made made = make("gfx90a", 64, R"(, "lse": true)");
  const auto binary = compile(runtime, made);
  if (!binary) return;
  CHECK(binary->compiler.starts_with("hiprtc "));
  CHECK(binary->stack_bytes == 0);
  EmulatorOptions emulator;
  const LadderRun run = run_cases(runtime, made.plan, made.source, {{33, 70}}, emulator, 2);
  CHECK_MESSAGE(run.passed(),
                (run.check.failures.empty() ? run.findings.empty() ? "" : run.findings[0].message
                                            : run.check.failures[0]));
}
