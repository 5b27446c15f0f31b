// See harness.hpp.
#include "harness.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace amd_test {
namespace {

namespace fs = std::filesystem;

std::string clang() {
  if (const char* named = std::getenv("KILN_CLANG")) return named;
  return "clang-22";
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), "cannot read " << path.string());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

fs::path work_folder() {
  const fs::path folder = fs::path(KILN_BINARY_DIR) / "amd_programs";
  fs::create_directories(folder);
  return folder;
}

std::vector<std::byte> read_bytes(const fs::path& path) {
  const std::string text = slurp(path);
  std::vector<std::byte> out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

/// Path without extension of a new scratch file.
std::string scratch_name() {
  static int serial = 0;
  std::string base = (work_folder() / "p").string();
  return base += std::to_string(getpid()) + "_" + std::to_string(++serial);
}

std::vector<std::byte> run_clang(const std::string& text, const char* suffix, const std::string& arguments) {
  const std::string base = scratch_name();
  const std::string source = base + suffix, object = base + ".o", log = base + ".log";
  std::ofstream(source, std::ios::binary) << text;
  const std::string command =
      clang() + " " + arguments + " -o " + object + " " + source + " > " + log + " 2>&1";
  const int rc = std::system(command.c_str());
  REQUIRE_MESSAGE(rc == 0, command << "\n" << slurp(log));
  return read_bytes(object);
}

}  // namespace

bool toolchain() {
  static const bool found = [] {
    const bool compiler = std::system((clang() + " --version > /dev/null 2>&1").c_str()) == 0;
    const auto llvm = kiln::code_object::disassembler_info();
    if (!compiler) MESSAGE("skipped: no " << clang() << " (package clang-22, or KILN_CLANG)");
    if (!llvm.found) MESSAGE("skipped: " << llvm.error);
    return compiler && llvm.found;
  }();
  return found;
}

std::vector<std::byte> compile_text(const std::string& source, const std::string& target, bool assembly,
                                    const std::string& options) {
  return run_clang(
      source, ".hip",
      std::string("-x hip --cuda-device-only -nogpuinc -nogpulib --no-gpu-bundle-output -fuse-cuid=none ") +
          "-mcode-object-version=5 -O3 -Wno-undefined-internal " + (assembly ? "-S " : "-c ") + options +
          " --offload-arch=" + target);
}

std::string program_source(const std::string& name) {
  const fs::path folder = fs::path(KILN_SOURCE_DIR) / "tests/amd_programs";
  return slurp(folder / "prelude.h") + slurp(folder / (name + ".hip"));
}

std::vector<std::byte> compile_program(const std::string& name, const std::string& target, bool assembly) {
  static std::map<std::string, std::vector<std::byte>> done;
  auto& entry = done[name + target + (assembly ? "s" : "o")];
  if (entry.empty()) entry = compile_text(program_source(name), target, assembly);
  return entry;
}

std::vector<std::byte> assemble(const std::string& text, const std::string& target) {
  return run_clang(
      text, ".s",
      "-x assembler --target=amdgcn-amd-amdhsa -nogpulib -mcode-object-version=5 -mcpu=" + target);
}

amd::Module kernel_from_assembly(const std::string& body, const std::string& target, int lds_bytes) {
  std::ostringstream s;
  s << ".amdgcn_target \"amdgcn-amd-amdhsa--" << target
    << "\"\n.text\n.globl k\n.p2align 8\n.type k,@function\nk:\n"
    << "s_load_dwordx4 s[4:7], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\ns_mov_b64 s[2:3], s[4:5]\ns_mov_b64 "
       "s[4:5], s[6:7]\n"
    << body << "\ns_endpgm\n.Lend:\n.size k, .Lend-k\n.rodata\n.p2align 6\n.amdhsa_kernel k\n"
    << ".amdhsa_group_segment_fixed_size " << lds_bytes
    << "\n.amdhsa_kernarg_size 16\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n"
    << ".amdhsa_accum_offset 256\n.amdhsa_next_free_vgpr 512\n.amdhsa_next_free_sgpr "
       "96\n.end_amdhsa_kernel\n.amdgpu_metadata\n---\n"
    << "amdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--" << target
    << "\namdhsa.kernels:\n  - .name: k\n    .symbol: k.kd\n"
    << "    .kernarg_segment_size: 16\n    .group_segment_fixed_size: " << lds_bytes
    << "\n    .private_segment_fixed_size: 0\n"
    << "    .kernarg_segment_align: 8\n    .wavefront_size: 64\n    .sgpr_count: 96\n    .vgpr_count: 512\n  "
       "  .agpr_count: 256\n"
    << "    .max_flat_workgroup_size: 1024\n    .args:\n"
    << "      - {.size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}\n"
    << "      - {.size: 8, .offset: 8, .value_kind: global_buffer, .address_space: "
       "global}\n...\n.end_amdgpu_metadata\n";
  return amd::Module::from_code_object(assemble(s.str(), target));
}

