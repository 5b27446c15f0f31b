// Loading: assembly text beside code objects, source lines, and clear errors for what cannot be loaded or
// launched.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "emulator/amdgcn/load/module.hpp"
#include "emulator/amdgcn/ops/minifloat.hpp"
#include "harness.hpp"

using namespace amd_test;

namespace {
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const emu::Error& e) {
    return e.what();
  }
  return "no error";
}
bool contains(const std::string& s, const std::string& part) {
  return s.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("assembly text runs like the code object") {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    for (const std::string program : {"reduce", "private_array", "compact", "gemm_mfma", "layernorm"}) {
      CAPTURE(target);
      CAPTURE(program);
      const auto object = amd::Module::from_code_object(compile_program(program, target));
      const auto text = amd::Module::from_assembly(text_of(compile_program(program, target, true)));
      CHECK(text.target() == target);
      const amd::KernelInfo &a = object.kernel(program), &b = text.kernel(program);
      CHECK(a.kernarg_bytes == b.kernarg_bytes);
      CHECK(a.lds_bytes == b.lds_bytes);
      CHECK(a.scratch_bytes == b.scratch_bytes);
      CHECK(a.vgprs == b.vgprs);
      REQUIRE(a.args.size() == b.args.size());
      std::vector<std::vector<std::uint32_t>> results;
      for (const amd::Module* module : {&object, &text}) {
        Device d;
        const std::uint32_t blocks = program == "gemm_mfma" ? 1 : 2;
        std::vector<std::vector<std::byte>> args;
        std::uint64_t last = 0;
        for (const auto& argument : module->kernel(program).args) {
          if (argument.hidden()) continue;
          if (argument.bytes == 8) {
            std::vector<std::uint32_t> words(16384);
            for (std::size_t i = 0; i < words.size(); ++i) words[i] = program == "compact" ? 3 : 0x3c003c00;
            args.push_back(arg(last = d.upload(words, argument.kind)));
          } else {
            args.push_back(arg(64));
          }
        }
        auto l = launch_of({blocks, 1, 1},
                           {static_cast<std::uint32_t>(module->kernel(program).max_workgroup), 1, 1}, args);
        if (program == "compact") l.args[2] = arg(d.upload(std::vector<std::uint32_t>{0}, "count"));
        const auto report = amd::launch(d.memory, *module, l);
        CHECK_MESSAGE(report.findings.empty(), describe(report));
        results.push_back(d.download<std::uint32_t>(last, program == "compact" ? 1 : 1024));
        results.back().push_back(static_cast<std::uint32_t>(report.counters.warp_instructions));
      }
      CHECK(results[0] == results[1]);
    }
  }
}

namespace {

/// Runs `program` with arrays of ones for its pointers and 64 for its numbers; the words of the last array.
std::vector<std::uint32_t> run_with_ones(const amd::Module& module, const std::string& program) {
  Device d;
  std::vector<std::vector<std::byte>> args;
  std::uint64_t last = 0;
  for (const auto& argument : module.kernel(program).args) {
    if (argument.hidden()) continue;
    if (argument.bytes == 8)
      args.push_back(arg(last = d.upload(std::vector<std::uint32_t>(16384, 0x3c003c00), argument.kind)));
    else
      args.push_back(arg(64));
  }
  const auto lanes = static_cast<std::uint32_t>(module.kernel(program).max_workgroup);
  const auto report = amd::launch(d.memory, module, launch_of({1, 1, 1}, {lanes, 1, 1}, args));
  CHECK_MESSAGE(report.findings.empty(), describe(report));
  auto words = d.download<std::uint32_t>(last, 1024);
  words.push_back(static_cast<std::uint32_t>(report.counters.warp_instructions));
  return words;
}

/// A kernel in assembly text with these lines in its descriptor.
std::string kernel_with(const std::string& target, const std::string& directives) {
  return ".amdgcn_target \"amdgcn-amd-amdhsa--" + target +
         "\"\n.text\n.globl k\n.p2align 8\n.type k,@function\nk:\ns_endpgm\n.Lend:\n.size k, .Lend-k\n"
         ".set five, 5\n.rodata\n.p2align 6\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 8\n"
         ".amdhsa_next_free_sgpr 40\n.amdhsa_accum_offset 8\n" +
         directives +
         ".end_amdhsa_kernel\n.amdgpu_metadata\n---\namdhsa.version: [1, 2]\n"
         "amdhsa.target: amdgcn-amd-amdhsa--" +
         target +
         "\namdhsa.kernels:\n  - .name: k\n    .symbol: k.kd\n    .kernarg_segment_size: 64\n"
         "    .group_segment_fixed_size: 0\n    .private_segment_fixed_size: 0\n"
         "    .kernarg_segment_align: 8\n    .wavefront_size: 64\n    .sgpr_count: 40\n    .vgpr_count: 8\n"
         "    .max_flat_workgroup_size: 1024\n...\n.end_amdgpu_metadata\n";
}

}  // namespace

