// INT8 caches under a 16-bit query: every schedule, operand kind and granularity of scales that FP8 caches
// have, and how bytes become 16 bits.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>

#include "emulator/amdgcn/mutate.hpp"
#include "generator/emit/prelude.hpp"
#include "generator/schedules/schedule.hpp"
#include "harness.hpp"
#include "workbench/problem/rounding.hpp"

using namespace cdna_test;
using namespace kiln;
namespace amd = emulator::amdgcn;

namespace {

std::string keys(const char* kind, const char* granularity, const char* more = "") {
  return fmt::format(
      R"("kv_dtype": "int8", "operand": {{{}, "quantization": {{"granularity": {}}}}}, "lse": true{})", kind,
      granularity, more);
}
constexpr const char *kPaged16 = R"("kind": "paged", "page_size": 16)",
                     *kPaged1 = R"("kind": "paged", "page_size": 1)", *kRaggedKind = R"("kind": "ragged")",
                     *kDense = R"("kind": "contiguous")", *kBlocks = R"("kind": "continuous")",
                     *kTensor = R"("per_tensor")", *kHead = R"("per_head")", *kToken = R"("per_token")",
                     *kCausal = R"(, "mask": "causal")";
const std::vector<LadderCase> kChunks = {{33, 150}, {0, 5}, {7, 7}, {1, 129}},
                              kRows = {{1, 300}, {3, 65}, {1, 0}, {2, 128}}, kEqual = {{1, 100}, {1, 100}};

/// All bytes, eight a lane, by the prelude's widening to `type`.
void check_widening(const char* target, DType type, const std::map<std::string, std::size_t>& instructions) {
  CAPTURE(target);
  Prelude prelude("cdna.hip");
  if (type == DType::bf16) prelude.use("unpack_int8");
  prelude.use(type == DType::bf16 ? "widen_bf16" : "widen_int8_fp16");
  KernelSource source;
  source.manifest.name = fmt::format("widen_{}_{}", to_string(type), target);
  source.manifest.target = target;
  source.text =
      prelude.lines().text() + fmt::format(
                                   "extern \"C\" __global__ void widen(const u32x2* in, u32x4* out) {{\n"
                                   "  const int lane = __builtin_amdgcn_workitem_id_x();\n"
                                   "  out[lane] = widen_{}(in[lane]);\n}}\n",
                                   to_string(type));
  const amd::Module module = compile(source);
  for (const auto& [instruction, count] : instructions) {
    CAPTURE(instruction);
    CHECK(module.count("widen", instruction) == count);
  }
  std::vector<std::byte> in(256), out(512);
  for (int i = 0; i < 256; ++i) in[static_cast<std::size_t>(i)] = static_cast<std::byte>(i);
  emulator::GlobalMemory memory;
  const std::uint64_t from = memory.allocate(in.size(), "in"), to = memory.allocate(out.size(), "out");
  memory.write(from, in);
  amd::Launch launch;
  launch.kernel = "widen";
  for (const std::uint64_t pointer : {from, to}) {
    std::vector<std::byte> bytes(8);
    std::memcpy(bytes.data(), &pointer, 8);
    launch.args.push_back(std::move(bytes));
  }
  launch.grid = {1, 1, 1};
  launch.block = {32, 1, 1};
  const emulator::Report report = amd::launch(memory, module, launch);
  CHECK(report.completed);
  CHECK(report.findings.empty());
  memory.read(to, out);
  const std::vector<float> wide = decode(type, out);
  for (int i = 0; i < 256; ++i)
    CHECK(wide[static_cast<std::size_t>(i)] == static_cast<float>(static_cast<signed char>(i)));
}

}  // namespace

TEST_CASE("INT8 becomes BF16 and FP16 exactly, in 12 and 10 instructions for eight bytes") {
  if (!toolchain()) return;
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    check_widening(target, DType::bf16, {{"v_cvt_f32_i32_sdwa", 8}, {"v_perm_b32", 4}});
    check_widening(target, DType::fp16, {{"v_xor_b32_e32", 2}, {"v_perm_b32", 4}, {"v_pk_add_f16", 4}});
  }
}

TEST_CASE("INT8 caches: prefill, whole tiles and blocks, V in K's rows" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  check_ladder(config_text("gfx90a", "bf16", 128, keys(kPaged16, kHead, kCausal)), kChunks, true);
  check_ladder(config_text("gfx942", "fp16", 64, keys(kRaggedKind, kTensor)), kChunks);
  check_ladder(config_text("gfx950", "bf16", 128, keys(kBlocks, kToken, kCausal)), kChunks);
  check_ladder(config_text("gfx942", "bf16", 512, keys(kDense, kToken)), {{20, 70}, {20, 70}});
  check_ladder(config_text("gfx950", "fp16", 128, keys(kPaged1, "128")), {{33, 150}, {1, 129}});
  check_ladder(
      config_text("gfx942", "bf16", 576, R"("ov_depth": 512, "v_from_k": true, )" + keys(kPaged16, kTensor)),
      {{20, 140}});
}

