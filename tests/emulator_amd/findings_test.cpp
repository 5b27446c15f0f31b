// Every kind of finding: a kernel that has the mistake is caught, the same kernel without it is not.
#include <doctest/doctest.h>

#include "harness.hpp"

using namespace amd_test;

namespace {

emu::Report run_assembly(const std::string& body, const std::string& target = "gfx942",
                         std::uint32_t lanes = 64, emu::Policy policy = emu::Policy::lazy,
                         std::uint64_t budget = 1 << 20) {
  Device d;
  std::vector<std::uint32_t> words(4096);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i);
  const auto in = d.upload(words, "in"), out = d.reserve<std::uint32_t>(4096, "out");
  auto l = launch_of({}, {lanes, 1, 1}, {arg(in), arg(out)});
  l.policy = policy;
  l.instruction_budget = budget;
  return amd::launch(d.memory, kernel_from_assembly(body, target), l);
}

void caught(const char* kind, const std::string& wrong, const std::string& right,
            const std::string& target = "gfx942", std::uint32_t lanes = 64) {
  if (!toolchain()) return;
  CAPTURE(kind);
  for (const Way& way : kWays) {
    CAPTURE(std::string(way.name));
    const auto bad = run_assembly(wrong, target, lanes, way.policy),
               good = run_assembly(right, target, lanes, way.policy);
    CHECK_MESSAGE(has_finding(bad, kind), "not found; instead: " << describe(bad));
    CHECK_MESSAGE(good.findings.empty(), describe(good));
    for (const auto& f : bad.findings) CHECK(f.site.ptx_text.size() > 6);
  }
}

const std::string kLane4 = "v_lshlrev_b32 v1, 2, v0\n";  // v1 = 4 * lane
/// A buffer descriptor of `in`, 4096 bytes, in s[8:11].
const std::string kBuffer =
    "s_mov_b64 s[8:9], s[2:3]\ns_and_b32 s9, s9, 0xffff\ns_movk_i32 s10, 0x1000\ns_mov_b32 s11, 0x27000\n";
const std::string kDma =
    kLane4 + kBuffer + "s_mov_b32 m0, 0\ns_nop 0\nbuffer_load_dword v1, s[8:11], 0 offen lds\n";
const std::string kStore2 = "global_store_dword v1, v2, s[4:5]\n";

}  // namespace

TEST_CASE("a register read before vmcnt covers its load") {
  const std::string load = kLane4 + "global_load_dword v2, v1, s[2:3]\n",
                    use = "v_add_u32 v2, v2, v2\n" + kStore2;
  caught("register-not-waited", load + use, load + "s_waitcnt vmcnt(0)\n" + use);
  // Of two loads, vmcnt(1) covers the first only.
  const std::string two = load + "global_load_dword v3, v1, s[2:3] offset:256\ns_waitcnt vmcnt(1)\n";
  caught("register-not-waited", two + "v_mov_b32 v2, v3\n" + kStore2, two + kStore2);
}

TEST_CASE("a register read before lgkmcnt covers its LDS read or scalar load") {
  const std::string write = kLane4 + "ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\nds_read_b32 v2, v1\n";
  caught("register-not-waited", write + kStore2, write + "s_waitcnt lgkmcnt(0)\n" + kStore2);
  const std::string scalar = kLane4 + "s_load_dword s8, s[2:3], 0x0\n", use = "v_mov_b32 v2, s8\n" + kStore2;
  caught("register-not-waited", scalar + use, scalar + "s_waitcnt lgkmcnt(0)\n" + use);
  // Scalar loads return in any order: a count other than 0 promises nothing.
  const std::string pair = kLane4 + "s_load_dword s8, s[2:3], 0x0\ns_load_dword s9, s[2:3], 0x40\n";
  caught("register-not-waited", pair + "s_waitcnt lgkmcnt(1)\n" + use + "s_waitcnt lgkmcnt(0)\n",
         pair + "s_waitcnt lgkmcnt(0)\n" + use);
}

TEST_CASE("a register overwritten while a load still writes it") {
  const std::string load = kLane4 + "global_load_dword v2, v1, s[2:3]\n",
                    over = "v_mov_b32 v2, 0\ns_waitcnt vmcnt(0)\n" + kStore2;
  caught("register-overwritten", load + over, load + "s_waitcnt vmcnt(0)\n" + over);
}