TEST_CASE("assembly text with preloaded arguments starts where the code object does") {
  if (!toolchain()) return;
  for (const std::string target : {"gfx90a", "gfx942", "gfx950"}) {
    for (const std::string program : {"layernorm", "gemm_mfma", "reduce"}) {
      CAPTURE(target);
      CAPTURE(program);
      const std::string preload = "-mllvm -amdgpu-kernarg-preload-count=8";
      const auto object = compile_text(program_source(program), target, false, preload);
      const auto text = text_of(compile_text(program_source(program), target, true, preload));
      CHECK(contains(text, ".amdhsa_user_sgpr_kernarg_preload_length "));
      CHECK(!contains(text, ".amdhsa_user_sgpr_kernarg_preload_length 0"));
      CHECK(run_with_ones(amd::Module::from_assembly(text), program) ==
            run_with_ones(amd::Module::from_code_object(object), program));
    }
  }
}

TEST_CASE("directives set the registers up as the assembler's descriptor does" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::vector<std::string> lines = {
      "user_sgpr_dispatch_ptr 1",
      "user_sgpr_queue_ptr 1",
      "user_sgpr_kernarg_segment_ptr 1",
      "user_sgpr_dispatch_id 1",
      "user_sgpr_private_segment_size 1",
      "user_sgpr_kernarg_segment_ptr 1\n.amdhsa_user_sgpr_kernarg_preload_length five",
      "user_sgpr_kernarg_segment_ptr 1\n.amdhsa_user_sgpr_kernarg_preload_length 3\n"
      ".amdhsa_user_sgpr_kernarg_preload_offset 2",
      "user_sgpr_count 12",
      "user_sgpr_kernarg_segment_ptr 1\n.amdhsa_user_sgpr_count 0x6",
      "enable_private_segment 1",
      "system_sgpr_workgroup_id_x 0",
      "system_sgpr_workgroup_id_y 1",
      "system_sgpr_workgroup_id_z 1",
      "system_sgpr_workgroup_info 1",
      "system_vgpr_workitem_id 1",
      "system_vgpr_workitem_id 2",
  };
  std::vector<std::string> all = {""};
  std::string together;
  for (const std::string& l : lines) {
    all.push_back(".amdhsa_" + l + "\n");
    if (!contains(l, "preload") && !contains(l, "count") && !contains(l, "kernarg") && l != lines.back())
      together += all.back();
  }
  all.push_back(together);
  for (const std::string target : {"gfx90a", "gfx942", "gfx950"}) {
    std::vector<std::string> cases = all;
    if (target == "gfx90a")  // scratch through a descriptor and its base in registers
      for (const std::string l : {"user_sgpr_private_segment_buffer 1", "user_sgpr_flat_scratch_init 1",
                                  "system_sgpr_private_segment_wavefront_offset 1"})
        cases.push_back(".amdhsa_" + l + "\n");
    for (std::string directives : cases) {
      if (target == "gfx90a") {
        const auto at = directives.find("enable_private_segment");
        if (at != std::string::npos)
          directives.replace(at, 22, "system_sgpr_private_segment_wavefront_offset");
      }
      CAPTURE(target);
      CAPTURE(directives);
      const std::string text = kernel_with(target, directives);
      const amd::Abi a = amd::Module::from_assembly(text).impl().find("k").abi;
      const amd::Abi b = amd::Module::from_code_object(assemble(text, target)).impl().find("k").abi;
      CHECK(a.private_segment_buffer == b.private_segment_buffer);
      CHECK(a.dispatch_ptr == b.dispatch_ptr);
      CHECK(a.queue_ptr == b.queue_ptr);
      CHECK(a.kernarg_ptr == b.kernarg_ptr);
      CHECK(a.dispatch_id == b.dispatch_id);
      CHECK(a.flat_scratch_init == b.flat_scratch_init);
      CHECK(a.private_segment_size == b.private_segment_size);
      CHECK(a.preload_dwords == b.preload_dwords);
      CHECK(a.preload_offset == b.preload_offset);
      CHECK(a.private_wave_offset == b.private_wave_offset);
      for (int i = 0; i < 3; ++i) CHECK(a.workgroup_id[i] == b.workgroup_id[i]);
      CHECK(a.workgroup_info == b.workgroup_info);
      CHECK(a.workitem_dims == b.workitem_dims);
      // Where the workgroup's ids begin: the sum of what is enabled unless a count says more.
      CHECK(a.first_system_sgpr() == b.first_system_sgpr());
    }
  }
}

