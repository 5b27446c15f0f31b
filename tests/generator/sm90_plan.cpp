// sm90_prefill as planned and emitted: defaults, documented constants, layout proofs, budgets, and what is
// refused.
#include <doctest/doctest.h>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>
#include <regex>
#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "generator/schedules/schedule.hpp"
#include "tests/generator/plans.hpp"

using namespace kiln;
using namespace kiln::test;
using Json = nlohmann::ordered_json;

namespace {

Json sm90_prefill(const Json& more = Json::object()) {
  Json config{{"target", "sm_90a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 128}};
  config.update(more);
  return config;
}
int count_matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), expression), std::sregex_iterator()));
}

}  // namespace

TEST_CASE("a minimal sm_90a config resolves to tiles, roles and stages") {
  const Json plan = json_of(plan_of(sm90_prefill()).to_json());
  const Json& r = plan["resolved"];
  CHECK(r["schedule"] == "sm90_prefill");
  CHECK(r["BM"] == 128);
  CHECK(r["BN"] == 128);
  CHECK(r["BK"] == 128);
  CHECK(r["num_threads"] == 384);
  CHECK(r["num_kv_stages"] == 2);
  CHECK(r["num_qk_stages"] == 1);
  CHECK(r["swizzle"] == "128B");
  CHECK(r["mma_shape"] == Json{64, 128, 16});
  CHECK(plan["resources"]["smem_bytes"].get<int>() <= 232448);
  CHECK(plan["resources"]["num_threads"] == 384);
}

TEST_CASE("the K and V rings have the constants of the consumer pipeline") {
  const Json systems =
      json_of(plan_of(sm90_prefill({{"num_qk_stages", 2}})).to_json())["systems"]["tma_consumer_pipeline"];
  const Json &k = systems["k"], &v = systems["v"];
  CHECK(k["is_k_major"] == true);
  CHECK(k["BMN"] == 128);
  CHECK(k["BK"] == 64);
  CHECK(k["num_qk_stages_effective"] == 2);
  CHECK(k["staged_k_bytes"] == 128 * 64 * 2);
  CHECK(k["full_kv_bytes"] == 128 * 128 * 2);
  CHECK(k["num_barriers"] == 2 * 2 * 2);
  CHECK(v["is_k_major"] == false);
  CHECK(v["num_qk_stages_effective"] == 1);
  CHECK(v["full_kv_bytes"] == 128 * 128 * 2);
  CHECK(v["num_barriers"] == 2 * 2);
  // Without rope the chunks of a K slot fill it (property G-12).
  CHECK(k["num_qk_stages"].get<int>() * k["staged_k_bytes"].get<int>() == k["full_kv_bytes"].get<int>());
}

TEST_CASE("every operand tile is where its descriptors look, in every swizzle") {
  for (const int depth : {64, 96, 128, 192, 256}) {
    for (const char* swizzle : {"auto", "64B", "32B"}) {
      const Plan plan = plan_of(sm90_prefill({{"depth", depth}, {"swizzle", swizzle}}));
      const auto proofs = plan.schedule().layout_proofs();
      CHECK(proofs.size() == 6);
      for (const auto& proof : proofs) CHECK_MESSAGE(proof.holds, depth, " ", swizzle, " ", proof.what);
    }
  }
}

TEST_CASE(
    "the emitted kernel holds the planned number of matrix instructions and registers within the launch's "
    "pool") {
  for (const char* mask : {"none", "causal"}) {
    for (const int depth : {64, 128, 256}) {
      const KernelSource source = generate(plan_of(sm90_prefill({{"depth", depth}, {"mask", mask}})));
      const int bn = json_of(source.manifest.config_json)["BN"];
      const int bodies = std::string(mask) == "causal" ? 2 : 1;
      const auto called = [&](int n, const char* form) {
        return count_matches(source.text,
                             "\\n +wgmma_m64n" + std::to_string(n) + "k16_" + form + "(_first)?\\(");
      };
      CHECK(called(bn, "ss") == (1 + bodies) * depth / 16);
      CHECK(called(depth, "rs") == (1 + bodies) * bn / 16);
      // setmaxnreg redistributes what the launch allocated; asking for more would wait for ever.
      std::smatch dec, inc;
      REQUIRE(std::regex_search(source.text, dec, std::regex("SETMAXNREG_DEC\\((\\d+)\\);")));
      REQUIRE(std::regex_search(source.text, inc, std::regex("SETMAXNREG_INC\\((\\d+)\\);")));
      const int groups = source.manifest.num_threads / 128;
      const int launch = 65536 / source.manifest.num_threads / 8 * 8 * groups;
      CHECK(std::stoi(dec[1]) + (groups - 1) * std::stoi(inc[1]) <= launch);
      CHECK(source.text.find("#include") == std::string::npos);
    }
  }
}

TEST_CASE("two blocks of a cluster load half of every tile each") {
  const KernelSource source = generate(plan_of(sm90_prefill({{"BN", 128}, {"cluster", 2}})));
  CHECK(source.manifest.cluster == std::array<int, 3>{2, 1, 1});
  CHECK(source.manifest.grid.block_rows == 256);
  CHECK(source.manifest.params[1].map.dims[1].box == 64);
  CHECK(source.manifest.params[2].map.dims[1].box == 64);
  // The rank in a shared address (bits 24 on) must not reach a descriptor's leading byte offset.
  CHECK(count_matches(source.text, "const u32 [qkv]_desc = ") == 3);
  CHECK(count_matches(source.text, "_desc = \\(\\(\\([^;]*\\) & 0x3ffff\\) >> 4\\)") == 3);
  CHECK(count_matches(source.text, "mbarrier_init\\(mbar_[kv]_empty, 16\\)") == 2);
  CHECK(count_matches(source.text, "mbarrier_init\\(mbar_[kv]_empty \\+ \\d+, 16\\)") == 2);
}