TEST_CASE("global memory that another wave wrote, read without a wait and a barrier between") {
  const std::string store = kLane4 + "v_xor_b32 v3, 0x100, v1\nglobal_store_dword v1, v0, s[4:5]\n",
                    load = "global_load_dword v2, v3, s[4:5]\ns_waitcnt vmcnt(0)\n", barrier = "s_barrier\n",
                    wait = "s_waitcnt vmcnt(0)\n";
  caught("global-race", store + wait + load, store + wait + barrier + load, "gfx942", 128);
}

TEST_CASE("a barrier orders the accesses of a block that runs on one compute unit, without a wait") {
  // Each wave stores, then reads what the other one stored; the compiler leaves the wait out for __syncthreads().
  const std::string store = kLane4 + "v_xor_b32 v3, 0x100, v1\nglobal_store_dword v1, v0, s[4:5]\n",
                    load = "global_load_dword v2, v3, s[4:5]\ns_waitcnt vmcnt(0)\n", barrier = "s_barrier\n";
  caught("global-race", store + load, store + barrier + load, "gfx90a", 128);
  caught("global-race", store + load, store + barrier + load, "gfx950", 128);
}

TEST_CASE("a write that reaches into the next page of memory, read there by another wave") {
  // s[6:7]: where a page of 4096 bytes begins; v1, v3: a page of this wave's own, of the other's. One lane.
  const std::string place =
      "s_add_u32 s6, s4, 0x1fff\ns_addc_u32 s7, s5, 0\ns_and_b32 s6, s6, 0xfffff000\n"
      "v_lshrrev_b32 v1, 6, v0\nv_lshlrev_b32 v1, 12, v1\nv_xor_b32 v3, 0x1000, v1\n"
      "v_mov_b32 v4, 1\nv_mov_b32 v5, 2\ns_mov_b64 exec, 1\n";
  const std::string store = "global_store_dwordx2 v1, v[4:5], s[6:7] offset:-4\n",
                    load = "global_load_dword v2, v3, s[6:7]\ns_waitcnt vmcnt(0)\n";
  caught("global-race", place + store + "s_waitcnt vmcnt(0)\n" + load,
         place + store + "s_waitcnt vmcnt(0)\ns_barrier\n" + load, "gfx942", 128);
}

TEST_CASE("waves that store other values to the same global memory without a barrier") {
  // v1: 4 * (lane % 64), the same words for both waves; v0 differs.
  const std::string place = "v_and_b32 v1, 63, v0\nv_lshlrev_b32 v1, 2, v1\n",
                    first =
                        "v_cmp_gt_u32 vcc, 64, v0\ns_and_saveexec_b64 s[8:9], vcc\n"
                        "global_store_dword v1, v0, s[4:5]\ns_mov_b64 exec, s[8:9]\n",
                    second =
                        "v_cmp_le_u32 vcc, 64, v0\ns_and_b64 exec, exec, vcc\n"
                        "global_store_dword v1, v0, s[4:5]\n";
  for (const char* target : {"gfx90a", "gfx942", "gfx950"})
    caught("global-race", place + first + second, place + first + "s_barrier\n" + second, target, 128);
  // Equal values may meet.
  caught("global-race", place + "global_store_dword v1, v0, s[4:5]\n",
         place + "v_mov_b32 v2, 7\nglobal_store_dword v1, v2, s[4:5]\n", "gfx942", 128);
}