TEST_CASE("a directive whose value is an expression is named") {
  if (!toolchain()) return;
  const std::string text = kernel_with("gfx942", ".amdhsa_user_sgpr_count five+1\n");
  CHECK(contains(error_of([&] { amd::Module::from_assembly(text); }), ".amdhsa_user_sgpr_count"));
}

TEST_CASE("a directive whose value is none that a descriptor has is refused") {
  for (const char* value :
       {"user_sgpr_count 255", "user_sgpr_count -1", "user_sgpr_kernarg_preload_length 2147483647",
        "system_vgpr_workitem_id 2147483647", "system_vgpr_workitem_id -2147483648"}) {
    const std::string text = kernel_with("gfx942", std::string(".amdhsa_") + value + "\n");
    CHECK_MESSAGE(contains(error_of([&] { amd::Module::from_assembly(text); }), "is possible"), value);
  }
}

TEST_CASE("findings name the source line") {
  if (!toolchain()) return;
  const std::string source =
      "#define KERNEL extern \"C\" __attribute__((global)) void\n"
      "KERNEL far(int* y) {\n"
      "  const int t = (int)__builtin_amdgcn_workitem_id_x();\n"
      "  y[t] = 1;\n"
      "  y[t + 100] = 2;\n"
      "}\n";
  for (const std::string& target : kTargets) {
    for (const bool assembly : {false, true}) {
      const auto bytes = compile_text(source, target, assembly, "-gline-tables-only");
      const auto module =
          assembly ? amd::Module::from_assembly(text_of(bytes)) : amd::Module::from_code_object(bytes);
      Device d;
      const auto report =
          amd::launch(d.memory, module, launch_of({}, {64, 1, 1}, {arg(d.reserve<int>(64, "y"))}));
      REQUIRE(report.findings.size() == 1);
      CHECK(report.findings[0].kind == "out-of-bounds");
      CHECK(report.findings[0].site.source_line == 5);
      CHECK(contains(report.findings[0].site.source_file, ".hip"));
      CHECK(contains(report.findings[0].site.ptx_text, "global_store"));
      CHECK(contains(report.findings[0].message, "'y'"));
    }
  }
}

TEST_CASE("unknown instructions are named with address and text") {
  if (!toolchain()) return;
  const auto module = kernel_from_assembly("v_cubeid_f32 v1, v0, v0, v0\n", "gfx942");
  Device d;
  const auto p = d.reserve<int>(64, "p");
  const std::string error = error_of([&] {
    amd::launch(d.memory, module, launch_of({}, {64, 1, 1}, {arg(p), arg(p)}));
  });
  CHECK(contains(error, "unsupported instruction at 0x"));
  CHECK(contains(error, "kernel 'k'"));
  CHECK(contains(error, "v_cubeid_f32 v1, v0, v0, v0"));
  CHECK(contains(error_of([] { amd::Module::from_assembly("\tv_add_u32 v1, v0, bogus\n"); }),
                 "assembly line 1: cannot read 'bogus'"));
}

TEST_CASE("bytes that are no code object give one clear line") {
  CHECK(contains(error_of([] { amd::Module::from_code_object({}); }), "no ELF header"));
  std::vector<std::byte> elf(64);
  std::memcpy(elf.data(),
              "\x7f"
              "ELF\2\1\1\0",
              8);
  CHECK(contains(error_of([&] { amd::Module::from_code_object(elf); }), "not for amdgcn-amd-amdhsa"));
  if (!toolchain()) return;
  const auto good = compile_program("reduce", "gfx90a");
  // Cut anywhere, or with bytes changed: an error or a module, never a crash.
  int loaded = 0;
  for (std::size_t length = 0; length < good.size(); length += 97) {
    const std::string error = error_of([&] { amd::Module::from_code_object(std::span(good).first(length)); });
    loaded += error == "no error";
  }
  CHECK(loaded == 0);
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    auto bytes = good;
    // Not the code: LLVM itself is not the subject.
    for (int k = 0; k < 4; ++k) bytes[random.next() % 0x600] = static_cast<std::byte>(random.next());
    const std::string error = error_of([&] { amd::Module::from_code_object(bytes); });
    CHECK(!error.empty());
  }
}

