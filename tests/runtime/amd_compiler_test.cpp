// HIPRTC and clang behind KernelCompiler: who makes which target, what they say of a kernel, and what happens
// when they are missing, too old, refuse a source, or die.
#include <doctest/doctest.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "runtime/compiler/clang.hpp"
#include "runtime/compiler/code_object.hpp"
#include "runtime/compiler/hiprtc.hpp"
#include "tests/runtime/amd_support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

/// scripts/setup.sh installs both compilers; a machine without says what it leaves out.
bool usable(KernelCompiler& compiler, const char* target) {
  const std::string obstacle = compiler.offer(target).obstacle;
  if (!obstacle.empty()) MESSAGE("skipped for " << target << ": " << obstacle);
  return obstacle.empty();
}

std::string image_of(const char* which, const KernelSource& source) {
  const ScopedEnv choice("KILN_AMD_COMPILER", which);
  Runtime runtime(quiet());
  const auto binary = runtime.compile(source);
  CHECK(binary->cache == CacheState::miss);
  CHECK(binary->compiler.starts_with(std::string(which) + " "));
  CHECK(runtime.compile(source)->cache == CacheState::memory);
  return binary->image;
}

std::string message_of(const std::function<void()>& work, ErrorCode code) {
  std::string message;
  CHECK(error_of(work, &message) == code);
  return message;
}

}  // namespace

TEST_CASE("clang makes code objects for every AMD target, with their resources, the same bytes each time") {
  Clang clang;
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    CAPTURE(target);
    if (!usable(clang, target)) continue;
    KernelSource source = hip_source("sum", R"(
KERNEL(64) kernel(const float* x, float* out) {
  __shared__ float parts[64];
  parts[LANE] = x[LANE];
  __builtin_amdgcn_s_barrier();
  out[LANE] = parts[63 - LANE];
}
)",
                                     target);
    source.manifest.expectations = {{"ds_write_b32", 1}, {"global_load_dword", 1}};
    const Binary binary = clang.compile({source, target});
    CHECK(binary.image.substr(0, 4) ==
          "\x7f"
          "ELF");
    CHECK(binary.target == target);
    CHECK(binary.ptx.empty());
    CHECK(binary.registers > 0);
    CHECK(binary.scalar_registers > 0);
    CHECK(binary.accumulators == 0);
    CHECK(binary.spill_bytes == 0);
    CHECK(binary.static_smem_bytes == 256);
    CHECK(binary.warnings.empty());
    CHECK(image_of("clang", source) == binary.image);
    // The working folder is not in the bytes, nor is the line table's.
    CHECK(binary.image.find("/kiln-") == std::string::npos);
    const std::string text = disassemble(binary);
    CHECK(text.find("s_endpgm") != std::string::npos);
    source.manifest.expectations = {{"v_mfma", 3}};
    const Binary lacking = clang.compile({source, target});
    REQUIRE(lacking.warnings.size() == 1);
    CHECK(lacking.warnings[0] == "0 v_mfma instructions in the code object, 3 expected");
  }
}

TEST_CASE("HIPRTC makes gfx90a in a process of its own, the same bytes each time") {
  Hiprtc hiprtc;
  if (!usable(hiprtc, "gfx90a")) return;
  const KernelSource source = tiny_hip(7, "gfx90a");
  const std::string image = image_of("hiprtc", source);
  CHECK(image.substr(0, 4) ==
        "\x7f"
        "ELF");
  CHECK(image_of("hiprtc", source) == image);
}

TEST_CASE("a target that HIPRTC does not know is refused before HIPRTC is asked") {
  Hiprtc hiprtc;
  if (!usable(hiprtc, "gfx90a")) return;
  if (!hiprtc.offer("gfx950").obstacle.empty()) {
    const std::string message = message_of(
        [&] {
          hiprtc.compile({tiny_hip(1, "gfx950"), "gfx950"});
        },
        ErrorCode::environment);
    CHECK(message.find("too old for gfx950, which needs ROCm 7.0") != std::string::npos);
  }
  CHECK(hiprtc.offer("gfx1100").obstacle.find("gfx1100") != std::string::npos);
  CHECK(rocm_version_of("/usr/lib/libamdhip64.so.5.2.21153") == std::pair(5, 2));
  CHECK(rocm_version_of("/opt/rocm/lib/libhiprtc.so.7.0.70001") == std::pair(7, 0));
  CHECK(rocm_version_of("libhiprtc.so.6") == std::pair(6, 0));
  CHECK(rocm_version_of("libhiprtc.so") == std::pair(0, 0));
}

TEST_CASE("a refused HIP source is an error with the compiler's words") {
  const KernelSource bad = hip_source("bad", "KERNEL(64) kernel() { undefined_name(); }\n", "gfx90a");
  for (const char* which : {"hiprtc", "clang"}) {
    CAPTURE(which);
    Clang clang;
    Hiprtc hiprtc;
    if (!usable(which[0] == 'c' ? static_cast<KernelCompiler&>(clang) : hiprtc, "gfx90a")) continue;
    const ScopedEnv choice("KILN_AMD_COMPILER", which);
    const Scratch scratch;
    Runtime runtime(quiet(scratch / "cache"));
    const std::string message = message_of([&] { runtime.compile(bad); }, ErrorCode::compile);
    CHECK(message.find("undefined_name") != std::string::npos);
    CHECK(message.find("bad.hip") != std::string::npos);
    CHECK(read_file(scratch / "cache/failed/bad.hip") == bad.text);
  }
}

