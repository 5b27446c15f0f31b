// What `kiln plan` says of copies, bytes and waits is what the kernel's text does, for every shipped NVIDIA config that
// copies 16-bit keys. (AMD: the planned against the compiled instructions, tests/cdna.)
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/defaults.hpp"
#include "generator/config/json_text.hpp"

using namespace kiln;
namespace fs = std::filesystem;

namespace {

struct Shipped {
  Plan plan;
  nlohmann::json systems;
  std::string text;
};

std::vector<Shipped> shipped_of_16_bits(const char* target) {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(fs::path(KILN_SOURCE_DIR) / "configs" / target))
    files.push_back(file.path());
  std::sort(files.begin(), files.end());
  std::vector<Shipped> out;
  for (const auto& file : files) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    const Plan plan = make_plan(parse_config(text.str(), file.filename().string()));
    if (size_of(*plan.resolved().kv_dtype) != 2) continue;
    out.push_back({plan, json_of(plan.to_json())["systems"], generate(plan).text});
  }
  return out;
}

std::vector<std::smatch> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()};
}

/// Copies, bytes, slots, barriers and waits of the tiles of K (or V) that a ring takes.
void check_ring(const Shipped& s, const std::string& role) {
  const auto& pipeline = s.systems["tma_consumer_pipeline"][role];
  const auto& operand = s.systems["mha_operand"][role];
  const int chunks = pipeline["num_qk_stages_effective"], stages = pipeline["num_kv_stages"];
  const auto expected = matches(s.text, fmt::format(R"(arrive_expect_tx\(mbar_{}_full[^,]*, (\d+)\))", role));
  REQUIRE(!expected.empty());
  CHECK(expected.size() % static_cast<std::size_t>(chunks) == 0);
  const int tiles = static_cast<int>(expected.size()) / chunks;
  int bytes = 0;
  for (const auto& match : expected) bytes += std::stoi(match[1]);
  // The first block of a pair expects what both load; of V in K's rows, which is copied apart, each its own.
  const bool latent = pairs_latent_rows(s.plan.resolved()), latent_v = latent && role == "v";
  const int blocks = s.plan.resolved().pair_cta.value_or(false) && !latent_v ? 2 : 1;
  CHECK(bytes == tiles * blocks * pipeline["full_kv_bytes"].get<int>());
  // Rotary columns of a tensor of their own are panels of K's tile, but beside latent columns on sm_90a.
  const bool apart = s.plan.resolved().v_from_k.value_or(false) && s.plan.resolved().target == Target::sm_90a;
  const char* const of = apart ? "" : "(_rope)?";
  const auto loads = matches(s.text, fmt::format(R"(tma_(?:load|gather4)\w*\({}.*&{}{}_map)",
                                                 latent ? "smem_" + role : "", latent ? "k" : role, of));
  // What has no pages to look up comes in K's boxes, half of V's rows after the other.
  const bool halves = latent_v && s.plan.resolved().operand->kind != OperandKind::paged;
  const int rounds = (operand["num_pages"].get<int>() + 31) / 32 * (halves ? 2 : 1);
  CHECK(static_cast<int>(loads.size()) ==
        tiles * rounds * pipeline["num_panels"].get<int>() / operand["fold_chunks"].get<int>());
  for (const auto& load : loads) {
    if (stages == 1) continue;
    CHECK(load.str().find(fmt::format("{}_stage * {} ", role, pipeline["slot_bytes"].get<int>())) !=
          std::string::npos);
  }
  const bool own = role == "k" || pipeline["shared_ring"] == false;
  CHECK(static_cast<int>(matches(s.text, fmt::format("mbarrier_init\\(mbar_{}_full", role)).size()) ==
        (own ? stages * chunks : 0));
  const auto waits = matches(s.text, fmt::format("mbarrier_wait\\(mbar_{}_full", role));
  CHECK(!waits.empty());
  CHECK(waits.size() % static_cast<std::size_t>(chunks) == 0);
}

/// The rings of every shipped config of `target`: how many.
int check_rings(const char* target) {
  int seen = 0;
  for (const Shipped& s : shipped_of_16_bits(target)) {
    CAPTURE(*s.plan.resolved().name);
    for (const std::string role : {"k", "v"}) {
      if (role == "v" && *s.plan.resolved().v_from_k && !pairs_latent_rows(s.plan.resolved())) continue;
      CAPTURE(role);
      check_ring(s, role);
      ++seen;
    }
  }
  return seen;
}

}  // namespace

TEST_CASE("sm_90a: copies, bytes, slots, barriers and waits of a tile are the planned ones") {
  CHECK(check_rings("sm_90a") > 80);
}

TEST_CASE("sm_100a: copies, bytes, slots, barriers and waits of a tile are the planned ones") {
  CHECK(check_rings("sm_100a") > 70);
}

TEST_CASE("sm_100a: products are issued to the planned columns of tensor memory") {
  for (const Shipped& s : shipped_of_16_bits("sm_100a")) {
    CAPTURE(*s.plan.resolved().name);
    const auto& pipeline = s.systems["tma_consumer_pipeline"];
    const int s_0 = pipeline["k"]["tmem_0"], s_1 = pipeline["k"]["tmem_1"];
    const auto issued = [&](const std::string& what, const std::string& to) {
      return !matches(s.text, fmt::format(R"({}(_\d)?\(tmem \+ {},)", what, to)).empty();
    };
    const bool prefill = s.plan.resolved().schedule == "sm100_prefill";
    if (prefill && s.plan.resolved().num_threads == 384) {
      CHECK(issued("issue_scores", fmt::format(R"(turn \* {})", s_1 - s_0)));
      CHECK(issued("issue_scores", fmt::format(R"(\(turn \^ 1\) \* {})", s_1 - s_0)));
    } else if (prefill) {
      CHECK(issued("issue_scores", std::to_string(s_0)));
      CHECK(issued("issue_scores", std::to_string(s_1)));
    } else {
      CHECK(issued("issue_scores", fmt::format(R"(s_buffer \* {})", s_1 - s_0)));
    }
    for (const char* column : {"tmem_0", "tmem_1"})
      CHECK(issued("issue_output", std::to_string(pipeline["v"][column].get<int>())));
  }
}

TEST_CASE("sm_80: copies of a load, bytes of a stage and registers of fragments are the planned ones") {
  int seen = 0;
  for (const Shipped& s : shipped_of_16_bits("sm_80")) {
    if (!s.systems.contains("kv_buffer")) continue;
    CAPTURE(*s.plan.resolved().name);
    for (const std::string role : {"k", "v"}) {
      CAPTURE(role);
      const auto& buffer = s.systems["kv_buffer"][role];
      for (const auto& load : matches(s.text, fmt::format("// load_{}_stage[^/]*", role))) {
        const std::string text = load.str();
        CHECK(static_cast<int>(matches(text, fmt::format(R"(cp_async_\w+\({}_dst)", role)).size()) ==
              buffer["vm_exact"].get<int>());
        ++seen;
      }
      const auto place = matches(s.text, R"(smem_k = smem_q \+ (\d+), smem_v = smem_q \+ (\d+);)");
      REQUIRE(place.size() == 1);
      CHECK(std::stoi(place[0][2]) - std::stoi(place[0][1]) ==
            *s.plan.resolved().num_kv_stages * s.systems["kv_buffer"]["k"]["smem_stage_bytes"].get<int>());
    }
  }
  CHECK(seen > 60);
}
