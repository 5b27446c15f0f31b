// The emulated device alone: runs a few lines of PTX, checks what they compute, and that a read of memory
// that nobody wrote is found.
#include <kiln/emulator/emulator.hpp>

#include <cstdio>
#include <cstring>

namespace em = kiln::emulator;

namespace {

constexpr const char* kPtx = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 data) {
  .reg .u32 %r<3>;
  .reg .u64 %rd<4>;
  ld.param.u64 %rd0, [data];
  cvta.to.global.u64 %rd1, %rd0;
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd2, %r0, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r1, [%rd3];
  add.u32 %r2, %r1, %r1;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

em::Report run(em::GlobalMemory& memory, std::uint64_t data) {
  em::Launch launch;
  launch.kernel = "twice";
  launch.block = {32, 1, 1};
  launch.args.emplace_back(sizeof data);
  std::memcpy(launch.args.back().data(), &data, sizeof data);
  return em::launch(memory, em::Module::from_ptx(kPtx), launch);
}

int fail(const char* what) {
  std::fprintf(stderr, "emulator_alone: %s\n", what);
  return 1;
}

}  // namespace

int main() {
  em::GlobalMemory memory;
  std::uint32_t values[32];
  for (std::uint32_t i = 0; i < 32; ++i) values[i] = i + 7;
  const std::uint64_t data = memory.allocate(sizeof values, "data");
  memory.write(data, std::as_bytes(std::span(values)));
  if (!run(memory, data).findings.empty()) return fail("findings in a correct run");
  memory.read(data, std::as_writable_bytes(std::span(values)));
  for (std::uint32_t i = 0; i < 32; ++i)
    if (values[i] != 2 * (i + 7)) return fail("a wrong result");

  const em::Report unwritten = run(memory, memory.allocate(sizeof values, "unwritten"));
  if (unwritten.findings.empty() || unwritten.findings.front().kind != "uninitialized-read")
    return fail("a read of unwritten memory was not found");
  return 0;
}
