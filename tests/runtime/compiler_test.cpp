// NVRTC behind KernelCompiler: what a compile gives, what a refusal says, and what the cache key is made of.
#include <doctest/doctest.h>

#include <kiln/generator.hpp>

#include "runtime/compiler/compiler.hpp"
#include "runtime/compiler/nvrtc_api.hpp"
#include "tests/runtime/support.hpp"
#include "workbench/verify/ladder.hpp"

using namespace kiln;
using namespace kiln::test;

TEST_CASE("a compile gives PTX with line tables, a cubin and the resources") {
  Runtime runtime(quiet());
  const auto binary = runtime.compile(tiny_source(7));
  CHECK(binary->cache == CacheState::miss);
  CHECK(binary->image.substr(0, 4) ==
        "\x7f"
        "ELF");
  CHECK(binary->ptx.find(".visible .entry kernel(") != std::string::npos);
  CHECK(binary->ptx.find("/kiln/tiny7.cu") != std::string::npos);
  CHECK(binary->ptx.find("\t.loc\t1 2 ") != std::string::npos);  // the head is line 1
  CHECK(binary->registers > 0);
  CHECK(binary->spill_bytes == 0);
  CHECK(binary->warnings.empty());
  CHECK(binary->target == "sm_90a");
  CHECK(binary->key.size() == 32);
  CHECK(binary->compile_ms > 0);
  CHECK(binary->compiler.substr(0, 6) == "nvrtc ");
  CHECK(runtime.compile(tiny_source(7))->cache == CacheState::memory);
}

TEST_CASE("the emulated device asks for PTX alone, which is that of a whole compile") {
  const Scratch scratch;
  const RuntimeOptions whole = quiet(scratch / "cache");
  RuntimeOptions ptx_only = whole;
  ptx_only.ptx_only = true;
  const auto a = Runtime(whole).compile(tiny_source(7)), b = Runtime(ptx_only).compile(tiny_source(7));
  CHECK(b->cache == CacheState::miss);
  CHECK(b->key != a->key);
  CHECK(b->ptx == a->ptx);
  CHECK(b->image.empty());
  CHECK(b->registers == 0);
  CHECK(b->warnings.empty());
  CHECK(b->target == "sm_90a");
  CHECK(Runtime(ptx_only).compile(tiny_source(7))->cache == CacheState::disk);
  // What the PTX lacks is a warning all the same.
  KernelSource lacking = tiny_source(8);
  lacking.manifest.expectations.push_back({"wgmma.mma_async", 1});
  CHECK(Runtime(ptx_only).compile(lacking)->warnings.size() == 1);
  // Without the device said by name, machine code: a GPU may be there.
  ptx_only.device = "auto";
  CHECK_FALSE(Runtime(ptx_only).compile(tiny_source(7))->image.empty());
}

TEST_CASE("a refused source is an error with the compiler's words and a kept copy") {
  const Scratch scratch;
  Runtime runtime(quiet(scratch / "cache"));
  std::string message;
  const auto bad = make_source("bad", "extern \"C\" __global__ void kernel() { undefined_name(); }\n");
  CHECK(error_of([&] { runtime.compile(bad); }, &message) == ErrorCode::compile);
  CHECK(message.find("undefined_name") != std::string::npos);
  CHECK(message.find("bad.cu") != std::string::npos);
  CHECK(read_file(scratch / "cache/failed/bad.cu") == bad.text);
  CHECK(entry_files(scratch / "cache").empty());
  // A failure is not remembered.
  CHECK(error_of([&] { runtime.compile(bad); }) == ErrorCode::compile);
  CHECK(runtime.cache().stats().compiles == 0);
}