TEST_CASE("halves and bytes of a word that two waves use") {
  // Both waves use the same words: one stores low halves, the other high ones, or both the low ones.
  const std::string place = "v_and_b32 v1, 63, v0\nv_lshlrev_b32 v1, 2, v1\nv_lshrrev_b32 v2, 6, v0\n",
                    apart = "v_lshl_add_u32 v3, v2, 1, v1\n", same = "v_mov_b32 v3, v1\n",
                    store = "global_store_short v3, v0, s[4:5]\n";
  caught("global-race", place + same + store, place + apart + store, "gfx942", 128);
  // The other wave's half, read with and without a barrier.
  const std::string other = "v_xor_b32 v4, 2, v3\n",
                    load = "global_load_ushort v5, v4, s[4:5]\ns_waitcnt vmcnt(0)\n";
  caught("global-race", place + apart + store + other + load,
         place + apart + store + other + "s_barrier\n" + load, "gfx90a", 128);
  // Bytes of one half: each wave has its own, or both the same.
  const std::string bytes = "v_add_u32 v3, v1, v2\n", put = "global_store_byte v3, v0, s[4:5]\n";
  caught("global-race", place + same + "v_add_u32 v0, v0, v2\n" + put, place + bytes + put, "gfx950", 128);
  // A byte, read by one wave, in a half of which the other wave writes that byte or the one beside it.
  const std::string halves = "v_mov_b32 v6, 0x101\nglobal_store_short v1, v6, s[4:5]\ns_barrier\n",
                    get = "v_add_u32 v4, v1, v2\nglobal_load_ubyte v5, v4, s[4:5]\ns_waitcnt vmcnt(0)\n",
                    beside = "v_mov_b32 v6, 5\nglobal_store_byte v4, v6, s[4:5]\n";
  caught("global-race", place + halves + get + "v_xor_b32 v4, 1, v4\n" + beside,
         place + halves + get + beside, "gfx942", 128);
  // Bytes of one wave, stored again as they are by the other one's half.
  const std::string low =
                        "v_cmp_gt_u32 vcc, 64, v0\ns_and_saveexec_b64 s[8:9], vcc\nv_mov_b32 v6, 1\n"
                        "global_store_byte v1, v6, s[4:5]\ns_mov_b64 exec, s[8:9]\n",
                    half = "v_cmp_le_u32 vcc, 64, v0\ns_and_b64 exec, exec, vcc\nv_mov_b32 v6, ",
                    put_half = "\nglobal_store_short v1, v6, s[4:5]\n";
  caught("global-race", place + low + half + "0x102" + put_half, place + low + half + "0x101" + put_half,
         "gfx942", 128);
}

TEST_CASE("global memory overwritten while another wave may still read it") {
  // Each wave stores its words; after a barrier it reads the other's and stores there, before or after another barrier.
  const std::string fill = kLane4 + "v_xor_b32 v3, 0x100, v1\nglobal_store_dword v1, v0, s[4:5]\ns_barrier\n",
                    load = "global_load_dword v2, v3, s[4:5]\ns_waitcnt vmcnt(0)\n",
                    again = "global_store_dword v1, v1, s[4:5]\n";
  for (const char* target : {"gfx90a", "gfx942"})
    caught("global-race", fill + load + again, fill + load + "s_barrier\n" + again, target, 128);
}

TEST_CASE("a lazy load brings the value late") {
  if (!toolchain()) return;
  // Without the wait the store sends what was in v2 before.
  const std::string body = kLane4 + "v_mov_b32 v2, 77\nglobal_load_dword v2, v1, s[2:3] offset:4\n" + kStore2;
  Device d;
  const auto in = d.upload(std::vector<std::uint32_t>(128, 5), "in"),
             out = d.reserve<std::uint32_t>(64, "out");
  const auto module = kernel_from_assembly(body, "gfx90a");
  auto l = launch_of({}, {64, 1, 1}, {arg(in), arg(out)});
  l.policy = emu::Policy::lazy;
  amd::launch(d.memory, module, l);
  CHECK(d.download<std::uint32_t>(out, 64) == std::vector<std::uint32_t>(64, 77));
  l.policy = emu::Policy::eager;
  amd::launch(d.memory, module, l);
  CHECK(d.download<std::uint32_t>(out, 64) == std::vector<std::uint32_t>(64, 5));
}

TEST_CASE("waves race in LDS without a barrier") {
  // Each wave writes its slots and reads those of the other wave.
  const std::string write = kLane4 + "ds_write_b32 v1, v0\n",
                    read = "v_xor_b32 v3, 0x100, v1\nds_read_b32 v2, v3\ns_waitcnt lgkmcnt(0)\n" + kStore2;
  const std::string whole = "s_waitcnt lgkmcnt(0)\ns_barrier\n";
  caught("lds-race", write + "s_waitcnt lgkmcnt(0)\n" + read, write + whole + read, "gfx942", 128);
  // The barrier alone does not wait for the write.
  caught("lds-race", write + "s_barrier\n" + read, write + whole + read, "gfx90a", 128);
  // Reading, then overwriting what the other wave reads, with another value.
  const std::string again = "ds_write_b32 v1, v1\ns_waitcnt lgkmcnt(0)\n";
  caught("lds-race", write + whole + read + again, write + whole + read + "s_barrier\n" + again, "gfx950",
         128);
}

