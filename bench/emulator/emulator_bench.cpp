// Speed of the emulated device on one core: straight-line code, wgmma, and kernels that kiln generates, with
// findings on and off (programs of others: measure.py). Times are CPU time of the process, so other work on the machine matters
// little. Prints one line per measurement; exit status 1 when a limit is missed.
//   kiln_bench_emulator [--kernel [PART]]   the last part compiles kernels and needs NVRTC, and HIPRTC or clang;
//                                           with PART nothing else is measured than kernels with that in their names
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include <kiln/kiln.hpp>

#include <kiln/emulator/emulator.hpp>
#include "workbench/verify/runner.hpp"

namespace {

namespace em = kiln::emulator;

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

int failures = 0;
void line(const std::string& what, double value, const char* unit, double least) {
  const bool ok = least == 0 || value >= least;
  failures += ok ? 0 : 1;
  fmt::print("{:<52} {:>9.2f} {}{}\n", what, value, unit,
             least == 0 ? "" : fmt::format("   (limit {:g}{})", least, ok ? "" : ", missed"));
}

/// Best of three runs of one launch: a unit of work per CPU second.
double rate(const em::Module& module, em::Dim3 block, bool findings,
            const std::function<double(const em::Report&)>& work) {
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    em::GlobalMemory memory;
    const std::uint64_t out = memory.allocate(1 << 16);
    em::Launch launch;
    launch.block = block;
    launch.findings = findings;
    launch.host_threads = 1;
    launch.args.resize(1);
    launch.args[0].resize(8);
    std::memcpy(launch.args[0].data(), &out, 8);
    const double start = cpu_seconds();
    const em::Report report = em::launch(memory, module, launch);
    const double seconds = cpu_seconds() - start;
    if (!report.completed || !report.findings.empty()) {
      fmt::print("the benchmark kernel failed: {}\n",
                 report.findings.empty() ? "not completed" : report.findings[0].message);
      std::exit(1);
    }
    best = std::max(best, work(report) / seconds);
  }
  return best;
}

std::string head(const std::string& declarations, const std::string& target = "sm_90a") {
  return ".version 8.0\n.target " + target + "\n.address_size 64\n" + declarations +
         ".visible .entry k(.param .u64 out)\n{\n.reg .pred %p<8>; .reg .b32 %r<64>; .reg .f32 %f<600>; .reg "
         ".b64 "
         "%d<16>;\nld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, "
         "%d2;\n";
}

/// Integer and float arithmetic, selects and compares, as in the middle of a kernel.
std::string straight_line() {
  std::string s =
      head({}) + "mov.u32 %r2, 0; mov.u32 %r3, 1; mov.f32 %f1, 0f3f800000; mov.f32 %f2, 0f3f000000;\nL:\n";
  for (int i = 0; i < 32; ++i)
    s += "add.u32 %r3, %r3, %r1; xor.b32 %r4, %r3, 77; shl.b32 %r5, %r4, 3; fma.rn.f32 %f2, %f1, %f2, %f1; "
         "mul.f32 "
         "%f3, %f2, %f1; max.f32 %f2, %f3, %f1; setp.lt.u32 %p1, %r4, %r5; selp.u32 %r3, %r4, %r5, %p1;\n";
  return s +
         "add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 4000; @%p2 bra L; cvt.rn.f32.u32 %f4, %r3; add.f32 %f4, "
         "%f4, "
         "%f2; st.global.f32 [%d1], %f4; ret;\n}\n";
}

