// st.async, red.async and bulk reductions into another block of the cluster, and tensormap.
#include <doctest/doctest.h>

#include "emulator/tensor/tma.hpp"
#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

// Block 0 writes into block 1, which waits for 4 bytes of each of its 32 threads.
std::string exchange(const std::string& write, int expected) {
  return shared_kernel(
      "mov.u32 %r20, %cluster_ctarank; st.shared.u32 [%r1], 100;\n@%p1 mbarrier.init.shared.b64 [%r2], 1;\n"
      "fence.mbarrier_init.release.cluster; mul.lo.u32 %r9, %r20, 33; sub.u32 %r9, %r9, %t; setp.eq.u32 %p4, "
      "%r9, 33; @%p4 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], " +
      std::to_string(expected) +
      ";\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
      "mapa.shared::cluster.u32 %r5, %r1, 1; mapa.shared::cluster.u32 %r6, %r2, 1; add.u32 %r7, %t, 7;\n"
      "setp.eq.u32 %p3, %r20, 0; @!%p3 bra WAIT;\n" +
      write +
      "bra END;\nWAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra WAIT;\n"
      "ld.shared.u32 %r8, [%r1]; st.global.u32 [%o], %r8;\nEND: barrier.cluster.arrive.aligned; "
      "barrier.cluster.wait.aligned;");
}
Outcome cluster(const std::string& ptx, Policy p) {
  return run(ptx, {.grid = {2, 1, 1}, .cluster = {2, 1, 1}, .policy = p});
}

}  // namespace

TEST_CASE("st.async writes into another block and counts on its mbarrier") {
  const std::string store =
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r5], %r7, [%r6];\n";
  for (const Policy p : kPolicies) {
    const Outcome o = cluster(exchange(store, 128), p);
    clean(o);
    for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == i + 7);
  }
  // A reader that does not wait races with it.
  const std::string early = exchange(store, 128);
  std::string without = early;
  without.replace(without.find("WAIT: mbarrier"),
                  without.find("ld.shared.u32 %r8") - without.find("WAIT: mbarrier"), "WAIT:\n");
  bool found = false;
  for (const Policy p : kPolicies) found |= !cluster(without, p).report.findings.empty();
  CHECK(found);
}

TEST_CASE("red.async adds in another block") {
  const std::string add =
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r5], %r7, [%r6];\n";
  for (const Policy p : kPolicies) {
    const Outcome o = cluster(exchange(add + add, 256), p);
    clean(o);
    for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == 100 + 2 * (i + 7));
  }
}

TEST_CASE("a bulk reduction adds in another block") {
  const std::string add =
      "st.shared.u32 [%r1+512], %t; fence.proxy.async; bar.warp.sync -1; add.u32 %r10, %r3, 512;\n"
      "mapa.shared::cluster.u32 %r11, %r3, 1;\n"
      "@%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r11], "
      "[%r10], 128, [%r6];\n";
  for (const Policy p : kPolicies) {
    const Outcome o = cluster(exchange(add, 128), p);
    clean(o);
    for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == 100 + i);
  }
  CHECK_THROWS_AS(Module::from_ptx(exchange("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::"
                                            "complete_tx::bytes.add.f32 [%r5], [%r10], 128, [%r6];",
                                            0)),
                  Error);
}

namespace {

// Each thread of block 0 adds to a word of block 1 (both have an mbarrier at %r2, which expects `bytes` in block 1, and
// with `both` another, which expects 128); `zero` and `one` are what the two blocks do between two cluster barriers.
Outcome reductions(const std::string& zero, const std::string& one, Policy p, int bytes = 128,
                   bool both = false) {
  return cluster(
      shared_kernel(
          "mov.u32 %r20, %cluster_ctarank; st.shared.u32 [%r1], 100; st.shared.u32 [%r1+512], %t;\n"
          "@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.init.shared.b64 [%r3+1024], 1;\n"
          "fence.mbarrier_init.release.cluster; setp.eq.u32 %p3, %r20, 0; @%p3 bra MET;\n"
          "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], " +
          std::to_string(bytes) + "; " +
          (both ? "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3+1024], 128;\n" : "") +
          "MET: fence.proxy.async; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
          "mapa.shared::cluster.u32 %r5, %r1, 1; mapa.shared::cluster.u32 %r6, %r2, 1; add.u32 %r7, "
          "%t, 7;\nadd.u32 %r9, %r3, 1024; mapa.shared::cluster.u32 %r12, %r9, 1; add.u32 %r10, %r3, "
          "512; mapa.shared::cluster.u32 %r11, %r3, 1;\n@!%p3 bra ONE;\n" +
          zero + "bra END;\nONE:\n" + one +
          "END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"),
      p);
}

const std::string kAdd =
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r5], %r7, [%r6];\n";
const std::string kAddOther =
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r5], %r7, [%r12];\n";
const std::string kAddBulk =
    "@%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r11], "
    "[%r10], 128, [%r6];\n";