TEST_CASE("waves that write equal values in a loop disturb nobody, whatever was there before") {
  // Two rounds of the same stores with a barrier between: some bytes of the second are those of the first.
  const std::string aim =
      "v_and_b32 v1, 63, v0\nv_lshlrev_b32 v1, 2, v1\ns_movk_i32 s8, 0x100\ns_movk_i32 s9, 2\n";
  const std::string loop =
      "v_mov_b32 v4, s8\n.Lround:\nds_write_b32 v1, v4\ns_waitcnt lgkmcnt(0)\ns_barrier\n"
      "ds_read_b32 v5, v1\ns_waitcnt lgkmcnt(0)\ns_barrier\nv_add_u32 v4, 1, v4\n"
      "s_sub_i32 s9, s9, 1\ns_cmp_lg_u32 s9, 0\ns_cbranch_scc1 .Lround\n";
  const std::string out = "v_lshlrev_b32 v6, 2, v0\nglobal_store_dword v6, v5, s[4:5]\n";
  const std::string own = "v_mov_b32 v4, s8\n";
  caught("lds-race", aim + "v_add_u32 v4, s8, v0\n" + loop.substr(own.size()) + out, aim + loop + out,
         "gfx942", 192);
}

TEST_CASE("waves whose loads to LDS bring equal values disturb nobody") {
  // The input is 4 * index: each wave loads dwords from its own place or all from one.
  const std::string aim = "s_mov_b32 m0, 0\nv_and_b32 v1, 63, v0\nv_lshlrev_b32 v1, 2, v1\n";
  const std::string own = "v_lshrrev_b32 v2, 6, v0\nv_lshlrev_b32 v2, 2, v2\nv_add_u32 v2, v1, v2\n";
  const std::string load = "global_load_lds_dword v2, s[2:3]\n", wait = "s_waitcnt vmcnt(0)\n";
  const std::string read =
      "ds_read_b32 v3, v1\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32 v4, 2, v0\n"
      "global_store_dword v4, v3, s[4:5]\n";
  const std::string same = "v_mov_b32 v2, v1\n";
  for (const std::string target : {"gfx942", "gfx950"}) {
    caught("lds-race", aim + own + load + wait + "s_barrier\n" + read,
           aim + same + load + wait + "s_barrier\n" + read, target, 128);
    caught("lds-dma-not-waited", aim + same + load + read, aim + same + load + wait + read, target, 128);
  }
}

TEST_CASE("waves that write equal values disturb nobody") {
  // Both waves write the same 256 bytes; each may read them before the barrier.
  const std::string aim = "v_and_b32 v3, 63, v0\nv_lshlrev_b32 v3, 2, v3\n" + kLane4;
  const std::string write = "ds_write_b32 v3, v4\ns_waitcnt lgkmcnt(0)\n",
                    read = "ds_read_b32 v2, v3\ns_waitcnt lgkmcnt(0)\n" + kStore2;
  const std::string equal = "v_mov_b32 v4, 7\n", different = "v_mov_b32 v4, v0\n";
  caught("lds-race", aim + different + write + read, aim + equal + write + read, "gfx942", 128);
  // Writing over what another wave reads: the same value, and another one.
  const std::string again = aim + equal + write + "s_barrier\n" + read;
  caught("lds-race", again + "v_mov_b32 v4, 8\n" + write, again + write, "gfx90a", 128);
  // Pairs of dwords.
  const std::string two = "ds_write2_b32 v3, v4, v4 offset1:64\ns_waitcnt lgkmcnt(0)\n";
  caught("lds-race", aim + different + two + read, aim + equal + two + read, "gfx950", 128);
}

TEST_CASE("flat addresses that lie in LDS are tracked like LDS instructions") {
  const std::string aim =
      "v_lshlrev_b32 v1, 2, v0\ns_mov_b64 s[8:9], src_shared_base\nv_mov_b32 v11, s9\nv_mov_b32 v10, v1\n"
      "v_mov_b32 v13, s9\nv_xor_b32 v12, 0x100, v1\n";
  const std::string write = "flat_store_dword v[10:11], v0\n", wait = "s_waitcnt vmcnt(0) lgkmcnt(0)\n";
  const std::string read = "flat_load_dword v2, v[12:13]\n" + wait + kStore2;
  caught("lds-race", aim + write + wait + read, aim + write + wait + "s_barrier\n" + read, "gfx942", 128);
  caught("lds-race", aim + write + "s_barrier\n" + read, aim + write + wait + "s_barrier\n" + read, "gfx90a",
         128);
  const std::string own = "flat_load_dword v2, v[10:11]\n" + wait + kStore2;
  caught("uninitialized-lds", aim + own, aim + write + own);
}