std::string describe(const emu::Report& report) {
  std::ostringstream s;
  for (const auto& f : report.findings) {
    s << f.kind << ": " << f.message << " [block " << f.site.block.x << "," << f.site.block.y << " wave "
      << f.site.warp << " lane " << f.site.lane << "] " << f.site.ptx_text << " x" << f.count;
    if (f.has_other) s << " / other: wave " << f.other.warp << " " << f.other.ptx_text;
    s << "\n";
  }
  return s.str();
}

bool has_finding(const emu::Report& report, const std::string& kind) {
  for (const auto& f : report.findings) {
    if (f.kind == kind) return true;
  }
  return false;
}

namespace {

/// Debian's HIPRTC, which knows gfx90a. It may abort the process, so it runs in another one (the test case
/// below).
const char* const kHiprtc = "libamdhip64.so.5";

bool has_hiprtc() {
  static const bool found = [] {
    void* handle = dlopen(kHiprtc, RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr)
      MESSAGE("HIPRTC is skipped: no " << kHiprtc << " (package libamdhip64-5)");
    else
      dlclose(handle);
    return handle != nullptr;
  }();
  return found;
}

std::vector<std::byte> compile_with_hiprtc(const std::string& program) {
  const std::string base = scratch_name();
  std::ofstream(base + ".hip", std::ios::binary) << program_source(program);
  char self[4096];
  const auto n = readlink("/proc/self/exe", self, sizeof self - 1);
  REQUIRE(n > 0);
  self[n] = '\0';
  const std::string command = "ASAN_OPTIONS=detect_leaks=0 KILN_TEST_HIPRTC=" + base + " " + self +
                              " -tc='HIPRTC child' > " + base + ".log 2>&1";
  const int rc = std::system(command.c_str());
  REQUIRE_MESSAGE(rc == 0, command << "\n" << slurp(base + ".log"));
  return read_bytes(base + ".o");
}

void run_module(const amd::Module& module, const std::string& program, const std::string& target,
                const std::function<void(Device&, const Run&, const std::string&)>& body) {
  for (const Way& way : kWays) {
    CAPTURE(program);
    CAPTURE(target);
    CAPTURE(std::string(way.name));
    Device device;
    body(
        device,
        [&](emu::Dim3 grid, emu::Dim3 block, std::vector<std::vector<std::byte>> args) {
          amd::Launch l = launch_of(grid, block, std::move(args));
          l.policy = way.policy;
          l.seed = way.seed;
          auto report = amd::launch(device.memory, module, l);
          CHECK(report.completed);
          CHECK_MESSAGE(report.findings.empty(), describe(report));
          return report;
        },
        target);
  }
}

}  // namespace

void each_way(const std::string& program, const std::vector<std::string>& targets,
              const std::function<void(Device&, const Run&, const std::string&)>& body) {
  if (!toolchain()) return;
  for (const std::string& target : targets) {
    const auto module = amd::Module::from_code_object(compile_program(program, target), program);
    REQUIRE(module.target() == target);
    run_module(module, program, target, body);
    if (target == "gfx90a" && has_hiprtc()) {
      run_module(amd::Module::from_code_object(compile_with_hiprtc(program), program), program + " (HIPRTC)",
                 target, body);
    }
  }
}

TEST_CASE("HIPRTC child") {
  const char* base = std::getenv("KILN_TEST_HIPRTC");
  if (base == nullptr) return;
  void* library = dlopen(kHiprtc, RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto create =
      reinterpret_cast<int (*)(void**, const char*, const char*, int, const char**, const char**)>(
          dlsym(library, "hiprtcCreateProgram"));
  const auto compile =
      reinterpret_cast<int (*)(void*, int, const char**)>(dlsym(library, "hiprtcCompileProgram"));
  const auto code_size = reinterpret_cast<int (*)(void*, std::size_t*)>(dlsym(library, "hiprtcGetCodeSize"));
  const auto code = reinterpret_cast<int (*)(void*, char*)>(dlsym(library, "hiprtcGetCode"));
  REQUIRE((create != nullptr && compile != nullptr && code_size != nullptr && code != nullptr));
  void* program = nullptr;
  const std::string source = slurp(std::string(base) + ".hip");
  REQUIRE(create(&program, source.c_str(), "program.hip", 0, nullptr, nullptr) == 0);
  const char* options[] = {"--offload-arch=gfx90a", "-O3"};
  REQUIRE(compile(program, 2, options) == 0);
  std::size_t size = 0;
  REQUIRE(code_size(program, &size) == 0);
  std::string bytes(size, '\0');
  REQUIRE(code(program, bytes.data()) == 0);
  std::ofstream(std::string(base) + ".o", std::ios::binary) << bytes;
}

}  // namespace amd_test
