// emulate: a kernel from text, arrays in and out, and what it did wrong.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/cli/command.hpp"
#include "workbench/files/npy.hpp"

using kiln::test::is_one_line;
using kiln::test::run_kiln;
using kiln::test::scratch;

namespace {

// y[i] = a * x[i] for i < n, one thread an element.
const char* const kScale = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 a)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  ld.param.f32 %f1, [a];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  mul.f32 %f3, %f1, %f2;
  st.global.f32 [%rd5], %f3;
DONE:
  ret;
}
)";

}  // namespace

TEST_CASE("an architecture that there is not is one line, with the nearest one") {
  std::ofstream(scratch() + "nothing.cu") << "extern \"C\" __global__ void nothing() {}\n";
  for (const auto& [name, near] : {std::pair{"sm_77", "'sm_75'"},
                                   {"sm_92", "'sm_90'"},
                                   {"90", "'sm_90'"},
                                   {"compute_80", "'sm_80'"},
                                   {"sm_80a", "'sm_80'"},
                                   {"sm_090", "'sm_90'"}}) {
    CAPTURE(name);
    const auto refused = run_kiln("emulate nothing.cu --block 32 --arch " + std::string(name));
    CHECK(refused.status == 2);
    CHECK(is_one_line(refused.err));
    CHECK(refused.err.find("--arch: no '" + std::string(name) + "'; did you mean " + near) !=
          std::string::npos);
    CHECK(refused.err.find("there are sm_75, sm_80") != std::string::npos);
  }
  for (const char* name : {"foo", "sm_", "gfx"}) {
    const auto refused = run_kiln("emulate nothing.cu --block 32 --arch " + std::string(name));
    CHECK(refused.status == 2);
    CHECK(is_one_line(refused.err));
    CHECK(refused.err.find("did you mean") == std::string::npos);
  }
  const auto program = run_kiln("emulate --arch sm_91 -- /bin/true");
  CHECK(program.status == 2);
  CHECK(program.err ==
        "kiln: --arch: no 'sm_91'; did you mean 'sm_90'? there are sm_75, sm_80, sm_86, sm_89, sm_90, "
        "sm_100, sm_103\n");
  CHECK(run_kiln("emulate nothing.cu --block 32 --arch sm_90a").status == 0);
}

TEST_CASE("emulate compiles CUDA C++ first") {
  std::ofstream(scratch() + "twice.cu")
      << R"(extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
)";
  std::vector<float> x(100, 1.5F);
  kiln::write_npy(scratch() + "ones.npy", kiln::npy_from_floats({100}, x));
  const std::string base =
      "emulate twice.cu --grid 2 --block 64 --arg in:ones.npy --arg 'out:f32[100]:twice.npy' ";
  for (const char* architecture : {"", "--arch sm_80 ", "--arch sm_100 "}) {
    const auto result = run_kiln(base + architecture + "--arg u32:100 --json");
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(kiln::to_floats(kiln::read_npy(scratch() + "twice.npy"))[99] == 3.0F);
  }
  // A finding is on the line of the source.
  const auto beyond = run_kiln(base + "--arg u32:128");
  CHECK(beyond.status == 1);
  CHECK_MESSAGE(beyond.out.find("twice.cu:3") != std::string::npos, beyond.out);
  CHECK(run_kiln("emulate twice.cu --block 64 --mutate --kinds bound-off-by-one --arg in:ones.npy --arg "
                 "'zeros:f32[100]:z.npy' --arg u32:64")
            .status != 2);

  std::ofstream(scratch() + "wrong.cu")
      << "extern \"C\" __global__ void wrong() {\n  nothing();\n  more();\n}\n";
  const auto refused = run_kiln("emulate wrong.cu");
  CHECK(refused.status == 1);
  CHECK_MESSAGE(
      refused.err.starts_with("kiln: wrong.cu:2: error: identifier \"nothing\" is undefined (NVRTC "),
      refused.err);
  CHECK_MESSAGE(refused.err.ends_with(", the first of 2 errors)\n"), refused.err);
  CHECK(is_one_line(refused.err));
  const auto all = run_kiln("emulate wrong.cu", "", "KILN_LOG=debug");
  CHECK_MESSAGE(all.err.find("identifier \"more\" is undefined") != std::string::npos, all.err);
}

