// emulate: a kernel from text, arrays in and out, and what it did wrong.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "runtime/problem/npy.hpp"
#include "tests/cli/command.hpp"

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

TEST_CASE("text that is no PTX is refused with its line") {
  std::ofstream(scratch() + "bad.ptx") << ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry "
                                          "k()\n{\n  frobnicate.u32 %r1, %r2;\n  ret;\n}\n";
  const auto result = run_kiln("emulate bad.ptx");
  CHECK(result.status == 2);
  CHECK(is_one_line(result.err));
  CHECK(result.err.find("bad.ptx:6") != std::string::npos);
}