TEST_CASE("INT8 caches: decode, streaming and whole tiles" * doctest::test_suite("breadth")) {
  if (!toolchain()) return;
  check_ladder(config_text("gfx90a", "bf16", 128, keys(kPaged16, kHead, kCausal), "decode"), kRows, true);
  check_ladder(config_text("gfx942", "fp16", 64, keys(kRaggedKind, kTensor), "decode"), kRows);
  check_ladder(config_text("gfx950", "bf16", 128, keys(kBlocks, kToken), "decode"), kRows);
  check_ladder(config_text("gfx942", "bf16", 128, keys(kPaged16, "64"), "decode"), kRows, true);
  check_ladder(config_text("gfx90a", "fp16", 256, keys(kDense, "96"), "decode"), kEqual);
  check_ladder(config_text("gfx950", "bf16", 128, keys(kPaged1, kToken, kCausal), "decode"), kRows);
  check_ladder(
      config_text("gfx950", "bf16", 192, R"("ov_depth": 128, )" + keys(kRaggedKind, kHead), "decode"), kRows);
  check_ladder(config_text("gfx942", "bf16", 192, R"("ov_depth": 128, )" + keys(kPaged16, kToken), "decode"),
               kRows);
  check_ladder(config_text("gfx942", "bf16", 576,
                           R"("ov_depth": 512, "v_from_k": true, )" + keys(kPaged16, kTensor), "decode"),
               kRows);
}

TEST_CASE("INT8 kernels are compiled to what the plan says, and widen what a tile has once") {
  if (!toolchain()) return;
  for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
    CAPTURE(target);
    check_compiled(config_text(target, "bf16", 128, keys(kPaged16, kHead, kCausal)), true);
    const Built& decode = build(config_text(target, "bf16", 128, keys(kPaged16, kHead, kCausal), "decode"));
    const std::string& entry = decode.source.manifest.entry;
    CHECK(decode.module.kernel(entry).scratch_bytes == 0);
    CHECK(decode.module.kernel(entry).vgpr_spills == 0);
    // A tile's keys of 128 columns of K and of V, by 256 threads.
    const int keys = *decode.plan.resolved().BN;
    CHECK(decode.module.count(entry, "v_cvt_f32_i32_sdwa") == static_cast<std::size_t>(2 * keys * 128 / 256));
    for (const char* narrow : {"global_load_ubyte", "global_load_sbyte", "ds_write_b8", "ds_write_b16"})
      CHECK(decode.module.count(entry, narrow) == 0);
  }
}

TEST_CASE("a wait for all but the most that its counter counts has one mutant under two names") {
  if (!toolchain()) return;
  const Built& kernel = build(config_text("gfx942", "bf16", 128, keys(kPaged16, kToken, kCausal)));
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::string> proven;
  int twice = 0;
  for (const amd::Mutation& mutant : amd::mutations(kernel.module, kernel.source.manifest.entry)) {
    const auto [at, fresh] = proven.try_emplace({mutant.offset, mutant.word}, mutant.equivalent);
    twice += fresh ? 0 : 1;
    CHECK_MESSAGE((fresh || at->second == mutant.equivalent), mutant.text);
  }
  CHECK(twice > 0);
}

TEST_CASE("INT8 that no schedule widens is refused by name") {
  const auto says = [&](const std::string& config, const char* what) {
    const std::string said = refusal(config);
    CAPTURE(said);
    CHECK(said.find(what) != std::string::npos);
  };
  const std::string int8 = R"("kv_dtype": "int8")";
  for (const char* operation : {"prefill", "decode"})
    says(config_text("gfx942", "fp8_e4m3fnuz", 128, int8, operation),
         "takes kv_dtype equal to dtype where Q is FP8");
  says(config_text("gfx950", "bf16", 128, int8 + R"(, "schedule": "cdna_prefill_pingpong")"),
       "cdna_prefill_pingpong takes kv_dtype equal to dtype");
  says(config_text("gfx950", "bf16", 128, int8 + R"(, "dma": "lds_direct")"), "widens bytes in registers");
  says(config_text("gfx950", "bf16", 128, keys(kRaggedKind, "48")),
       "takes a scale for whole strips of BK (32)");
  says(config_text("gfx950", "bf16", 128,
                   R"("operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}})"),
       "takes no scales for 16-bit keys");
}
