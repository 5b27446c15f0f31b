// inspect --cycles: what a tile costs by the cycle model, against counts that follow from the shapes alone.
#include <doctest/doctest.h>

#include "tests/cli/command.hpp"

using kiln::test::run_kiln;

namespace {

nlohmann::json model_of(const std::string& config) {
  const auto result = run_kiln("inspect " + config + " --cycles --json");
  REQUIRE(result.status == 0);
  return result.json()["cycle_model"];
}

/// What holds of every model: a tile takes at least what its busiest resource does, and launches the sum of their parts.
void check_consistent(const nlohmann::json& m) {
  double most = 0;
  for (const auto& [name, clocks] : m["busy"].items()) most = std::max(most, clocks.get<double>());
  CHECK(m["clocks"]["tile"].get<double>() >= most - 1);
  CHECK(m["busy"][m["bound"].get<std::string>()].get<double>() == doctest::Approx(most));
  CHECK(m["exposed"].get<double>() ==
        doctest::Approx(m["clocks"]["tile"].get<double>() - most).epsilon(0.01));
  CHECK(m["launches"].size() == 5);
  double us = 1e9;
  for (const auto& l : m["launches"]) {  // more keys a query at as many tokens
    CHECK(l["tflops"].get<double>() < m["tflops"].get<double>() * 1.05);
    if (us < 1e9) CHECK(l["us"].get<double>() > us);
    us = l["us"].get<double>();
  }
}

}  // namespace

TEST_CASE("the cycle model counts the products, exponentials and copies of a tile") {
  const auto hopper = model_of("prefill_bf16_d128_sm90a");
  check_consistent(hopper);
  // 2 * 128 * 128 * (128 + 128) FLOP at 4096 a clock; keys and values of 128 rows of 256 bytes each.
  CHECK(hopper["rows"] == 128);
  CHECK(hopper["busy"]["matrix"].get<double>() == doctest::Approx(2048));
  CHECK(hopper["busy"]["copy"].get<double>() == doctest::Approx(2 * 128 * 256 / 36.0));
  const auto blackwell = model_of("prefill_bf16_d128_sm100a");
  check_consistent(blackwell);
  // 256 queries: twice the FLOP at twice the rate, and 256 * 128 exponentials at 16 a clock.
  CHECK(blackwell["rows"] == 256);
  CHECK(blackwell["busy"]["matrix"].get<double>() == doctest::Approx(2048));
  CHECK(blackwell["busy"]["mufu"].get<double>() == doctest::Approx(2048).epsilon(0.01));
  CHECK(blackwell["busy"]["copy"].get<double>() == doctest::Approx(2 * 128 * 256 / 64.0));
  // QK reads both operands from shared memory, PV one: 2 * (128 + 128) rows of 256 bytes and 2 * 128 rows of 256, and the
  // copies write 2 * 128 rows of 256, 128 bytes a clock.
  CHECK(blackwell["busy"]["shared_memory"].get<double>() == doctest::Approx(2048).epsilon(0.02));
}

TEST_CASE("the cycle model of a pair of blocks is that of one of them") {
  const auto pair = model_of("prefill_bf16_d256_pairs_sm100a");
  check_consistent(pair);
  // 128 queries a block: 2 * 128 * 128 * (256 + 256) FLOP at 8192 a clock; half of K and of V are copied.
  CHECK(pair["rows"] == 128);
  CHECK(pair["busy"]["matrix"].get<double>() == doctest::Approx(2048));
  CHECK(pair["busy"]["copy"].get<double>() == doctest::Approx(128 * 512 / 64.0));
  CHECK(pair["tflops"].get<double>() < 2250);
  // Beside it twice a tile of 64 keys of a block alone.
  const auto alone = model_of("prefill_bf16_d256_sm100a");
  check_consistent(alone);
  CHECK(alone["busy"]["matrix"].get<double>() == doctest::Approx(1024));
  CHECK(pair["clocks"]["tile"].get<double>() < 0.8 * 2 * alone["clocks"]["tile"].get<double>());
}