TEST_CASE("atomics of several waves do not race, a plain read beside them does") {
  const std::string one = kLane4 + "v_mov_b32 v4, 0\nv_mov_b32 v5, 1\n";
  const std::string first = one +
                            "v_cmp_gt_u32 vcc, 64, v0\ns_cbranch_vccz .Lskip\nds_write_b32 v4, "
                            "v4\n.Lskip:\ns_waitcnt lgkmcnt(0)\ns_barrier\n";
  const std::string add = "ds_add_u32 v4, v5\ns_waitcnt lgkmcnt(0)\n",
                    read = "ds_read_b32 v2, v4\ns_waitcnt lgkmcnt(0)\n" + kStore2;
  caught("lds-race", first + add + read, first + add + "s_barrier\n" + read, "gfx942", 128);
}

TEST_CASE("LDS used before the wait of the load that fills it") {
  const std::string read = "ds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n" + kStore2;
  caught("lds-dma-not-waited", kDma + read, kDma + "s_waitcnt vmcnt(0)\n" + read, "gfx90a");
  caught("lds-dma-not-waited", kDma + "s_waitcnt lgkmcnt(0)\n" + read, kDma + "s_waitcnt vmcnt(0)\n" + read,
         "gfx950");
}

TEST_CASE("another wave reads what a load to LDS brings") {
  // Both waves load 256 bytes to their own part (m0), then read the other's.
  const std::string dma =
      "v_and_b32 v3, 63, v0\nv_lshlrev_b32 v3, 2, v3\n" + kLane4 + kBuffer +
      "v_readfirstlane_b32 s12, v1\ns_mov_b32 m0, s12\ns_nop 0\nbuffer_load_dword v3, s[8:11], 0 offen lds\n";
  const std::string read = "v_xor_b32 v3, 0x100, v1\nds_read_b32 v2, v3\ns_waitcnt lgkmcnt(0)\n" + kStore2 +
                           "s_waitcnt vmcnt(0)\n";
  caught("lds-race", dma + "s_barrier\n" + read, dma + "s_waitcnt vmcnt(0)\ns_barrier\n" + read, "gfx942",
         128);
  caught("lds-race", dma + "s_waitcnt vmcnt(0)\n" + read, dma + "s_waitcnt vmcnt(0)\ns_barrier\n" + read,
         "gfx942", 128);
}

TEST_CASE("a double buffer with a weakened wait or a missing barrier is caught" *
          doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  const std::string good = program_source("dma_copy");
  const auto findings = [&](const std::string& from, const std::string& to, const std::string& target,
                            const Way& way) {
    std::string source = good;
    if (!from.empty()) {
      const auto at = source.find(from);
      REQUIRE(at != std::string::npos);
      source.replace(at, from.size(), to);
    }
    Device d;
    const auto x = d.upload(std::vector<std::uint32_t>(4096, 1), "x"),
               y = d.reserve<std::uint32_t>(4096, "y");
    auto l = launch_of({}, {256, 1, 1}, {arg(x), arg(y), arg(16384), arg(4)});
    l.policy = way.policy;
    l.seed = way.seed;
    return amd::launch(d.memory, amd::Module::from_code_object(compile_text(source, target)), l);
  };
  for (const std::string& target : kTargets) {
    for (const Way& way : {kWays[0], kWays[1], kWays[2]}) {
      CAPTURE(target);
      CAPTURE(std::string(way.name));
      CHECK(findings("", "", target, way).findings.empty());
      // One load fewer is waited for; no wait at all; no barrier before the reads; none before the buffer is
      // refilled.
      CHECK(!findings("vmcnt(4)", "vmcnt(5)", target, way).findings.empty());
      CHECK(!findings("s_waitcnt vmcnt(4)\\n\\ts_barrier", "s_barrier", target, way).findings.empty());
      CHECK(!findings("vmcnt(4)\\n\\ts_barrier", "vmcnt(4)", target, way).findings.empty());
      CHECK(!findings("lgkmcnt(0)\\n\\ts_barrier", "lgkmcnt(0)", target, way).findings.empty());
    }
  }
}