TEST_CASE("garbled assembly gives an error or a report, never a crash" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  Random random(3);
  int ran = 0, refused = 0;
  for (const std::string program : {"reduce", "gemm_mfma", "private_array", "dma_copy"}) {
    const std::string good = text_of(compile_program(program, "gfx942", true));
    for (int i = 0; i < 150; ++i) {
      std::string text = good;
      for (int k = 0; k < 3; ++k) {
        const std::size_t at = random.next() % text.size();
        switch (random.next() % 3) {
          case 0:
            text[at] = "0123456789:[],vsa-"[random.next() % 18];
            break;
          case 1:
            text.erase(at, 1 + random.next() % 4);
            break;
          default:
            text.insert(at, good.substr(random.next() % good.size(), random.next() % 12));
        }
      }
      const std::string error = error_of([&] {
        const auto module = amd::Module::from_assembly(text);
        Device d;
        const auto p = d.upload(std::vector<std::uint32_t>(4096, 1), "p");
        auto l = launch_of({}, {64, 1, 1}, {});
        l.kernarg.resize(256);
        for (std::size_t w = 0; w < 256; w += 8) std::memcpy(l.kernarg.data() + w, &p, 8);
        l.instruction_budget = 20000;
        l.policy = static_cast<emu::Policy>(i % 3);
        amd::launch(d.memory, module, l);
      });
      CHECK(!error.empty());
      ++(error == "no error" ? ran : refused);
    }
  }
  CHECK(ran > 20);
  CHECK(refused > 20);
}

TEST_CASE("illegal launches are refused") {
  if (!toolchain()) return;
  const auto module = amd::Module::from_code_object(compile_program("reduce", "gfx90a"), "m");
  Device d;
  const auto p = d.reserve<float>(256, "p");
  const std::vector<std::vector<std::byte>> args = {arg(p), arg(p), arg(1)};
  const auto error = [&](const amd::Launch& l) {
    return error_of([&] { amd::launch(d.memory, module, l); });
  };
  CHECK(contains(error(launch_of({}, {512, 1, 1}, args)), "allows 256"));
  CHECK(contains(error(launch_of({0, 1, 1}, {256, 1, 1}, args)), "empty grid"));
  CHECK(contains(error(launch_of({}, {256, 1, 1}, {arg(p)})), "more arguments than the 1 given"));
  CHECK(contains(error(launch_of({}, {256, 1, 1}, {arg(p), arg(p), arg(p)})), "has 4 bytes, 8 given"));
  auto l = launch_of({}, {256, 1, 1}, args);
  l.kernel = "nothing";
  CHECK(contains(error(l), "'m' has no kernel 'nothing'"));
  l.kernel = "reduce";
  l.dynamic_lds_bytes = 64 * 1024;
  CHECK(contains(error(l), "66560 bytes of LDS, the target has 65536"));
  auto packed = launch_of({}, {256, 1, 1}, {});
  packed.kernarg.resize(10);
  CHECK(contains(error(packed), "needs 16 bytes of arguments, 10 given"));
}

TEST_CASE("without LLVM the error says what to do") {
  if (!toolchain()) return;
  if (std::getenv("KILN_TEST_NO_LLVM") != nullptr) return;  // the child below
  const auto run = [](const std::string& environment) {
    char path[4096];
    const auto n = readlink("/proc/self/exe", path, sizeof path - 1);
    REQUIRE(n > 0);
    path[n] = '\0';
    return std::system((environment + " " + path + " -tc='no LLVM: child' > /dev/null").c_str());
  };
  CHECK(run("KILN_TEST_NO_LLVM=1 KILN_LLVM=/nonexistent/libLLVM.so") == 0);
}
TEST_CASE("no LLVM: child") {
  if (std::getenv("KILN_TEST_NO_LLVM") == nullptr) return;
  const auto info = kiln::code_object::disassembler_info();
  CHECK(!info.found);
  CHECK(contains(info.error, "no LLVM library with the AMDGPU target was found"));
  CHECK(contains(info.error, "KILN_LLVM"));
}