TEST_CASE("what sm90_prefill cannot do is refused at its key") {
  CHECK(refused_at(sm90_prefill({{"BM", 96}}), "/BM", "schema"));
  CHECK(refused_at(sm90_prefill({{"BN", 192}}), "/BN", "sm90_prefill"));  // registers
  CHECK(refused_at(sm90_prefill({{"BN", 100}}), "/BN", "schema"));
  CHECK(refused_at(sm90_prefill({{"BK", 64}}), "/BK", "V8"));
  CHECK(refused_at(sm90_prefill({{"num_kv_stages", 4}}), "/num_kv_stages", "V15"));
  CHECK(refused_at(sm90_prefill({{"num_kv_stages", 1}}), "/num_kv_stages", "V25"));
  CHECK(refused_at(sm90_prefill({{"num_threads", 256}}), "/num_threads", "sm90_prefill"));
  CHECK(refused_at(sm90_prefill({{"mma_shape", {64, 64, 16}}}), "/mma_shape", "sm90_prefill"));
  CHECK(refused_at(sm90_prefill({{"depth", 96}, {"swizzle", "128B"}}), "/swizzle", "V20"));
  CHECK(refused_at(sm90_prefill({{"swizzle", "none"}}), "/swizzle", "V20"));
  CHECK(refused_at(sm90_prefill({{"cluster", 4}}), "/cluster", "sm90_prefill"));
  CHECK(refused_at(sm90_prefill({{"cluster", 2}, {"mask", "causal"}}), "/cluster", "sm90_prefill"));
}

TEST_CASE("default tiles of FP8 with scales of tokens fit beside what finds the items of ragged rows") {
  for (const int depth : {64, 96, 128, 160, 192, 224, 256})
    for (const char* out : {"bf16", "f32"})
      for (const Json& operand :
           {Json{{"kind", "ragged"}}, Json{{"kind", "continuous"}}, Json{{"kind", "paged"}, {"page_size", 1}},
            Json{{"kind", "paged"}, {"page_size", 64}}}) {
        Json config =
            sm90_prefill({{"dtype", "fp8_e4m3"}, {"depth", depth}, {"out_dtype", out}, {"operand", operand}});
        config["operand"]["quantization"] = {{"granularity", "per_token"}};
        CAPTURE(write_json(config));
        CHECK_NOTHROW(plan_of(config));
      }
}

TEST_CASE("few rows of a page are copied to whole 128 bytes, whether the swizzle is written or not") {
  const Json config = sm90_prefill({{"depth", 112}, {"operand", {{"kind", "paged"}, {"page_size", 6}}}});
  const Plan plan = plan_of(config);
  CHECK(config_to_dom(plan.resolved())["swizzle"] == "128B");
  CHECK(plan_of(config_to_dom(plan.resolved())).to_json() == plan.to_json());
  // Whole tiles take the widest span that divides a row of 224 bytes.
  CHECK(config_to_dom(plan_of(sm90_prefill({{"depth", 112}})).resolved())["swizzle"] == "32B");
  CHECK(refused_at(sm90_prefill({{"depth", 112}, {"swizzle", "128B"}}), "/swizzle", "V20"));
}

TEST_CASE("warpgroups take turns only where there are two") {
  const auto schedule = [](const Json& more) { return *plan_of(sm90_prefill(more)).resolved().schedule; };
  CHECK(schedule({{"depth", 64}}) == "sm90_prefill_pingpong");
  CHECK(schedule({{"depth", 64}, {"BM", 64}}) == "sm90_prefill");
  CHECK(schedule({{"score_mod", "alibi"}}) == "sm90_prefill_pingpong");
  CHECK(refused_at(sm90_prefill({{"BM", 64}, {"schedule", "sm90_prefill_pingpong"}}), "/BM",
                   "sm90_prefill_pingpong"));
}

TEST_CASE("a soft cap is part of the exponent where the cap leaves a polynomial room") {
  const auto text = [](double cap) {
    return generate(plan_of(sm90_prefill({{"score_mod", {{"softcap", cap}}}}))).text;
  };
  CHECK(count_matches(text(50), "softcap_near\\(s_acc") > 0);
  CHECK(count_matches(text(30), "softcap_near\\(s_acc") > 0);
  CHECK(count_matches(text(20), "softcap_near") == 0);
  CHECK(count_matches(text(1e5), "softcap_near") == 0);
  CHECK(count_matches(text(20), "tanh_approx\\(s_acc") > 0);
}

TEST_CASE("a warpgroup leaves out tiles that only later rows see") {
  CHECK(count_matches(generate(plan_of(sm90_prefill({{"mask", "causal"}, {"depth", 64}}))).text,
                      "for \\(; n >= own_blocks; --n\\)") == 1);
  CHECK(count_matches(generate(plan_of(sm90_prefill({{"mask", "none"}, {"depth", 64}}))).text,
                      "own_blocks") == 0);
  CHECK(count_matches(generate(plan_of(sm90_prefill({{"mask", "causal"}, {"depth", 128}}))).text,
                      "own_blocks") == 0);
  CHECK(count_matches(generate(plan_of(sm90_prefill({{"mask", "causal"}, {"BM", 64}}))).text, "own_blocks") ==
        0);
}