TEST_CASE("wgmma on plain sm_90 and unknown targets are refused with a reason") {
  Runtime runtime(quiet());
  auto source = make_source(
      "plain", "extern \"C\" __global__ void kernel() { asm volatile(\"wgmma.fence.sync.aligned;\"); }\n");
  CHECK(runtime.compile(source)->ptx.find("wgmma.fence") != std::string::npos);
  source.manifest.target = "sm_90";
  std::string message;
  CHECK(error_of([&] { runtime.compile(source); }, &message) == ErrorCode::compile);
  CHECK(message.find("wgmma") != std::string::npos);
  source.manifest.target = "sm_1";
  CHECK(error_of([&] { runtime.compile(source); }, &message) == ErrorCode::environment);
  CHECK(message.find("sm_1") != std::string::npos);
  source.manifest.target = "gfx906";
  CHECK(error_of([&] { runtime.compile(source); }) == ErrorCode::environment);
}

TEST_CASE("spills and missing instructions are warnings of the binary") {
  Runtime runtime(quiet());
  std::string body = "extern \"C\" __global__ void __launch_bounds__(1024, 2) kernel(float* p) {\n";
  for (int i = 0; i < 64; ++i)
    body += "float a" + std::to_string(i) + " = p[threadIdx.x + " + std::to_string(32 * i) + "];\n";
  body += "__syncthreads();\n";
  for (int i = 0; i < 64; ++i) {
    body += "p[" + std::to_string(i) + "] = a" + std::to_string(i) + " * a" +
            std::to_string((i * 7 + 3) % 64) + ";\n";
  }
  auto source = make_source("spilling", body + "}\n");
  source.manifest.expectations.push_back({"wgmma.mma_async", 3});
  source.manifest.expectations.push_back({"bar.sync", 1});
  const auto binary = runtime.compile(source);
  CHECK(binary->spill_bytes > 0);
  REQUIRE(binary->warnings.size() == 2);
  CHECK(binary->warnings[0].find("spills") != std::string::npos);
  CHECK(binary->warnings[1].find("0 wgmma.mma_async") != std::string::npos);
}

TEST_CASE("the ptxas log is read line by line") {
  Binary binary;
  binary.log =
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due "
      "to x\n"
      "ptxas info    : Function properties for kernel\n"
      "ptxas         .     48 bytes stack frame, 40 bytes spill stores, 24 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 9 barriers, 48 bytes cumulative stack size, 1024 bytes "
      "smem\n";
  read_ptxas_log(binary);
  CHECK(binary.registers == 168);
  CHECK(binary.spill_bytes == 64);
  CHECK(binary.stack_bytes == 48);
  CHECK(binary.static_smem_bytes == 1024);
  REQUIRE(binary.warnings.size() == 2);
  CHECK(binary.warnings[0].find("(C7510)") != std::string::npos);
}

TEST_CASE("warnings of each compiler are found in its log, advice and resources are not") {
  CHECK(compiler_warnings("").empty());
  const auto warnings = compiler_warnings(
      "/kiln/a.cu(3): warning #177-D: variable \"x\" was declared but never referenced\n"
      "      int x;\n\n"
      "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n"
      "ptxas info    : Used 168 registers\n"
      "ptxas warning : Value of threads per SM for entry kernel is out of range\n"
      "/kiln/a.hip:3:5: warning: unused variable 'x' [-Wunused-variable]\n"
      "1 warning generated.\n");
  REQUIRE(warnings.size() == 3);
  CHECK(warnings[0].find("#177-D") != std::string::npos);
  CHECK(warnings[1].find("threads per SM") != std::string::npos);
  CHECK(warnings[2].find("-Wunused-variable") != std::string::npos);
}

TEST_CASE("what NVRTC warns of fails a kernel on the ladder, though not its compile") {
  Runtime runtime(quiet());
  const Plan plan = make_plan(
      parse_config(R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64})", "warns"));
  KernelSource source = generate(plan);
  CHECK(static_failures(plan, source.manifest, *runtime.compile(source)).empty());
  const std::size_t at = source.text.find("extern __shared__");
  REQUIRE(at != std::string::npos);
  source.text.insert(at, "int spare; ");
  const auto binary = runtime.compile(source);
  CHECK(binary->warnings.empty());
  const auto failures = static_failures(plan, source.manifest, *binary);
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].find("\"spare\"") != std::string::npos);
}