TEST_CASE("emulate runs any kernel on arrays") {
  std::ofstream(scratch() + "scale.ptx") << kScale;
  std::vector<float> x(100);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  kiln::write_npy(scratch() + "x.npy", kiln::npy_from_floats({100}, x));
  const std::string base =
      "emulate scale.ptx --grid 2 --block 64,1,1 --arg in:x.npy --arg 'out:f32[10,10]:y.npy' ";
  const auto result = run_kiln(base + "--arg u32:100 --arg f32:2.5 --json");
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const auto document = result.json();
  CHECK(document["instructions"].get<int>() > 20);
  CHECK(document["bank_conflicts"] == 0);
  CHECK(document["findings"].empty());
  const auto y = kiln::read_npy(scratch() + "y.npy");
  CHECK(y.shape == std::vector<std::int64_t>{10, 10});
  CHECK(kiln::to_floats(y)[99] == 247.5F);

  // Out of bounds by 28 elements: a finding, and status 1.
  const auto beyond = run_kiln(base + "--arg u32:128 --arg f32:1 --json");
  CHECK(beyond.status == 1);
  CHECK(!beyond.json()["findings"].empty());

  // As text: what, where in the PTX with carets, and no colour outside a terminal.
  const auto text = run_kiln(base + "--arg u32:128 --arg f32:1");
  CHECK(text.status == 1);
  CHECK(text.out.find("out-of-bounds: read of 4 bytes") != std::string::npos);
  CHECK(text.out.find("--> scale.ptx:") != std::string::npos);
  CHECK(text.out.find("ld.global.f32") != std::string::npos);
  CHECK(text.out.find(" | ") != std::string::npos);
  CHECK(text.out.find("^~~~") != std::string::npos);
  CHECK(text.out.find('\x1b') == std::string::npos);
  // Without findings it is only run; what stops a kernel still does.
  CHECK(run_kiln(base + "--arg u32:100 --arg f32:2 --findings off --threads 1").status == 0);

  for (const char* bad : {"--arg u32:100", "--arg u64:100 --arg f32:1", "--arg u32:x --arg f32:1",
                          "--arg q8:1 --arg f32:1", "--arg u32:1 --arg in:none.npy"}) {
    const auto refused = run_kiln(base + bad);
    CHECK(refused.status == 2);
    CHECK_MESSAGE(is_one_line(refused.err), refused.err);
  }
  CHECK(run_kiln("emulate scale.ptx --kernel other").status == 2);
  CHECK(run_kiln("emulate scale.ptx --grid 0").status == 2);
}