const std::string kWaitPhase = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
const std::string kWaitOther = "V: mbarrier.try_wait.parity.shared.b64 %p2, [%r3+1024], 0; @!%p2 bra V;\n";
const std::string kReadOwn = "ld.shared.u32 %r8, [%r1]; st.global.u32 [%o], %r8;\n";
const std::string kWriteShared = "st.shared.u32 [%r1], 5;\n";

}  // namespace

TEST_CASE("a reduction into another block races with what reads or writes there and does not wait for it") {
  for (const Policy p : kPolicies)
    for (const std::string& add : {kAdd, kAddBulk}) {
      clean(reductions(add, kWaitPhase + kReadOwn + kWriteShared, p));
      // Before it in this run or after it: nothing orders the two.
      finds("async-memory", reductions(add, kReadOwn + kWaitPhase, p));
      finds("async-memory", reductions(add, kWriteShared + kWaitPhase, p));
      finds("async-memory", reductions(add, "st.shared.u32 [%r1], 100;\n" + kWaitPhase, p));
      finds("async-memory", reductions("nanosleep.u32 100;\n" + add, kReadOwn + kWaitPhase, p));
      finds("async-memory", reductions(add, "nanosleep.u32 100;\n" + kReadOwn + kWaitPhase, p));
      finds("async-memory", reductions(add + "st.shared::cluster.u32 [%r5], 5;\n", kWaitPhase, p));
      finds("async-memory",
            reductions(add + "ld.shared::cluster.u32 %r8, [%r5]; st.global.u32 [%o], %r8;\n", kWaitPhase, p));
      // Other words of the same 16 bytes.
      clean(reductions("setp.lt.u32 %p5, %t, 2; @%p5 " + kAdd,
                       "setp.gt.u32 %p5, %t, 1; @%p5 st.shared.u32 [%r1], 5;\n" + kWaitPhase, p, 8));
    }
}

TEST_CASE("reductions into another block need no order among themselves, and who reads has to wait for all") {
  for (const Policy p : kPolicies) {
    // The words are also added to by threads of their own block.
    const std::string own = "atom.shared.add.u32 %r13, [%r1], 1;\n";
    const Outcome o = reductions(kAdd + kAdd + kAddBulk, own + kWaitPhase + kReadOwn, p, 384);
    clean(o);
    for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == 101 + 2 * (i + 7) + i);
    clean(reductions(kAdd + kAddOther, kWaitPhase + kWaitOther + kReadOwn, p, 128, true));
    finds("async-memory", reductions(kAdd + kAddOther, kWaitPhase + kReadOwn + kWaitOther, p, 128, true));
    finds("async-memory", reductions(kAdd + kAddOther, kWaitOther + kReadOwn + kWaitPhase, p, 128, true));
    finds("async-memory", reductions(kAddBulk + kAddOther, kWaitPhase + kReadOwn + kWaitOther, p, 128, true));
    // The source of a bulk reduction is read, no more.
    clean(reductions(kAddBulk + "ld.shared.u32 %r8, [%r1+512]; st.global.u32 [%o+256], %r8;\n",
                     kWaitPhase + kReadOwn, p));
    finds("async-memory", reductions(kAddBulk + "st.shared.u32 [%r1+512], 1;\n", kWaitPhase + kReadOwn, p));
  }
  // A block that ends while a reduction may still write its memory.
  const std::string early = shared_kernel(
      "mov.u32 %r20, %cluster_ctarank; st.shared.u32 [%r1], 100;\n"
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
      "mapa.shared::cluster.u32 %r5, %r1, 1; mapa.shared::cluster.u32 %r6, %r2, 1;\n"
      "setp.ne.u32 %p3, %r20, 0; @%p3 bra END;\n" +
      kAdd + "END:\n");
  for (const Policy p : kPolicies) finds("ended-block", cluster(early, p));
}

namespace {

/// Makes a map of 1024 numbers of one that points elsewhere, by `edit` of the map at %in, and loads 32
/// numbers from number 64 on through it. `finding`: the kind of the one that is wanted.
void check_edited_map(const std::string& edit, const std::string& finding = {}) {
  GlobalMemory memory;
  const std::uint64_t data = memory.allocate(4096), out = memory.allocate(4096), map = memory.allocate(128);
  std::vector<std::uint32_t> values(1024);
  for (std::uint32_t i = 0; i < 1024; ++i) values[i] = i;
  memory.write(data, std::as_bytes(std::span(values)));
  TensorMapRequest request;
  request.type = TensorType::u32;
  request.rank = 1;
  request.address = out;  // to be replaced
  request.dims = {8, 0, 0, 0, 0};
  request.box = {32, 0, 0, 0, 0};
  memory.write(map, encode_tensor_map(request));
  const std::string text = shared_kernel(
      "mov.u64 %d1, " + std::to_string(data) + ";\n" + edit +
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0;\n"
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;\n"
      "@%p1 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in, {64}], "
      "[%r2];\n"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n"
      "ld.shared.u32 %r5, [%r1]; st.global.u32 [%o], %r5;");
  Launch launch_;
  launch_.block = {32, 1, 1};
  launch_.args = {bytes_of(map), bytes_of(out)};
  const Report report = launch(memory, Module::from_ptx(text), launch_);
  for (const Finding& f : report.findings)
    if (f.kind != finding) FAIL_CHECK(f.kind << ": " << f.message);
  CHECK(report.findings.size() == (finding.empty() ? 0 : 1));
  std::vector<std::uint32_t> got(32);
  memory.read(out, std::as_writable_bytes(std::span(got)));
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(got[i] == 64 + i);
}

}  // namespace