TEST_CASE("narrow floats: every pattern survives, rounding is to nearest even") {
  using amd::Mini;
  for (const Mini m :
       {Mini::e4m3, Mini::e5m2, Mini::e2m3, Mini::e3m2, Mini::e2m1, Mini::e4m3fnuz, Mini::e5m2fnuz}) {
    const int count = 1 << amd::mini_bits(m);
    std::vector<float> finite;
    for (int i = 0; i < count; ++i) {
      const float v = amd::mini_to_f32(m, static_cast<std::uint8_t>(i));
      if (v != v) continue;
      CHECK(static_cast<int>(amd::f32_to_mini(m, v)) == i);
      if (v >= 0 && v < 1e30F) finite.push_back(v);
    }
    std::sort(finite.begin(), finite.end());
    for (std::size_t i = 0; i + 1 < finite.size(); ++i) {
      const float middle = (finite[i] + finite[i + 1]) / 2;
      const auto even = amd::f32_to_mini(m, middle);
      CHECK((even & 1) == 0);
      CHECK(amd::mini_to_f32(m, amd::f32_to_mini(m, std::nextafter(middle, 1e30F))) == finite[i + 1]);
      CHECK(amd::mini_to_f32(m, amd::f32_to_mini(m, std::nextafter(middle, -1e30F))) == finite[i]);
    }
  }
  CHECK(amd::mini_to_f32(Mini::e4m3fnuz, 0x7f) == 240.0F);
  CHECK(amd::mini_to_f32(Mini::e4m3, 0x7e) == 448.0F);
  CHECK(amd::mini_to_f32(Mini::e5m2fnuz, 0x7f) == 57344.0F);
  CHECK(amd::mini_to_f32(Mini::e5m2, 0x7b) == 57344.0F);
  CHECK(amd::mini_to_f32(Mini::e2m1, 7) == 6.0F);
  CHECK(std::isnan(amd::mini_to_f32(Mini::e4m3fnuz, 0x80)));
  CHECK(amd::f32_to_mini(Mini::e4m3fnuz, -0.0F) == 0);
  CHECK(amd::f32_to_mini(Mini::e4m3fnuz, 1000.0F) == 0x80);
  CHECK(amd::f32_to_mini(Mini::e4m3, 1000.0F, true) == 0x7e);
}

TEST_CASE("LDS conflicts follow the documented phases") {
  // Operand reads: lane l takes row l % rows, 16-byte chunk c0 + l / rows, with and without the published
  // swizzles.
  struct Case {
    const char* target;
    int row_bytes, rows, shift, mask;
    bool clean;
  };
  const Case cases[] = {
      {"gfx942", 64, 32, 1, 3, true},   {"gfx942", 128, 32, 0, 7, true},  {"gfx942", 256, 32, 0, 7, true},
      {"gfx942", 512, 32, 0, 7, true},  {"gfx950", 64, 32, 2, 3, true},   {"gfx950", 64, 16, 1, 3, true},
      {"gfx950", 128, 32, 1, 7, true},  {"gfx950", 256, 32, 0, 15, true}, {"gfx950", 512, 32, 0, 15, true},
      {"gfx942", 64, 32, 2, 3, false},  // the 64-bank rule does not serve 32 banks
      {"gfx942", 128, 32, 0, 0, false}, {"gfx950", 256, 32, 0, 0, false}, {"gfx950", 64, 32, 0, 0, false},
  };
  for (const Case& c : cases) {
    CAPTURE(c.target);
    CAPTURE(c.row_bytes);
    CAPTURE(c.shift);
    std::vector<std::uint32_t> offsets(64);
    for (int l = 0; l < 64; ++l) {
      const int row = l % c.rows, chunk = l / c.rows ^ (row >> c.shift & c.mask);
      offsets[static_cast<std::size_t>(l)] = static_cast<std::uint32_t>(row * c.row_bytes + 16 * chunk);
    }
    CHECK((amd::lds_conflicts(c.target, offsets, 16, false) == 0) == c.clean);
  }
  std::vector<std::uint32_t> same(64, 128), column(64);
  for (std::uint32_t l = 0; l < 64; ++l) column[l] = 128 * l;
  CHECK(amd::lds_conflicts("gfx90a", same, 4, false) == 0);     // one dword is broadcast
  CHECK(amd::lds_conflicts("gfx90a", column, 4, false) == 62);  // two phases of 32 lanes on one bank
}