/// Groups of four wgmmas of 64 x 128 x 16 on 128-byte swizzled tiles, as a kernel issues them.
std::string wgmma_loop() {
  std::string accumulators;
  for (int i = 0; i < 64; ++i) accumulators += fmt::format("{}%f{}", i > 0 ? ", " : "", i);
  std::string s =
      head(".shared .align 1024 .b8 s[49152];\n") +
      "mov.u32 %r2, s; mov.u32 %r3, %r1; mov.u32 %r5, 0x3c003c00;\nFILL:\nmul.lo.u32 %r4, %r3, 4; add.u32 "
      "%r4, %r4, "
      "%r2; st.shared.u32 [%r4], %r5; add.u32 %r3, %r3, 128; setp.lt.u32 %p1, %r3, 12288; @%p1 bra FILL; "
      "fence.proxy.async; bar.sync 0;\n";
  for (int i = 0; i < 64; ++i) s += fmt::format("mov.f32 %f{}, 0f00000000; ", i);
  s += "\nshr.u32 %r6, %r2, 4; cvt.u64.u32 %d3, %r6; or.b64 %d3, %d3, 0x4000004000010000; add.u64 %d4, %d3, "
       "1024; "
       "mov.u32 %r7, 0;\nL:\nwgmma.fence.sync.aligned;\n";
  for (int i = 0; i < 4; ++i)
    s += fmt::format(
        "add.u64 %d5, %d3, {0}; add.u64 %d6, %d4, {0}; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{{1}}}, %d5, %d6, 1, 1, 1, 0, 0;\n",
        2 * i, accumulators);
  return s +
         "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; add.u32 %r7, %r7, 1; setp.lt.u32 "
         "%p2, "
         "%r7, 250; @%p2 bra L; st.global.f32 [%d1], %f0; ret;\n}\n";
}

/// Groups of four products of 128 x 128 x 16 from 128-byte swizzled tiles, each group with a commit that all wait for.
std::string tcgen05_loop() {
  std::string s =
      head(".shared .align 1024 .b8 s[32768];\n.shared .align 8 .b64 bar;\n.shared .align 4 .b32 base;\n",
           "sm_100a") +
      "mov.u32 %r2, s; mov.u32 %r3, bar; mov.u32 %r4, base; shr.u32 %r5, %r1, 5; setp.ne.u32 %p1, %r5, 0;\n"
      "setp.eq.u32 %p2, %r1, 0; @%p2 st.bulk.weak.shared::cta [%r2], 32768, 0; fence.proxy.async.shared::cta;\n"
      "@%p2 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;\n"
      "@!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 128; bar.sync 0;\n"
      "ld.shared.u32 %r6, [%r4]; shr.u32 %r7, %r2, 4; cvt.u64.u32 %d3, %r7; or.b64 %d3, %d3, 0x4000404000010000;\n"
      "add.u64 %d4, %d3, 1024; mov.u32 %r8, 0; mov.u32 %r9, 0;\n"
      "L: @%p1 bra W; elect.sync _|%p3, -1;\n";
  for (int i = 0; i < 4; ++i)
    s += fmt::format(
        "add.u64 %d5, %d3, {0}; add.u64 %d6, %d4, {0};\n"
        "@%p3 tcgen05.mma.cta_group::1.kind::f16 [%r6], %d5, %d6, 0x8200490, {1};\n",
        2 * i, i == 0 ? 0 : 1);
  return s +
         "@%p3 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];\n"
         "W: mbarrier.try_wait.parity.shared.b64 %p4, [%r3], %r9; @!%p4 bra W; bar.sync 0; xor.b32 %r9, %r9, 1;\n"
         "add.u32 %r8, %r8, 1; setp.lt.u32 %p5, %r8, 250; @%p5 bra L;\n"
         "@!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 128; ret;\n}\n";
}

/// A shipped config and a problem for it.
struct Program {
  const char* config;  ///< under configs/, without the extension
  std::vector<std::int64_t> lengths_q, lengths_k;
  int heads;
};

/// CPU seconds of one launch, with what it counted.
struct Run {
  double seconds = 0, flops = 0, instructions = 0;
};
Run run_once(kiln::Runtime& runtime, kiln::Kernel& kernel, const kiln::Workload& work, bool findings) {
  kiln::EmulatorOptions how;
  how.findings = findings;
  how.host_threads = 1;
  kiln::RunOptions options;
  options.emulator = &how;
  const double start = cpu_seconds();
  const kiln::RunResult result = kiln::run_workload(runtime, kernel, work, options);
  Run run{cpu_seconds() - start};
  for (const auto& [name, value] : result.counters) {
    if (name == "matrix_flops") run.flops = static_cast<double>(value);
    if (name == "instructions") run.instructions = static_cast<double>(value);
  }
  return run;
}