TEST_CASE("a load to LDS over bytes that a read still needs") {
  const std::string fill = kLane4 + "ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\nds_read_b32 v2, v1\n";
  const std::string dma = kBuffer +
                          "s_mov_b32 m0, 0\ns_nop 0\nbuffer_load_dword v1, s[8:11], 0 offen lds\ns_waitcnt "
                          "vmcnt(0) lgkmcnt(0)\n" +
                          kStore2;
  caught("lds-overwritten", fill + dma, fill + "s_waitcnt lgkmcnt(0)\n" + dma);
}

TEST_CASE("reads of what was never written") {
  const std::string read = kLane4 + "ds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n" + kStore2;
  caught("uninitialized-lds", read, kLane4 + "ds_write_b32 v1, v0\n" + read.substr(kLane4.size()));
  caught("uninitialized-register", kLane4 + kStore2, kLane4 + "v_mov_b32 v2, 0\n" + kStore2);
  caught("uninitialized-register",
         kLane4 + "global_load_dword v2, v7, s[2:3]\ns_waitcnt vmcnt(0)\n" + kStore2,
         kLane4 + "global_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n" + kStore2);
  const std::string from_out =
      kLane4 + "global_load_dword v2, v1, s[4:5] offset:256\ns_waitcnt vmcnt(0)\n" + kStore2;
  caught("uninitialized-read", from_out,
         kLane4 + "v_mov_b32 v3, 0\nglobal_store_dword v1, v3, s[4:5] offset:256\ns_waitcnt vmcnt(0)\n" +
             from_out);
  // Undefined values may be moved about, selected away and stored to LDS: only their use counts.
  caught("uninitialized-register", kLane4 + "v_mov_b32 v2, v9\nv_add_u32 v2, v2, v0\n" + kStore2,
         kLane4 + "v_mov_b32 v3, v9\ns_mov_b64 vcc, -1\nv_cndmask_b32 v2, v3, v0, vcc\n" + kStore2);
}

TEST_CASE("accesses outside of memory, LDS and alignment") {
  const std::string far = "v_lshlrev_b32 v1, 2, v0\nv_mov_b32 v2, 0\nv_add_u32 v3, 0x4000, v1\n";
  caught("out-of-bounds", far + "global_store_dword v3, v2, s[4:5]\n",
         far + "global_store_dword v1, v2, s[4:5]\n");
  caught("out-of-bounds", far + "global_load_dword v2, v3, s[2:3]\n",
         far + "global_load_dword v2, v1, s[2:3]\n");
  caught("out-of-bounds", far + "ds_write_b32 v3, v2\n", far + "ds_write_b32 v1, v2\n");
  caught("out-of-bounds", "s_load_dword s8, s[2:3], 0x4000\n", "s_load_dword s8, s[2:3], 0x3ffc\n");
  caught("misaligned",
         far +
             "global_store_dword v1, v2, s[4:5]\ns_waitcnt vmcnt(0)\nv_add_u32 v1, 2, v1\ns_mov_b64 exec, "
             "1\nglobal_atomic_add v1, v2, s[4:5]\n",
         far +
             "global_store_dword v1, v2, s[4:5]\ns_waitcnt vmcnt(0)\ns_mov_b64 exec, 1\nglobal_atomic_add "
             "v1, v2, s[4:5]\n");
}

TEST_CASE("buffers bound their accesses, soffset must not decide") {
  const std::string lanes =
      "v_lshlrev_b32 v1, 2, v0\nv_add_u32 v2, 0xf80, v1\n" + kBuffer;  // lanes 32.. are outside
  if (toolchain()) {
    Device d;
    const auto in = d.upload(std::vector<std::uint32_t>(4096, 9), "in"),
               out = d.reserve<std::uint32_t>(64, "out");
    const auto module = kernel_from_assembly(lanes +
                                                 "buffer_load_dword v3, v2, s[8:11], 0 offen\ns_waitcnt "
                                                 "vmcnt(0)\nglobal_store_dword v1, v3, s[4:5]\n"
                                                 "buffer_store_dword v1, v2, s[8:11], 0 offen\n",
                                             "gfx90a");
    const auto report = amd::launch(d.memory, module, launch_of({}, {64, 1, 1}, {arg(in), arg(out)}));
    CHECK_MESSAGE(report.findings.empty(), describe(report));
    const auto got = d.download<std::uint32_t>(out, 64), after = d.download<std::uint32_t>(in, 1088);
    for (std::uint32_t i = 0; i < 64; ++i) CHECK(got[i] == (i < 32 ? 9 : 0));
    for (std::uint32_t i = 0; i < 64; ++i) CHECK(after[992 + i] == (i < 32 ? 4 * i : 9));
  }
  caught("ambiguous-bounds",
         lanes + "s_movk_i32 s12, 0x80\nbuffer_load_dword v3, v1, s[8:11], s12 offen offset:3840\n",
         lanes + "s_movk_i32 s12, 0x80\nbuffer_load_dword v3, v1, s[8:11], s12 offen offset:1024\n");
}

