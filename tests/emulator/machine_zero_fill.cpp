// st.bulk: zeros over shared memory, a weak store of the generic proxy.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

/// Two warps; before `fill` the bytes of `s` are 0xffffffff and known to all, after `after` each thread's word at
/// [%r1] goes out.
Outcome filled(const std::string& fill, const std::string& after = "bar.sync 0;\n",
               Policy policy = Policy::eager) {
  std::string ptx = shared_kernel(
      "mov.u32 %r20, -1; st.shared.u32 [%r1], %r20; bar.sync 0; mov.u64 %d2, 64; cvt.u64.u32 %d3, %r3;\n"
      "mov.u32 %r21, s; cvta.shared.u64 %d4, %d3;\n" +
      fill + after + "ld.shared.u32 %r22, [%r1]; st.global.u32 [%o], %r22;");
  ptx.replace(ptx.find("sm_90a"), 6, "sm_100");
  return run(ptx, {.block = {64, 1, 1}, .policy = policy});
}

}  // namespace

TEST_CASE("st.bulk sets a region to zero and nothing else") {
  for (const Policy policy : kPolicies)
    for (const char* fill :
         {"@%p1 st.bulk.weak.shared::cta [%r3+32], %d2, 0;\n",
          "@%p1 st.bulk.weak.shared::cta [%d3 + 32], 64, 0;\n", "@%p1 st.bulk [%d4+32], 64, 0;\n",
          "@%p1 st.bulk.weak [%d4+32], %d2, 0x0;\n", "@%p1 st.bulk.shared::cta.weak [s+32], %d2, 0;\n",
          "st.bulk.weak.shared::cta [%r3+32], %d2, 0;\n"}) {
      INFO(fill);
      const Outcome o = filled(fill, "bar.sync 0;\n", policy);
      clean(o);
      for (std::uint32_t i = 0; i < 64; ++i) CHECK(o.out[i] == (i >= 8 && i < 24 ? 0 : 0xffffffffu));
    }
  const Outcome nothing = filled("@%p1 st.bulk.weak.shared::cta [%r3], 0, 0;\n");
  clean(nothing);
  CHECK(nothing.out[0] == 0xffffffffu);
}

TEST_CASE("st.bulk initialises what it covers") {
  const auto read = [](const std::string& at) {
    std::string ptx =
        shared_kernel("@%p1 st.bulk.weak.shared::cta [%r3], 64, 0; bar.sync 0; ld.shared.u32 %r5, [%r3+" +
                      at + "]; st.global.u32 [%o], %r5;");
    ptx.replace(ptx.find("sm_90a"), 6, "sm_100");
    return run(ptx, {});
  };
  clean(read("60"));
  finds("uninitialized-read", read("64"));
}

TEST_CASE("st.bulk races as any store does, and the asynchronous proxy needs its fence") {
  const std::string fill = "@%p1 st.bulk.weak.shared::cta [%r3+128], 128, 0;\n";
  for (const Policy policy : kPolicies) {
    finds("shared-race", filled(fill, "", policy));
    const std::string copy =
        "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%out+1024], [%r3+128], 64;\n"
        "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0; bar.sync 0;\n";
    finds("missing-proxy-fence", filled(fill, copy, policy));
    clean(filled(fill, "fence.proxy.async.shared::cta;\n" + copy, policy));
  }
}

TEST_CASE("st.bulk stays in its block's shared memory, in units of 8 bytes, and off mbarriers") {
  // Static shared memory: `s` of 4096 bytes and `bar`.
  finds("out-of-bounds", filled("@%p1 st.bulk.weak.shared::cta [%r3+4000], 4096, 0;\n"));
  finds("out-of-bounds", filled("mov.u64 %d2, 16777224; @%p1 st.bulk.weak.shared::cta [%r3], %d2, 0;\n"));
  finds("out-of-bounds", filled("mov.u64 %d2, -8; @%p1 st.bulk.weak.shared::cta [%r3], %d2, 0;\n"));
  finds("out-of-bounds", filled("@%p1 st.bulk [%out], 64, 0;\n"));
  finds("out-of-bounds", filled("mov.u32 %r5, 8; @%p1 st.bulk.weak.shared::cta [%r5], 64, 0;\n"));
  finds("misaligned", filled("mov.u64 %d2, 12; @%p1 st.bulk.weak.shared::cta [%r3], %d2, 0;\n"));
  finds("misaligned", filled("@%p1 st.bulk.weak.shared::cta [%r3+4], 64, 0;\n"));
  finds("invalid-mbarrier",
        filled("@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 st.bulk.weak.shared::cta [%r2], 8, 0;\n"));
  CHECK_THROWS_AS(Module::from_ptx(shared_kernel("st.bulk.weak.shared::cta [%r3], 64, 0;")), Error);
}
