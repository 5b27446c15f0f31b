// The text of sm80_prefill kernels: what is in it, what must never be, and that it is a pure function of the
// config.
#include <doctest/doctest.h>

#include <algorithm>
#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/plans.hpp"

using namespace kiln;
using namespace kiln::test;
using Json = nlohmann::ordered_json;

namespace {

KernelSource sm80_source(const Json& more = Json::object()) {
  Json config{{"target", "sm_80"},
              {"operation", "prefill"},
              {"dtype", "bf16"},
              {"depth", 128},
              {"name", "kernel_under_test"}};
  config.update(more);
  return generate(plan_of(config));
}
std::vector<std::string> roles(const Manifest& manifest) {
  std::vector<std::string> out;
  for (const auto& param : manifest.params) out.push_back(param.role);
  return out;
}
bool has(const std::vector<std::string>& list, const std::string& what) {
  return std::find(list.begin(), list.end(), what) != list.end();
}

}  // namespace

TEST_CASE("source stands alone, is unrolled, and is the same every time") {
  for (int depth : {64, 128, 256}) {
    for (const char* mask : {"none", "causal"}) {
      const KernelSource s = sm80_source({{"depth", depth}, {"mask", mask}, {"lse", true}});
      CHECK(s.text == sm80_source({{"depth", depth}, {"mask", mask}, {"lse", true}}).text);
      CHECK(count(s.text, "#include") == 0);
      CHECK(count(s.text, "template") == 0);
      CHECK(count(s.text, "for (int n = ") == 1);  // the loop over KV tiles
      if (std::string_view(mask) == "none") CHECK(count(s.text, "for (") == 1);
      CHECK(std::count(s.text.begin(), s.text.end(), '\n') < 3000);
      CHECK(s.text.substr(0, s.head_bytes).rfind("// kernel_under_test: emitted by kiln", 0) == 0);
      CHECK(s.text[s.head_bytes] == '#');
    }
  }
}

TEST_CASE("the promised number of matrix instructions is there, once per stage body") {
  for (int stages : {1, 2, 3}) {
    const KernelSource s = sm80_source({{"BN", 32}, {"BK", 32}, {"num_kv_stages", stages}});
    const int calls = count(s.text, "  mma_bf16(s_acc") + count(s.text, "  mma_bf16_first(s_acc") +
                      count(s.text, "  mma_bf16(o_acc");
    REQUIRE(s.manifest.expectations.size() == 1);
    CHECK(calls == s.manifest.expectations[0].count);
    CHECK(calls == stages * 2 * (32 / 8) * (128 / 16));
    // Each product has its fragments loaded: one ldmatrix.x4 for two of them, and Q once.
    CHECK(count(s.text, "  ldmatrix_x4(k_reg") + count(s.text, "  ldmatrix_x4_trans(v_reg") == calls / 2);
    CHECK(count(s.text, "  ldmatrix_x4(q_reg") == 128 / 16);
  }
}

TEST_CASE("strips past a depth that BK does not divide are neither copied nor multiplied") {
  const KernelSource s = sm80_source({{"depth", 80}, {"BK", 64}, {"BN", 64}, {"num_kv_stages", 1}});
  CHECK(count(s.text, "(s_acc + ") == 5 * (64 / 8));
  CHECK(count(s.text, "if (k_chunk < 2) cp_async_16") > 0);
}

TEST_CASE("parameters follow operand, mask and LSE") {
  const auto plain = roles(sm80_source().manifest);
  CHECK(has(plain, "seqlen_k"));
  CHECK(has(plain, "q_stride_batch"));
  CHECK_FALSE(has(plain, "lse"));
  CHECK_FALSE(has(plain, "scale"));
  const auto ragged = roles(sm80_source({{"operand", {{"kind", "ragged"}}}, {"lse", true}}).manifest);
  CHECK(has(ragged, "cu_seqlens_q"));
  CHECK(has(ragged, "total_q"));
  CHECK(has(ragged, "lse"));
  CHECK_FALSE(has(ragged, "seqlen_q"));
  CHECK_FALSE(has(ragged, "q_stride_batch"));
}

TEST_CASE("types choose their instructions") {
  const KernelSource bf16 = sm80_source(), fp16 = sm80_source({{"dtype", "fp16"}}),
                     mixed = sm80_source({{"out_dtype", "fp16"}});
  CHECK(count(bf16.text, "f32.f16.f16") == 0);
  CHECK(count(fp16.text, "bf16") == 0);
  CHECK(count(mixed.text, "mma_fp16") == 0);
  CHECK(count(mixed.text, "pack_fp16(o_acc") > 0);
}

TEST_CASE("unmasked kernels have no causal code, kernels without LSE none for it") {
  const KernelSource s = sm80_source();
  CHECK(count(s.text, "clean_keys") == 0);
  CHECK(count(s.text, "float* lse") == 0);
  CHECK(count(s.text, "log2_approx") == 0);
  CHECK(count(s.text, "row_0") == 0);
}

TEST_CASE("every stage is copied ahead of its use") {
  const KernelSource s = sm80_source({{"BN", 32}, {"BK", 32}, {"num_kv_stages", 3}});
  const std::string& t = s.text;
  // While stage 0 is computed, stage 2 is filled; with three stages one group may stay in flight.
  const auto body = t.find("KV tile n in stage 0");
  REQUIRE(body != std::string::npos);
  CHECK(t.find("// load_k_stage2", body) < t.find("KV tile n in stage 1"));
  CHECK(count(t, "CP_ASYNC_WAIT(1);") == 4);
  CHECK(count(t, "__syncthreads();") == 4);
}