TEST_CASE("barriers that do not match, and endless loops") {
  const std::string split = "v_cmp_gt_u32 vcc, 64, v0\ns_cbranch_vccz .Lend2\ns_barrier\n.Lend2:\n";
  caught("barrier-mismatch", split, "s_barrier\n", "gfx942", 128);
  if (!toolchain()) return;
  const auto spin = run_assembly(".Lloop:\ns_branch .Lloop\n", "gfx942", 64, emu::Policy::eager, 10000);
  CHECK(has_finding(spin, "instruction-budget"));
  CHECK(!spin.completed);
  // One wave waits at the barrier while the other never comes.
  const auto dead = run_assembly(
      "v_cmp_gt_u32 vcc, 64, v0\ns_cbranch_vccnz .Lwait\n.Lloop:\ns_branch .Lloop\n.Lwait:\ns_barrier\n",
      "gfx942", 128, emu::Policy::eager, 10000);
  CHECK(has_finding(dead, "deadlock"));
}

TEST_CASE("transposing reads need all lanes and aligned addresses") {
  const std::string fill =
      "v_lshlrev_b32 v1, 3, v0\nv_mov_b32 v2, 0\nv_mov_b32 v3, 0\nds_write_b64 v1, v[2:3]\ns_waitcnt "
      "lgkmcnt(0)\n";
  caught("partial-exec", fill + "s_mov_b64 exec, 1\nds_read_b64_tr_b16 v[4:5], v1\n",
         fill + "ds_read_b64_tr_b16 v[4:5], v1\n", "gfx950");
  caught("misaligned", fill + "v_add_u32 v1, 4, v1\nv_and_b32 v1, 0xff, v1\nds_read_b64_tr_b16 v[4:5], v1\n",
         fill + "ds_read_b64_tr_b16 v[4:5], v1\n", "gfx950");
}

TEST_CASE("one mistake is one finding") {
  if (!toolchain()) return;
  // Four stores to LDS and four loads of what the other wave stored, with the barrier between left out.
  std::string stores, loads, uses;
  for (int i = 0; i < 4; ++i) {
    stores += "ds_write_b32 v1, v0 offset:" + std::to_string(512 * i) + "\n";
    loads += "ds_read_b32 v" + std::to_string(10 + i) + ", v3 offset:" + std::to_string(512 * i) + "\n";
    uses += "global_store_dword v1, v" + std::to_string(10 + i) +
            ", s[4:5] offset:" + std::to_string(512 * i) + "\n";
  }
  const std::string address = kLane4 + "v_xor_b32 v3, 0x100, v1\n", wait = "s_waitcnt lgkmcnt(0)\n",
                    end = "s_barrier\n";
  for (const Way& way : kWays) {
    CAPTURE(std::string(way.name));
    const auto races = run_assembly(address + stores + wait + loads + wait + uses, "gfx942", 128, way.policy);
    REQUIRE_MESSAGE(races.findings.size() == 1, describe(races));
    CHECK(races.findings[0].kind == "lds-race");
    CHECK(races.findings[0].places >= 4);
    // Two mistakes: registers that nobody waited for, on either side of a barrier.
    const auto waits = run_assembly(address + "s_barrier\n" + stores + wait + end + loads + uses + wait +
                                        "v_mov_b32 v20, 0\n" + end + loads + uses + wait,
                                    "gfx942", 128, way.policy);
    CHECK_MESSAGE(waits.findings.size() == 2, describe(waits));
    for (const auto& f : waits.findings) CHECK(f.kind == "register-not-waited");
  }
}