TEST_CASE(
    "tensormap.replace edits a map, in global memory or in shared memory for cp_fenceproxy to publish") {
  check_edited_map(
      "@%p1 tensormap.replace.tile.global_address.global.b1024.b64 [%in], %d1;\n"
      "@%p1 tensormap.replace.tile.global_dim.global.b1024.b32 [%in], 0, 1024;\n"
      "fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%in], 128;\n");
  check_edited_map(
      "add.u64 %d3, %in, 0; mul.wide.u32 %d2, %t, 4; add.u64 %d3, %d3, %d2; ld.global.u32 %r5, [%d3]; "
      "st.shared.u32 [%r1+128], %r5; bar.warp.sync -1;\n"
      "@%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3+128], %d1;\n"
      "@%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3+128], 0, 1024; bar.warp.sync -1;\n"
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%in], "
      "[%r3+128], 128;\nfence.proxy.tensormap::generic.acquire.gpu [%in], 128;\n");
  // From 128 zero bytes, as Triton's descriptors are made on the device.
  check_edited_map(
      "mov.u32 %r5, 0; st.shared.u32 [%r1+128], %r5; bar.warp.sync -1;\n"
      "@%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3+128], %d1;\n"
      "@%p1 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r3+128], 0;\n"
      "@%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r3+128], 0, 32;\n"
      "@%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3+128], 0, 1024;\n"
      "@%p1 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r3+128], 0, 1;\n"
      "@%p1 tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r3+128], 2;\n"
      "@%p1 tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r3+128], 0;\n"
      "@%p1 tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r3+128], 0;\n"
      "@%p1 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r3+128], 0; bar.warp.sync -1;\n"
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%in], "
      "[%r3+128], 128;\nfence.proxy.tensormap::generic.acquire.gpu [%in], 128;\n");
  // The size of a swizzle's atoms is a field of its own, and of the 128B swizzle only.
  const auto atoms = [](int mode, int atomicity) {
    TensorMapRequest request;
    request.type = TensorType::u32, request.rank = 2, request.dims = {32, 8}, request.strides = {128};
    request.box = {32, 8}, request.swizzle = Swizzle::b128_atom64;
    TensorMapBytes bytes = encode_tensor_map(request);
    REQUIRE(replace_tensor_map_field(bytes, TensorMapField::swizzle_atomicity, 0,
                                     static_cast<std::uint64_t>(atomicity)));
    REQUIRE(
        replace_tensor_map_field(bytes, TensorMapField::swizzle_mode, 0, static_cast<std::uint64_t>(mode)));
    return decode_tensor_map(bytes).value();
  };
  CHECK(atoms(3, 0).swizzle == Swizzle::b128);
  CHECK(atoms(3, 1).swizzle == Swizzle::b128_atom32);
  CHECK(atoms(3, 2).swizzle == Swizzle::b128_atom32_flip8);
  CHECK(atoms(3, 3).swizzle == Swizzle::b128_atom64);
  CHECK(atoms(0, 0).swizzle == Swizzle::none);
  CHECK(check_tensor_map(atoms(0, 1)) == "swizzle atoms of 32 and 64 bytes are of the 128B swizzle only");
  CHECK_THROWS_AS(
      Module::from_ptx(kernel("tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [%in], 1;")), Error);
  // A map that is not taken over, or was written again since.
  const std::string edit =
      "@%p1 tensormap.replace.tile.global_address.global.b1024.b64 [%in], %d1;\n"
      "@%p1 tensormap.replace.tile.global_dim.global.b1024.b32 [%in], 0, 1024;\n";
  const std::string acquire = "fence.proxy.tensormap::generic.acquire.gpu [%in], 128;\n";
  check_edited_map(edit, "missing-proxy-fence");
  check_edited_map(edit + acquire);
  check_edited_map(edit + acquire + "bar.sync 0;\n" + edit, "missing-proxy-fence");
  // A field that does not exist is refused with its line.
  CHECK_THROWS_AS(Module::from_ptx(kernel("tensormap.replace.tile.colour.global.b1024.b64 [%in], %d1;")),
                  Error);
}