TEST_CASE("arrays that go in and out, zeros, and structures with pointers") {
  std::ofstream(scratch() + "scale.ptx") << kScale;
  // The same kernel with its arguments in one structure of 24 bytes.
  std::string packed = kScale;
  const std::size_t open = packed.find('('), close = packed.find(')', open);
  packed.replace(open, close - open + 1, "(.param .align 8 .b8 args[24])");
  for (const auto& [from, to] :
       {std::pair{"[x]", "[args]"}, {"[y]", "[args+8]"}, {"[n]", "[args+16]"}, {"[a]", "[args+20]"}}) {
    REQUIRE_MESSAGE(packed.find(from) != std::string::npos, from);
    packed.replace(packed.find(from), std::string(from).size(), to);
  }
  std::ofstream(scratch() + "packed.ptx") << packed;
  std::vector<float> x(100, 3.0F);
  kiln::write_npy(scratch() + "io.npy", kiln::npy_from_floats({100}, x));
  const std::string base = " --grid 2 --block 64 --arg ";
  auto result =
      run_kiln("emulate scale.ptx" + base + "in:io.npy --arg inout:io.npy --arg u32:50 --arg f32:2");
  CHECK_MESSAGE(result.status == 0, result.err);
  auto values = kiln::to_floats(kiln::read_npy(scratch() + "io.npy"));
  CHECK(values[49] == 6.0F);
  CHECK(values[50] == 3.0F);
  result = run_kiln("emulate scale.ptx" + base +
                    "in:io.npy --arg 'zeros:f32[100]:z.npy' --arg u32:50 --arg f32:2");
  CHECK_MESSAGE(result.status == 0, result.err);
  values = kiln::to_floats(kiln::read_npy(scratch() + "z.npy"));
  CHECK(values[0] == 12.0F);
  CHECK(values[50] == 0.0F);
  {
    const std::uint32_t words[6] = {0, 0, 0, 0, 100, 0x40000000u};
    std::ofstream(scratch() + "args.bin", std::ios::binary).write(reinterpret_cast<const char*>(words), 24);
  }
  result = run_kiln("emulate packed.ptx" + base + "'bytes:args.bin@0=in:io.npy@8=out:f32[100]:s.npy'");
  CHECK_MESSAGE(result.status == 0, result.err);
  CHECK(kiln::to_floats(kiln::read_npy(scratch() + "s.npy"))[99] == 6.0F);
  for (const char* wrong :
       {"bytes:args.bin@20=in:io.npy", "bytes:args.bin@0=u32:5",
        "bytes:args.bin@18446744073709551608=in:io.npy", "bytes:args.bin@0=in:io.npy@0=in:io.npy",
        "bytes:args.bin@x=in:io.npy", "bytes:none.bin", "buffer:x", "map:x"}) {
    const auto refused = run_kiln("emulate packed.ptx" + base + "'" + wrong + "'");
    CHECK(refused.status == 2);
    CHECK_MESSAGE(is_one_line(refused.err), refused.err);
  }
}

TEST_CASE("a launch file: several launches that share memory") {
  std::ofstream(scratch() + "scale.ptx") << kScale;
  kiln::write_npy(scratch() + "x.npy", kiln::npy_from_floats({100}, std::vector<float>(100, 1.5F)));
  const std::string launch =
      R"({"kernel": "scale", "grid": [2], "block": 64, "args": ["buffer:FROM", "buffer:TO", "u32:100", "f32:2"]})";
  const auto from_to = [&](const std::string& from, const std::string& to) {
    std::string text = launch;
    text.replace(text.find("FROM"), 4, from);
    return text.replace(text.find("TO"), 2, to);
  };
  const std::string head =
      R"({"module": "scale.ptx", "sms": 8, "buffers": {"x": "in:x.npy", "t": "out:f32[100]",
    "y": "out:f32[100]:y.npy"}, "launches": [)";
  std::ofstream(scratch() + "two.json") << head << from_to("x", "t") << "," << from_to("t", "y") << "]}";
  const auto result = run_kiln("emulate two.json --json");
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(result.json()["launches"].size() == 2);
  CHECK(kiln::to_floats(kiln::read_npy(scratch() + "y.npy"))[99] == 6.0F);
  // Without the first launch its memory was never written.
  std::ofstream(scratch() + "one.json") << head << from_to("t", "y") << "]}";
  const auto unwritten = run_kiln("emulate one.json --json");
  CHECK(unwritten.status == 1);
  CHECK(unwritten.json()["findings"][0]["kind"] == "uninitialized-read");
  CHECK(unwritten.json()["findings"][0]["severity"] == "error");
  for (const char* wrong :
       {R"({"launches": []})", R"({"module": "scale.ptx", "launches": [{"gird": [1]}]})", R"({"module": 5})",
        "[", R"({"module": "scale.ptx", "launches": [{"args": ["buffer:x"]}]})",
        R"({"module": "scale.ptx", "buffers": {"x": "u32:5"}, "launches": [{}]})",
        R"({"module": "scale.ptx", "variables": {"none": "x.npy"}, "launches": [{}]})",
        R"({"module": "scale.ptx", "tensor_maps": {"m": {"buffer": "x", "dims": [8]}}, "launches": [{}]})"}) {
    std::ofstream(scratch() + "wrong.json") << wrong;
    const auto refused = run_kiln("emulate wrong.json");
    CHECK_MESSAGE(refused.status == 2, wrong);
    CHECK_MESSAGE(is_one_line(refused.err), refused.err);
  }
}