TEST_CASE("blocks that store to the same memory, and what a block read before it told another one") {
  if (!toolchain()) return;
  const auto run_text = [](const std::string& text, const std::string& target, const Way& way) {
    Device d;
    const auto data = d.upload(std::vector<std::uint32_t>(128, 3), "data"),
               out = d.reserve<std::uint32_t>(256, "out"),
               flag = d.upload(std::vector<std::uint32_t>{0}, "flag");
    auto l = launch_of({2, 1, 1}, {128, 1, 1}, {arg(data), arg(flag), arg(out)});
    l.policy = way.policy;
    l.seed = way.seed;
    l.host_threads = 1;  // block 0, then block 1
    const auto object = compile_text(program_source("swap") + text, target, false, "");
    l.kernel = "k";
    return amd::launch(d.memory, amd::Module::from_code_object(object), l);
  };
  const std::string head = "\nKERNEL(128) k(u32* data, u32* flag, u32* out) {\n",
                    meet = "__asm volatile(\"s_waitcnt vmcnt(0)\\ns_barrier\" ::: \"memory\");\n";
  // Block 0 does something and counts, block 1 looks at the count and does something else.
  const auto program = [&](const std::string& first, const std::string& tells, const std::string& second) {
    return head + "if (block_x() == 0) {\n" + first + meet + tells + "} else {\n" +
           "if (__hip_atomic_fetch_add(flag, 0u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) < 9) {\n" +
           second + "}\n}\n}\n";
  };
  const std::string tells =
      "if (tid() == 0) __hip_atomic_fetch_add(flag, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);\n";
  const std::string stores = "out[tid()] = tid();\n", others = "out[127 - tid()] = tid();\n",
                    reads = "out[tid()] = tid();\n" + meet + "out[128 + tid()] = out[127 - tid()];\n";
  for (const std::string& target : kTargets) {
    for (const Way& way : {kWays[0], kWays[1], kWays[2]}) {
      CAPTURE(target);
      CAPTURE(std::string(way.name));
      for (const std::string& first : {stores, reads}) {
        const auto right = run_text(program(first, tells, others), target, way);
        CHECK_MESSAGE(right.findings.empty(), describe(right));
        CHECK(has_finding(run_text(program(first, "", others), target, way), "global-race"));
      }
    }
  }
}

TEST_CASE(
    "a block that may be split over compute units has to wait before its barrier, and so has who tells other blocks") {
  if (!toolchain()) return;
  const auto run_text = [](const std::string& text, const std::string& target, const Way& way, int blocks,
                           const std::string& options = "") {
    Device d;
    const auto data = d.reserve<std::uint32_t>(128, "data"), out = d.reserve<std::uint32_t>(128, "out"),
               flag = d.upload(std::vector<std::uint32_t>{0}, "flag");
    auto l =
        launch_of({static_cast<std::uint32_t>(blocks), 1, 1}, {128, 1, 1}, {arg(data), arg(flag), arg(out)});
    l.policy = way.policy;
    l.seed = way.seed;
    l.host_threads = 1;  // block 0, then block 1
    const auto object = compile_text(program_source("swap") + text, target, false, options);
    l.kernel = "k";
    return amd::launch(d.memory, amd::Module::from_code_object(object), l);
  };
  const std::string head = "\nKERNEL(128) k(u32* data, u32* flag, u32* out) {\n",
                    meet = "__asm volatile(\"s_barrier\" ::: \"memory\");\n",
                    wait = "__asm volatile(\"s_waitcnt vmcnt(0)\" ::: \"memory\");\n";
  const auto swap = [&](const std::string& between) {
    return head + "data[tid()] = tid();\n" + between + "out[tid()] = data[127 - tid()];\n}\n";
  };
  // Wave 1 tells block 1 of what both waves stored.
  const auto tell = [&](const std::string& before) {
    return head + "if (block_x() == 0) {\ndata[tid()] = tid();\n" + before + meet +
           "if (tid() == 64) __hip_atomic_fetch_add(flag, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);\n"
           "} else if (__hip_atomic_fetch_add(flag, 0u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {\n"
           "out[tid()] = data[127 - tid()];\n}\n}\n";
  };
  for (const std::string& target : kTargets) {
    for (const Way& way : {kWays[0], kWays[1], kWays[2]}) {
      CAPTURE(target);
      CAPTURE(std::string(way.name));
      CHECK(run_text(swap("sync();\n"), target, way, 1).findings.empty());
      CHECK(run_text(swap("sync();\n"), target, way, 1, "-mtgsplit").findings.empty());
      CHECK(run_text(swap(meet), target, way, 1).findings.empty());
      CHECK(has_finding(run_text(swap(meet), target, way, 1, "-mtgsplit"), "global-race"));
      CHECK(run_text(tell(wait), target, way, 2).findings.empty());
      CHECK(has_finding(run_text(tell("if (tid() >= 64) " + wait), target, way, 2), "global-race"));
    }
  }
}
