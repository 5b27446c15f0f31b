// Atomics of global memory that are no atom or red: reductions of surfaces, of multicast memory, and of bulk copies. Each
// meets plain accesses of another block, and none meets its like.
#include <doctest/doctest.h>

#include <kiln/emulator/textures.hpp>
#include "emulator/machine/memory.hpp"
#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

/// Two blocks; %p3: block 0. `data`: 1024 words of 0, `team`: a multicast object that it is bound to.
struct Strong {
  GlobalMemory memory;
  std::uint64_t data = memory.allocate(4096, "data"), team = 1ull << 60, surface = 0;

  Strong() {
    memory.fill(data, std::byte{0}, 4096);
    memory.impl().multicast[team] = {4096, data};
    surface =
        create_surface(memory, {ImageShape::one, ChannelFormat::u32, 1, {{data, 1024, 1, 1, 4096, 4096}}});
  }
  Outcome run(const std::string& block0, const std::string& block1, Policy p) {
    const std::string text =
        shared_kernel("mov.u32 %r20, %ctaid.x; setp.eq.u32 %p3, %r20, 0; mov.u64 %d1, " +
                      std::to_string(team) + "; mov.u64 %d2, " + std::to_string(surface) +
                      "; mul.wide.u32 %d3, %t, 4; add.u64 %d3, %d3, %in;\n@%p3 bra FIRST;\n" + block1 +
                      "\nbra END;\nFIRST:\n" + block0 + "\nEND:");
    Launch l;
    l.grid = {2, 1, 1};
    l.block = {32, 1, 1};
    l.policy = p;
    l.args = {bytes_of(data), bytes_of(data)};
    Outcome o;
    o.report = launch(memory, Module::from_ptx(text), l);
    o.out.resize(1);
    memory.read(data, std::as_writable_bytes(std::span(o.out)));
    return o;
  }
};

const char* const kReduceSurface = "@%p1 sured.b.add.1d.u32.trap [%d2, {0}], 5;";
const char* const kReduceTeam = "@%p1 multimem.red.relaxed.gpu.global.add.u32 [%d1], 5;";
const std::string kFill = "mov.u32 %r5, 5; st.shared.u32 [%r1], %r5; fence.proxy.async; bar.warp.sync -1;\n";
const std::string kReduceBulk =
    kFill +
    "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%in], [%r3], 128;\n"
    "@%p1 cp.async.bulk.commit_group;\n";
const char* const kDone = "@%p1 cp.async.bulk.wait_group 0;\n";

}  // namespace

TEST_CASE("reductions of surfaces, multicast memory and bulk copies meet plain accesses of another block") {
  for (const Policy p : kPolicies)
    for (const std::string& reduce :
         {std::string(kReduceSurface), std::string(kReduceTeam), kReduceBulk + kDone}) {
      INFO(reduce);
      const Outcome together = Strong().run(reduce, reduce, p);
      clean(together);
      CHECK(together.out[0] == 10);
      clean(Strong().run(reduce, "@%p1 red.global.add.u32 [%in], 1;", p));
      clean(Strong().run(reduce, "@%p1 ld.relaxed.gpu.global.u32 %r6, [%in];", p));
      clean(Strong().run(reduce, "@%p1 st.global.u32 [%in+2048], 1;", p));
      finds("global-race", Strong().run(reduce, "@%p1 st.global.u32 [%in], 1;", p));
      finds("global-race", Strong().run(reduce, "@%p1 ld.global.u32 %r6, [%in];", p));
    }
}

TEST_CASE("a bulk reduction's result is read when its group has ended") {
  const std::string get = "@%p1 ld.global.u32 %r6, [%in];";
  for (const Policy p : kPolicies) {
    clean(Strong().run(kReduceBulk + kDone + get, "", p));
    finds("global-race", Strong().run(kReduceBulk + get, "", p));
    finds("global-race", Strong().run(kReduceBulk + "@%p1 cp.async.bulk.wait_group.read 0;\n" + get, "", p));
  }
}

TEST_CASE("strong stores and loads of multicast memory meet plain accesses of another block") {
  const std::string store = "@%p1 multimem.st.relaxed.gpu.global.u32 [%d1], 7;",
                    load = "@%p1 multimem.ld_reduce.relaxed.gpu.global.add.u32 %r6, [%d1];";
  for (const Policy p : kPolicies) {
    clean(Strong().run(store, load, p));
    finds("global-race", Strong().run(store, "@%p1 ld.global.u32 %r6, [%in];", p));
    finds("global-race", Strong().run(load, "@%p1 st.global.u32 [%in], 1;", p));
  }
}

TEST_CASE("equal values of two blocks may meet in surfaces and multicast memory") {
  const auto surface = [](int value) {
    return "@%p1 sust.b.1d.b32.trap [%d2, {0}], " + std::to_string(value) + ";";
  };
  const auto team = [](int value) {
    return "@%p1 multimem.st.weak.global.u32 [%d1], " + std::to_string(value) + ";";
  };
  for (const Policy p : kPolicies) {
    clean(Strong().run(surface(3), surface(3), p));
    clean(Strong().run(team(3), team(3), p));
    finds("global-race", Strong().run(surface(3), surface(4), p));
    finds("global-race", Strong().run(team(3), team(4), p));
  }
}