TEST_CASE("a launch file: numbers that 32 or 64 bits do not hold are no others") {
  std::ofstream(scratch() + "scale.ptx") << kScale;
  const std::string head = R"({"module": "scale.ptx", "buffers": {"x": )";
  for (const auto& [rest, words] : {
           std::pair{R"("zeros:f32[4294967296,4294967296]"}, "launches": [{}]})", "more than 2^32 elements"},
           std::pair{R"("zeros:f32[16,16]"}, "tensor_maps": {"m": {"buffer": "x", "type": "f32",
               "dims": [16, 16], "strides": [64], "box": [4294967304, 4]}}, "launches": [{}]})",
                     "box[0] = 4294967304 is no number from 0 to 4294967295"},
           std::pair{R"("zeros:f32[100]"}, "launches": [{"block": [4194304, 4194304, 1048576],
               "args": ["buffer:x", "buffer:x", "u32:100", "f32:2"]}]})",
                     "exceeds 1024"},
       }) {
    std::ofstream(scratch() + "wide.json") << head << rest;
    const auto refused = run_kiln("emulate wide.json");
    CHECK_MESSAGE(refused.status == 2, rest);
    CHECK_MESSAGE(refused.err.find(words) != std::string::npos, refused.err);
    CHECK_MESSAGE(is_one_line(refused.err), refused.err);
  }
}

TEST_CASE("a launch file: initial values of variables, and tensor maps") {
  std::ofstream(scratch() + "map.ptx") << R"(.version 8.7
.target sm_90a
.address_size 64
.const .align 4 .f32 factor;
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 y)
{
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>;
  .shared .align 128 .b8 s[128];
  .shared .align 8 .b64 bar;
  mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r3, bar; setp.eq.u32 %p1, %r1, 0;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [y];
  @%p1 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;
  @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {4, 2}], [%r3];
W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;
  mul.lo.u32 %r4, %r1, 4; add.u32 %r4, %r4, %r2; ld.shared.f32 %f1, [%r4]; ld.const.f32 %f2, [factor];
  mul.f32 %f1, %f1, %f2; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd3, %rd3, %rd2; st.global.f32 [%rd3], %f1;
  ret;
}
)";
  std::vector<float> x(16 * 16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  kiln::write_npy(scratch() + "x.npy", kiln::npy_from_floats({16, 16}, x));
  kiln::write_npy(scratch() + "factor.npy", kiln::npy_from_floats({1}, std::vector<float>{0.5F}));
  std::ofstream(scratch() + "map.json") << R"({"module": "map.ptx", "buffers": {"x": "in:x.npy"},
    "variables": {"factor": "factor.npy"},
    "tensor_maps": {"m": {"buffer": "x", "type": "f32", "dims": [16, 16], "strides": [64], "box": [8, 4]}},
    "launches": [{"block": 32, "args": ["map:m", "out:f32[4,8]:y.npy"]}]})";
  const auto result = run_kiln("emulate map.json");
  REQUIRE_MESSAGE(result.status == 0, (result.err + result.out));
  const auto y = kiln::to_floats(kiln::read_npy(scratch() + "y.npy"));
  for (std::size_t i = 0; i < 32; ++i) CHECK(y[i] == 0.5F * static_cast<float>((2 + i / 8) * 16 + 4 + i % 8));
}