TEST_CASE("the blocks of a pair over latent rows share what both copy" * doctest::test_suite("breadth")) {
  // Half of 128 rows of 576 columns a block, at its 148th of 7.3 TB/s, whichever block runs ahead: the rest is in L2.
  const double clocks = 64 * 576 / (7.3e12 / 148 / 1.855e9);
  for (const auto& [config, bytes] :
       {std::pair{"deepseek_mla_decode_sm100a", 2}, std::pair{"deepseek_mla_decode_fp8_queries_sm100a", 1}}) {
    CAPTURE(config);
    const auto m = model_of(config);
    CHECK(m["busy"]["copy"].get<double>() == doctest::Approx(bytes * clocks).epsilon(0.01));
  }
}

TEST_CASE("sm_103a: the same tile as sm_100a's, with exponentials at twice the rate" *
          doctest::test_suite("breadth")) {
  const auto of = [](const char* target, double offload, const char* mask = "none") {
    const auto m =
        model_of("'{\"target\": \"" + std::string(target) +
                 "\", \"operation\": \"prefill\", \"dtype\": \"bf16\", \"depth\": 64, \"mask\": \"" + mask +
                 "\", \"exp_offload\": " + std::to_string(offload) + "}'");
    check_consistent(m);
    return m;
  };
  const auto b200 = of("sm_100a", 0), b300 = of("sm_103a", 0);
  CHECK(b300["device"] == "B300");
  const auto busy = [](const nlohmann::json& m, const char* what) { return m["busy"][what].get<double>(); };
  CHECK(busy(b200, "mufu") == doctest::Approx(2048).epsilon(0.01));
  CHECK(busy(b300, "mufu") == doctest::Approx(busy(b200, "mufu") / 2));
  for (const char* same : {"matrix", "shared_memory", "copy"})
    CHECK(busy(b300, same) == doctest::Approx(busy(b200, same)));
  const auto tile = [](const nlohmann::json& m) { return m["clocks"]["tile"].get<double>(); };
  CHECK(tile(b300) < 0.85 * tile(b200));
  // What the FMA pipe takes over pays on sm_100a, and costs on sm_103a, which takes it in causal rows alone.
  CHECK(tile(of("sm_100a", 0.25)) < tile(b200));
  CHECK(tile(of("sm_103a", 0.25, "causal")) > tile(of("sm_103a", 0, "causal")));
}

TEST_CASE(
    "the cycle model of decode: every key comes once, at a multiprocessor's share of the memory's rate" *
    doctest::test_suite("breadth")) {
  struct Decode {
    const char* config;
    double tile_bytes, share;  ///< bytes a clock
  };
  // 64 keys of 2 x 128 columns of 16 bits; 64 latent rows of 576; 128 keys of 2 x 128 bytes.
  for (const Decode& d : {Decode{"decode_bf16_d128_sm90a", 64.0 * 256 * 2, 4400 / (132 * 1.6)},
                          Decode{"deepseek_mla_decode_sm90a", 64.0 * 576 * 2, 4400 / (132 * 1.6)},
                          Decode{"deepseek_mla_decode_heads16_sm100a", 64.0 * 576 * 2, 7300 / (148 * 1.855)},
                          Decode{"decode_fp8_d128_paged64_sm100a", 128.0 * 256, 7300 / (148 * 1.855)}}) {
    const auto m = model_of(d.config);
    CAPTURE(d.config);
    CHECK(m["busy"]["copy"].get<double>() == doctest::Approx(d.tile_bytes / d.share));
    const double tile = m["clocks"]["tile"].get<double>(), of_read = m["of_read"].get<double>();
    CHECK(of_read == doctest::Approx(m["busy"]["copy"].get<double>() / tile));
    CHECK(of_read <= 1.001);
    CHECK(m["launches"].size() == 6);
    double before = 0;
    for (const auto& l : m["launches"]) {  // as many keys or more
      CHECK(l["of_read"].get<double>() < of_read);
      CHECK(l["us"].get<double>() >= before * 0.999);
      before = l["us"].get<double>();
    }
  }
}

TEST_CASE("the cycle model says what it has no model of") {
  CHECK(model_of("gpt_oss_decode_sm90a")["problem"].get<std::string>().find("window") != std::string::npos);
  CHECK(model_of("prefill_bf16_d128_sm80")["problem"].get<std::string>().find("sm_90a") != std::string::npos);
  CHECK(run_kiln("inspect prefill_bf16_d128_sm90a --json").json().contains("cycle_model") == false);
}