TEST_CASE("no room for the compiler's files is the machine's fault, not the source's") {
  Clang clang;
  if (!usable(clang, "gfx90a")) return;
  const KernelSource source = hip_source("large", "// " + std::string(100000, 'x') + "\n", "gfx90a");
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{1000, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  const auto code = error_of([&] { clang.compile({source, "gfx90a"}); }, &message);
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  CHECK(code == ErrorCode::environment);
  CHECK(message.find("set TMPDIR") != std::string::npos);
}

TEST_CASE("a compiler that dies takes one compile with it and no more") {
  Hiprtc hiprtc;
  if (!usable(hiprtc, "gfx90a") || hiprtc.offer("gfx942").obstacle.empty()) return;  // ROCm 5 only
  // LLVM 15 cannot select a 16-byte load to LDS, and ends its process over it.
  const KernelSource source = hip_source("fatal", R"(
typedef int int4v __attribute__((ext_vector_type(4)));
__device__ void load(int4v, __attribute__((address_space(3))) void*, int, int, int, int, int)
    __asm("llvm.amdgcn.raw.buffer.load.lds");
KERNEL(64) kernel(int4v* where) {
  __shared__ int4v room[64];
  load(*where, (__attribute__((address_space(3))) void*)room, 16, 0, 0, 0, 0);
}
)",
                                         "gfx90a");
  const std::string message = message_of([&] { hiprtc.compile({source, "gfx90a"}); }, ErrorCode::compile);
  CHECK(message.find("killed by signal 6") != std::string::npos);
  CHECK(message.find("fatal.hip") != std::string::npos);
  CHECK(hiprtc.compile({tiny_hip(2, "gfx90a"), "gfx90a"}).registers > 0);
}

TEST_CASE("missing AMD compilers are named with the way to get them, in one line") {
  const ScopedEnv no_hiprtc("KILN_HIPRTC", "/nowhere/libhiprtc.so.7"),
      no_clang("KILN_CLANG", "/nowhere/clang");
  Runtime runtime(quiet());
  const std::string message =
      message_of([&] { runtime.compile(tiny_hip(1, "gfx942")); }, ErrorCode::environment);
  CHECK(message.find("no HIPRTC") != std::string::npos);
  CHECK(message.find("/nowhere/libhiprtc.so.7") != std::string::npos);
  CHECK(message.find("install clang-22 and lld-22") != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("a clang that is too old, or none at all, is not used") {
  const Scratch scratch;
  const auto script = [&](const std::string& name, const std::string& body) {
    std::ofstream(scratch / name) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(scratch / name, std::filesystem::perms::owner_all);
    return scratch / name;
  };
  const std::string old = script("old", "echo 'Debian clang version 15.0.6'");
  const std::string odd = script("odd", "echo 'gcc 12'");
  const std::string lone = script("lone", "[ $1 = --version ] && echo 'clang version 21.1.0' || echo lld");
  for (const auto& [path, words] : std::vector<std::pair<std::string, std::string>>{
           {old, "is clang 15"}, {odd, "is no clang"}, {lone, "has no linker; install lld-21"}}) {
    const ScopedEnv choice("KILN_CLANG", path.c_str()), bare("PATH", "/nowhere");
    Clang clang;
    CHECK(clang.offer("gfx942").obstacle.find(path + " " + words) != std::string::npos);
    CHECK(clang.probe().found == false);
  }
}

TEST_CASE("spilled registers and scratch memory fail the static checks") {
  Clang clang;
  if (!usable(clang, "gfx942")) return;
  KernelSource source = hip_source("spill", R"(
KERNEL(1024) kernel(float* x, int n) {
  float values[300];
  for (int i = 0; i < 300; ++i) values[i] = x[i * 1024 + LANE];
  for (int k = 0; k < n; ++k)
    for (int i = 0; i < 300; ++i) values[i] = values[i] * values[(i + 7) % 300] + 1.0f;
  for (int i = 0; i < 300; ++i) x[i * 1024 + LANE] = values[i];
}
)",
                                   "gfx942");
  source.manifest.num_threads = 1024;
  const Binary binary = clang.compile({source, "gfx942"});
  CHECK(binary.stack_bytes > 0);
  REQUIRE(!binary.warnings.empty());
  CHECK(binary.warnings.back().find("bytes of scratch memory per lane") != std::string::npos);
}

TEST_CASE("the choice among AMD compilers is checked, and the key tells them apart") {
  const ScopedEnv choice("KILN_AMD_COMPILER", "gcc");
  CHECK(message_of([] { Runtime runtime(quiet()); }, ErrorCode::bad_input).find("hiprtc or clang") !=
        std::string::npos);
  const CompileJob job{tiny_hip(1, "gfx90a"), "gfx90a"};
  CHECK(!(cache_key(job, "clang 22", {}) == cache_key(job, "hiprtc 5.2", {})));
}

TEST_CASE("doctor shows who compiles what for AMD") {
  Runtime runtime(quiet());
  const DoctorReport report = runtime.doctor();
  std::vector<std::string> kinds;
  for (const auto& compiler : report.compilers) {
    kinds.push_back(compiler.kind);
    if (compiler.kind == "clang" && compiler.found && compiler.path.find("clang-22") != std::string::npos) {
      CHECK(compiler.targets == std::vector<std::string>{"gfx90a", "gfx942", "gfx950"});
    }
    if (compiler.kind == "hiprtc" && compiler.found) CHECK(compiler.targets.front() == "gfx90a");
  }
  CHECK(kinds == std::vector<std::string>{"nvrtc", "hiprtc", "clang"});
  REQUIRE(report.drivers.size() == 2);
  CHECK(report.drivers[1].kind == "hip");
}