TEST_CASE("mutants of any kernel: what findings and results tell of") {
  // Each thread hands its value to the one 32 further on; a second barrier does nothing.
  std::ofstream(scratch() + "swap.ptx") << R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry other(.param .u64 x) { bar.sync 0; ret; }
.visible .entry swap(.param .u64 x)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  .shared .align 4 .b8 s[256];
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, s;
  add.u32 %r4, %r3, %r2;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  xor.b32 %r2, %r2, 128;
  add.u32 %r4, %r3, %r2;
  ld.shared.u32 %r5, [%r4];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r5;
  bar.sync 0;
  ret;
}
)";
  const std::string launch = "emulate " + scratch() +
                             "swap.ptx --kernel swap --block 64 --arg out:u32[64]:" + scratch() + "swap.npy";
  const auto report = run_kiln(launch + " --mutate");
  CHECK(report.status == 1);
  CHECK(report.out.find("1 of 2 mutants killed") !=
        std::string::npos);  // that of `other` is no mutant of swap
  CHECK(report.out.find("survives barrier-removed, removed: bar.sync 0;") != std::string::npos);
  const auto json = run_kiln(launch + " --mutate --all-mutants --json");
  CHECK(json.out.find("\"killed\": 1") != std::string::npos);
  CHECK(json.json()["list"].size() == 2);
  CHECK(json.json()["list"][0]["killed_by"].get<std::string>().find(" (lazy)") != std::string::npos);
  CHECK(run_kiln(launch + " --mutate --only mbarrier").status == 0);
  // A program with findings of its own has no mutants to speak of.
  const auto faulty =
      run_kiln("emulate " + scratch() + "swap.ptx --kernel swap --block 64 --arg out:u32[8]:" + scratch() +
               "swap.npy --mutate");
  CHECK(faulty.status == 2);
  CHECK(faulty.err.find("out-of-bounds") != std::string::npos);
}

TEST_CASE("machine code of NVIDIA is refused with the reason") {
  std::string cubin(64, '\0');
  cubin.replace(0, 4,
                "\x7f"
                "ELF");
  cubin[18] = static_cast<char>(190);
  std::ofstream(scratch() + "k.cubin", std::ios::binary) << cubin;
  const auto result = run_kiln("emulate k.cubin");
  CHECK(result.status == 2);
  CHECK(is_one_line(result.err));
  CHECK(result.err.find("cubin") != std::string::npos);
  CHECK(result.err.find("PTX") != std::string::npos);
}