TEST_CASE("instructions are counted by mnemonic prefix, not by substring") {
  const std::string ptx =
      "wgmma.mma_async.sync x;\n\twgmma.mma_async.sync y; @p mma.sync z;\nxwgmma.mma_async;";
  CHECK(count_instructions(ptx, "wgmma.mma_async") == 2);
  CHECK(count_instructions(ptx, "mma.sync") == 1);
  CHECK(count_instructions(ptx, "mma") == 1);
  CHECK(count_instructions(ptx, "") == 0);
}

TEST_CASE("the key follows the code, target, options and compiler, not the name or the head's words") {
  const std::vector<std::string> options{"-a", "-b"};
  const auto key = [&](const KernelSource& source, const std::string& target = "sm_90a",
                       const std::string& compiler = "c", std::vector<std::string> with = {"-a", "-b"}) {
    return cache_key({source, target}, compiler, with).hex();
  };
  const KernelSource base = make_source("one", "body", "// head\n");
  CHECK(key(base) == key(make_source("two", "body", "// HEAD of another release\n")));
  CHECK(key(base) != key(make_source("one", "body", "// head\n//\n")));  // line tables would be off
  CHECK(key(base) != key(make_source("one", "bodY", "// head\n")));
  CHECK(key(base) != key(base, "sm_90"));
  CHECK(key(base) != key(base, "sm_90a", "d"));
  CHECK(key(base) != key(base, "sm_90a", "c", {"-a-b"}));
  CHECK(key(base) != key(base, "sm_90a", "c", {"-b", "-a"}));
  KernelSource other = base;
  other.manifest.entry = "other";
  CHECK(key(base) != key(other));
  other = base;
  other.head_bytes = 1000;  // a wrong manifest must not read past the text
  CHECK(key(other) != key(base));
  // A change of the scheme voids every cache: it must be deliberate.
  CHECK(key(base) == "834f9340a659ec71d32fc85ef8950cb6");
}

TEST_CASE("a missing NVRTC says what was tried and how to get one") {
  const ScopedEnv nowhere("KILN_NVRTC", "/nonexistent/libnvrtc.so.13");
  Runtime runtime(quiet());
  std::string message;
  CHECK(error_of([&] { runtime.compile(tiny_source(1)); }, &message) == ErrorCode::environment);
  CHECK(message.find("/nonexistent/libnvrtc.so.13") != std::string::npos);
  CHECK(message.find("nvidia-cuda-nvrtc") != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
  const DoctorReport report = runtime.doctor();
  REQUIRE(!report.compilers.empty());
  CHECK(!report.compilers[0].found);
  CHECK(!report.compilers[0].problem.empty());
}

TEST_CASE("a library that is not NVRTC, and one without its builtins, are refused") {
  std::string message;
  {
    const ScopedEnv other("KILN_NVRTC", "libc.so.6");
    CHECK(error_of([] { open_nvrtc(0); }, &message) == ErrorCode::environment);
    CHECK(message.find("is not an NVRTC library") != std::string::npos);
  }
  const Scratch scratch;
  write_file(scratch / "libnvrtc.so.13", "not a library");
  const ScopedEnv broken("KILN_NVRTC", scratch.path().c_str());
  CHECK(error_of([] { open_nvrtc(0); }, &message) == ErrorCode::environment);
}

TEST_CASE("the driver's CUDA version is tried first") {
  const ScopedEnv none("KILN_NVRTC", nullptr);
  CHECK(nvrtc_candidates(12).front() == "libnvrtc.so.12");
  CHECK(nvrtc_candidates(13).front() == "libnvrtc.so.13");
  CHECK(nvrtc_candidates(0).front() == "libnvrtc.so.13");
}

TEST_CASE("doctor lists what a real compile accepts") {
  Runtime runtime(quiet());
  const DoctorReport report = runtime.doctor();
  REQUIRE(report.compilers.size() >= 1);
  CHECK(report.compilers[0].kind == "nvrtc");
  CHECK(report.compilers[0].found);
  const auto& targets = report.compilers[0].targets;
  CHECK(std::find(targets.begin(), targets.end(), "sm_90a") != targets.end());
  CHECK(!report.devices.empty());
  CHECK(report.devices.back().selector == "emulated");
}
