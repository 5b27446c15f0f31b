// sm_103a beside sm_100a: the same configs, refusals and kernels, but for what the constants of the targets change.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/targets/target.hpp"

using namespace kiln;
namespace fs = std::filesystem;

namespace {

/// The shipped configs of sm_100a with another target.
std::vector<nlohmann::ordered_json> configs_for(const char* target) {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(KILN_SOURCE_DIR "/configs/sm_100a"))
    files.push_back(file.path());
  std::sort(files.begin(), files.end());
  std::vector<nlohmann::ordered_json> out;
  for (const auto& file : files) {
    std::ifstream in(file);
    auto config = json_of(std::string(std::istreambuf_iterator<char>(in), {}));
    config["target"] = target;
    config["name"] = "kernel";
    out.push_back(std::move(config));
  }
  return out;
}

KernelSource source_of(const nlohmann::ordered_json& config) {
  return generate(make_plan(parse_config(write_json(config), "config")));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string as_sm_100a(std::string text) {
  for (const char* name : {"sm_", "compute_", "FEAT_SM", "_sm"})
    text = replaced(std::move(text), name + std::string("103"), name + std::string("100"));
  return text;
}

/// Lines that only one of two texts has and that have nothing to do with registers of roles, unrolling or, with `maxima`, with the
/// load of scores and the largest of them.
std::string unlike_lines(const std::string& a, const std::string& b, bool maxima) {
  std::map<std::string, int> lines;
  const auto add = [&](const std::string& text, int sign) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      line.erase(0, line.find_first_not_of(' '));
      lines[line] += sign;
    }
  };
  add(a, 1), add(b, -1);
  std::string out;
  for (const auto& [line, count] : lines) {
    bool expected = line.starts_with("SETMAXNREG_") || line.starts_with("// Registers: ") ||
                    line.starts_with("#pragma unroll");
    for (const char* part :
         {"max", "tmem_load_", "tcgen05.ld", "tcgen05.wait::ld", "\"=f\"(x[", ": \"r\"(at)", "[%"})
      expected |= maxima && line.find(part) != std::string::npos;
    expected |= maxima && (line == "asm volatile(" || line == "}" || line.empty() ||
                           line.starts_with("// ") || line.starts_with("\"%"));
    if (count != 0 && !expected) out += line + "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("sm_103a is sm_100a but for its constants") {
  const TargetInfo &b200 = target_info(Target::sm_100a), &b300 = target_info(Target::sm_103a);
  CHECK(b300.target == Target::sm_103a);
  CHECK(b300.smem_bytes == b200.smem_bytes);
  CHECK(b300.registers == b200.registers);
  CHECK(b300.matrix.data() == b200.matrix.data());
  CHECK(b300.ex2_per_clock == 2 * b200.ex2_per_clock);
  for (const KeySpec& key : config_keys())
    CHECK_MESSAGE(
        ((key.targets & only(Target::sm_100a)) != 0) == ((key.targets & only(Target::sm_103a)) != 0),
        key.name);
  const auto names = [](Target target) {
    std::vector<std::string> out;
    for (const ScheduleEntry& entry : schedules())
      if (entry.target == target) out.emplace_back(entry.name);
    return out;
  };
  CHECK(names(Target::sm_103a) == names(Target::sm_100a));
  CHECK(names(Target::sm_103a).size() == 5);
}

TEST_CASE(
    "every shipped config of sm_100a is the same kernel on sm_103a, but for maxima and registers of sm100_prefill") {
  const auto b200 = configs_for("sm_100a"), b300 = configs_for("sm_103a");
  REQUIRE(b200.size() > 50);
  int same = 0, by_load = 0;
  for (std::size_t i = 0; i < b200.size(); ++i) {
    CAPTURE(write_json(b200[i]));
    const KernelSource first = source_of(b200[i]), second = source_of(b300[i]);
    CHECK(second.manifest.target == "sm_103a");
    CHECK(second.text.find("arch=compute_103a,code=sm_103a") != std::string::npos);
    CHECK(second.text.find("!defined(__CUDA_ARCH_FEAT_SM103_ALL)") != std::string::npos);
    const std::string text = as_sm_100a(second.text);
    if (first.text.find("Schedule sm100_prefill") == std::string::npos) {
      CHECK(text == first.text);
      ++same;
      continue;
    }
    const bool bits = b200[i].contains("mask") && b200[i]["mask"] == "custom",
               loads = text.find("tcgen05.ld.red.sync.aligned.32x32b") != std::string::npos;
    CHECK(loads == (!bits && !b200[i].contains("score_mod")));
    CHECK(first.text.find("tcgen05.ld.red") == std::string::npos);
    CHECK(unlike_lines(first.text, text, loads) == "");
    by_load += loads ? 1 : 0;
  }
  CHECK(same > 20);
  CHECK(by_load > 20);
}

TEST_CASE("a row's maximum is looked for again where a mask cuts a tile or a scale is negative") {
  const auto count = [](const std::string& text, std::string_view part) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
    return n;
  };
  const nlohmann::ordered_json config{
      {"target", "sm_103a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 128}, {"mask", "causal"}};
  const std::string causal = source_of(config).text;
  CHECK(count(causal, "float tile_max = tmem_load_max_128(s, s_at);") == 1);
  CHECK(count(causal, "        tile_max = fmaxf(") == 1);
  CHECK(count(causal, "tcgen05.ld.red.sync.aligned.32x32b.x32.max.f32") == 4);
  auto scaled = config;
  scaled["dtype"] = "fp8_e4m3";
  scaled["operand"] = {{"kind", "ragged"}, {"quantization", {{"granularity", "per_head"}}}};
  CHECK(count(source_of(scaled).text, "        tile_max = fmaxf(") == 2);
  // A modifier changes every score: the maximum of what was loaded says nothing.
  auto modified = config;
  modified["score_mod"] = {{"softcap", 30.0}};
  CHECK(count(source_of(modified).text, "const float tile_max = fmaxf(") == 1);
  CHECK(count(source_of(modified).text, "ld.red") == 0);
}

TEST_CASE("what sm_100a refuses, sm_103a refuses in the same words") {
  for (const char* keys :
       {R"("depth": 528)", R"("depth": 128, "BM": 48)",
        R"("depth": 64, "exp_offload": 0.5, "mask": "causal", "operand": {"kind": "paged", "page_size": 64})",
        R"("depth": 128, "pair_cta": true, "BM": 128)", R"("depth": 128, "WM": 16)",
        R"("depth": 128, "mask": "causal", "num_threads": 256)"}) {
    const auto refusal = [&](const std::string& target) {
      try {
        make_plan(parse_config(
            R"({"target": ")" + target + R"(", "operation": "prefill", "dtype": "bf16", )" + keys + "}",
            "config"));
      } catch (const Error& error) {
        return as_sm_100a(error.what());
      }
      return std::string();
    };
    CHECK(refusal("sm_100a") != "");
    CHECK(refusal("sm_103a") == refusal("sm_100a"));
  }
}

TEST_CASE("the timeline of sm_103a has shorter softmax") {
  const auto end = [](const char* target) {
    const nlohmann::ordered_json config{
        {"target", target}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 64}};
    const Timeline timeline = make_plan(parse_config(write_json(config), "config")).schedule().timeline();
    double last = 0;
    for (const TimelineSpan& span : timeline.spans) last = std::max(last, span.end);
    return last;
  };
  CHECK(end("sm_103a") < 0.8 * end("sm_100a"));
}