/// The best of three runs.
Run run_program(const Program& program, bool findings) {
  const std::string path = fmt::format("{}/configs/{}.json", KILN_SOURCE_DIR, program.config);
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const kiln::Plan plan = kiln::make_plan(kiln::parse_config(text, path));
  const kiln::Config& c = plan.resolved();
  kiln::RuntimeOptions options;
  options.device = "emulated";
  kiln::Runtime runtime(options);
  const auto kernel = runtime.load(kiln::generate(plan));
  kiln::ProblemShape shape;
  shape.heads_q = shape.heads_kv = program.heads;
  shape.depth = c.depth;
  shape.ov_depth = c.ov_depth.value_or(c.depth);
  shape.lengths_q = program.lengths_q;
  shape.lengths_k = program.lengths_k;
  const kiln::Workload work = kiln::random_workload(shape, c, 1);
  Run best;
  for (int i = 0; i < 3; ++i) {
    const Run run = run_once(runtime, *kernel, work, findings);
    if (best.seconds == 0 || run.seconds < best.seconds) best = run;
  }
  return best;
}

/// Those whose names contain `part`.
void kernel_part(std::string_view part) {
  const Program programs[] = {{"sm_100a/prefill_bf16_d128_sm100a", {256}, {8192}, 1},
                              {"sm_100a/prefill_bf16_d128_sm100a", {256}, {256}, 2},
                              {"sm_90a/prefill_bf16_d128_sm90a", {128}, {8192}, 1},
                              {"sm_80/prefill_bf16_d128_sm80", {128}, {4096}, 1},
                              {"sm_80/decode_bf16_d128_sm80", {1, 1, 1, 1}, {2048, 2048, 2048, 2048}, 4},
                              {"gfx942/prefill_bf16_d128_gfx942", {256}, {2048}, 1}};
  for (const Program& p : programs) {
    if (std::string_view(p.config).find(part) == std::string_view::npos) continue;
    for (const bool findings : {true, false}) {
      const Run run = run_program(p, findings);
      fmt::print("{:<34} findings {:<3} {:>9.1f} ms {:>7.2f} M warp instructions/s {:>7.2f} GFLOP/s\n",
                 p.config, findings ? "on" : "off", run.seconds * 1e3, run.instructions / run.seconds / 1e6,
                 run.flops / run.seconds / 1e9);
    }
  }
}

/// Instructions without kernels around them.
void instruction_part() {
  const em::Module straight = em::Module::from_ptx(straight_line()),
                   wgmma = em::Module::from_ptx(wgmma_loop()), tcgen05 = em::Module::from_ptx(tcgen05_loop());
  double both[2] = {};
  for (const bool findings : {true, false})
    line(fmt::format("straight-line code, findings {}", findings ? "on" : "off"),
         rate(straight, {128, 1, 1}, findings,
              [](const em::Report& r) { return static_cast<double>(r.counters.warp_instructions) / 1e6; }),
         "M warp-instructions/s", findings ? 20 : 0);
  for (const bool findings : {true, false})
    line(fmt::format("bf16 wgmma 64x128x16, findings {}", findings ? "on" : "off"),
         both[findings ? 0 : 1] =
             rate(wgmma, {128, 1, 1}, findings,
                  [](const em::Report& r) { return static_cast<double>(r.counters.matrix_flops) / 1e9; }),
         "GFLOP/s", findings ? 2 : 4);
  for (const bool findings : {true, false})
    line(fmt::format("bf16 tcgen05.mma 128x128x16, findings {}", findings ? "on" : "off"),
         rate(tcgen05, {128, 1, 1}, findings,
              [](const em::Report& r) { return static_cast<double>(r.counters.matrix_flops) / 1e9; }),
         "GFLOP/s", findings ? 5 : 0);
  fmt::print("wgmma without findings: {:.1f} times as fast\n", both[1] / both[0]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) instruction_part();
    if (argc > 1 && std::string_view(argv[1]) == "--kernel") kernel_part(argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "kiln_bench_emulator: {}\n", error.what());
    return 3;
  }
  return failures == 0 ? 0 : 1;
}
