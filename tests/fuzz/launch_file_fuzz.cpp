// Any text is a launch file of `kiln emulate` or a bad_input Error. What is one makes its arrays and tensor maps and
// runs, a kernel of PTX that is there under the names "scale.ptx" and "map.ptx", to its end, to a finding or to an
// Error.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <kiln/error.hpp>

#include "cli/execute/emulate_session.hpp"

namespace {

constexpr std::string_view kHead = ".version 8.7\n.target sm_90a\n.address_size 64\n";
constexpr std::string_view kScale = R"(.global .align 4 .f32 factor = 2.0;
.visible .entry scale(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<3>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1; @%p1 ret;
  mul.wide.u32 %rd3, %r5, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4]; ld.global.f32 %f2, [factor]; mul.f32 %f1, %f1, %f2; st.global.f32 [%rd5], %f1;
  ret;
}
)";
constexpr std::string_view kMap = R"(.visible .entry k(.param .align 64 .b8 map[128])
{
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<3>;
  .shared .align 128 .b8 s[4096];
  .shared .align 8 .b64 bar;
  mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r3, bar; setp.eq.u32 %p1, %r1, 0;
  mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
  @%p1 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;
  @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {4, 2}], [%r3];
W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;
  ret;
}
)";

/// Whether the text asks for an array of some size: memory is another test's.
bool is_large(const std::string& text) {
  double elements = 1;
  for (std::size_t at = std::min(text.find('['), text.size()); at < text.size();) {
    if (std::isdigit(static_cast<unsigned char>(text[at])) == 0) {
      ++at;
      continue;
    }
    double number = 0;
    for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at)
      number = number * 10 + (text[at] - '0');
    elements *= number;
  }
  return elements > 1e6 && elements < 0x1p33;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace cli = kiln::cli;
  try {
    const cli::LaunchFile file = cli::parse_launch_file({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const auto& [name, text] : file.buffers)
      if (is_large(text)) return 0;
    for (const auto& launch : file.launches)
      for (const std::string& text : launch.args)
        if (is_large(text)) return 0;
    cli::EmulateOptions options;
    options.policy = size % 3 == 0 ? "eager" : size % 3 == 1 ? "lazy" : "random";
    options.threads = 1;
    options.budget = 2000;
    cli::EmulateSession session(options, file,
                                {{"scale.ptx", std::string(kHead) + std::string(kScale)},
                                 {"map.ptx", std::string(kHead) + std::string(kMap)}});
    for (const auto& launch : file.launches) session.run(launch);
    session.outputs();
  } catch (const kiln::Error& error) {
    if (error.code() == kiln::ErrorCode::bad_input || error.code() == kiln::ErrorCode::environment) return 0;
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}