TEST_CASE("a fat binary is run by its PTX") {
  // As nvcc -fatbin -compress-mode=none lays it out: a header, and entries of machine code and of PTX.
  const auto put = [](std::string& to, auto value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto entry = [&](std::uint16_t kind, std::uint32_t arch, const std::string& code) {
    std::string e;
    put(e, kind), put(e, std::uint16_t{0x101}), put(e, std::uint32_t{64}), put(e, std::uint64_t{code.size()});
    put(e, std::uint64_t{0}), put(e, std::uint16_t{0}), put(e, std::uint16_t{8}), put(e, arch);
    e.resize(64);
    return e + code;
  };
  const auto file = [&](const std::string& entries) {
    std::string f;
    put(f, std::uint32_t{0xba55ed50}), put(f, std::uint16_t{1}), put(f, std::uint16_t{16});
    put(f, std::uint64_t{entries.size()});
    return f + entries;
  };
  const auto kernel = [](int arch, int value) {
    return fmt::format(
        ".version 8.0\n.target sm_{}\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n"
        "  .reg .b64 %d<2>;\n  ld.param.u64 %d1, [p];\n  st.global.u32 [%d1], {};\n  ret;\n}}\n",
        arch, value);
  };
  const auto run = [&](const std::string& name, const std::string& content) {
    std::ofstream(scratch() + name, std::ios::binary) << content;
    return run_kiln("emulate " + name + " --kernel k --arg out:u32[1] --json");
  };
  const std::string cubin = entry(2, 90, std::string(96, 'x'));
  const std::string whole = file(cubin + entry(1, 80, kernel(80, 1)) + entry(1, 90, kernel(90, 2)));
  const auto right = run("k.fatbin", whole);
  INFO(right.out, right.err);
  CHECK(right.status == 0);
  const auto machine = run("machine.fatbin", file(cubin));
  CHECK(machine.status == 2);
  CHECK(is_one_line(machine.err));
  CHECK(machine.err.find("no PTX") != std::string::npos);
  CHECK(run("short.fatbin", whole.substr(0, whole.size() - 9)).err.find("cut short") != std::string::npos);
  CHECK(run("header.fatbin", whole.substr(0, 11)).status == 2);
}

TEST_CASE("text that is no PTX is refused with its line") {
  std::ofstream(scratch() + "bad.ptx") << ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry "
                                          "k()\n{\n  frobnicate.u32 %r1, %r2;\n  ret;\n}\n";
  const auto result = run_kiln("emulate bad.ptx");
  CHECK(result.status == 2);
  CHECK(is_one_line(result.err));
  CHECK(result.err.find("bad.ptx:6") != std::string::npos);
}

TEST_CASE("what is no program is refused with what it should have been") {
  std::ofstream(scratch() + "scale.cpp")
      << "struct Parameters { int n; };\n__global__ void scale(Parameters p) {}\n";
  const auto result = run_kiln("emulate scale.cpp");
  CHECK(result.status == 2);
  CHECK(is_one_line(result.err));
  CHECK(result.err.find("ends in .cu") != std::string::npos);
}

TEST_CASE("kernels by their source names, narrow arguments, and outputs that cannot be written") {
  // void narrow(int *, signed char, short)
  std::ofstream(scratch() + "narrow.ptx") << R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry _Z6narrowPias(.param .u64 out, .param .u8 c, .param .u16 s)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  ld.param.s8 %r1, [c];
  ld.param.s16 %r2, [s];
  add.s32 %r3, %r1, %r2;
  st.global.u32 [%rd1], %r3;
  ret;
}
.visible .entry _Z6narrowPf(.param .u64 out) { ret; }
.visible .entry _Z5otherv() { ret; }
)";
  const std::string base = "emulate narrow.ptx --arg s32:1 --kernel ";
  CHECK(run_kiln("emulate narrow.ptx --kernel other").status == 0);
  CHECK(run_kiln("emulate narrow.ptx --kernel 'other()'").status == 0);
  const auto several = run_kiln(base + "narrow");
  CHECK(several.status == 2);
  CHECK(several.err.find("_Z6narrowPias, _Z6narrowPf") != std::string::npos);
  const std::string call = "emulate narrow.ptx --kernel 'narrow(int*, signed char, short)' --arg ";
  REQUIRE(run_kiln(call + "out:s32[1]:sum.npy --arg s8:-3 --arg s16:-300").status == 0);
  const kiln::NpyArray sum = kiln::read_npy(scratch() + "sum.npy");
  std::int32_t value = 0;
  REQUIRE(sum.data.size() == sizeof value);
  std::memcpy(&value, sum.data.data(), sizeof value);
  CHECK(value == -303);
  CHECK(run_kiln(call + "out:s32[1]:sum.npy --arg s8:-300 --arg s16:1").status == 2);
  const auto nowhere = run_kiln(call + "out:s32[1]:nowhere/sum.npy --arg s8:1 --arg s16:1");
  CHECK(nowhere.status == 2);
  CHECK(is_one_line(nowhere.err));
  CHECK(nowhere.err.find("no folder 'nowhere'") != std::string::npos);
}
