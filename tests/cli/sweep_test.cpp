// What `kiln sweep` selects: covering subsets of every strength, and parts for several processes.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/command.hpp"

namespace kiln::test {
namespace {

using Json = nlohmann::json;

// Depth 100 is refused, and so are scales of 16-bit keys: not every two values meet.
const std::string kSweep = R"({"base": {"target": "sm_80", "operation": "decode"}, "grids": [{
  "dtype": ["bf16", "fp16"], "depth": [64, 100, 128, 256], "mask": ["none", "causal", {"sliding_window": 70}],
  "operand": [{"kind": "contiguous"}, {"kind": "ragged"}, {"kind": "paged", "page_size": 8},
              {"kind": "ragged", "quantization": {"granularity": "per_head"}}],
  "kv_dtype": [null, "fp8_e4m3", "int8"], "lse": [true], "sink": [false, true], "split_kv": [null, 3]}]})";
const std::vector<std::string> kKeys = {"dtype", "depth", "mask", "operand", "kv_dtype", "sink", "split_kv"};

std::vector<Json> listed(const std::string& sweep, const std::string& options) {
  const auto result = run_kiln("sweep - --list --json " + options, sweep);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return result.json().get<std::vector<Json>>();
}

// The values of `strength` keys at a time, as one text each.
std::set<std::string> tuples(const std::vector<Json>& configs, std::size_t strength) {
  std::set<std::string> all;
  std::vector<bool> taken(kKeys.size());
  std::fill_n(taken.begin(), strength, true);
  do {
    for (const Json& config : configs) {
      Json values = Json::object();
      for (std::size_t i = 0; i < kKeys.size(); ++i) {
        if (taken[i]) values[kKeys[i]] = config.contains(kKeys[i]) ? config[kKeys[i]] : Json();
      }
      all.insert(values.dump());
    }
  } while (std::prev_permutation(taken.begin(), taken.end()));
  return all;
}

TEST_CASE("a covering subset of strength t has every t values that meet in a valid combination") {
  const std::vector<Json> valid = listed(kSweep, "");
  std::size_t before = 0;
  for (std::size_t strength = 1; strength <= 4; ++strength) {
    CAPTURE(strength);
    const std::vector<Json> cover = listed(kSweep, "--cover --strength " + std::to_string(strength));
    CHECK(tuples(cover, strength) == tuples(valid, strength));
    // No member is there for nothing: each is first to show some tuple.
    for (std::size_t n = cover.size(); n-- > 0;) {
      const std::vector<Json> fewer(cover.begin(), cover.begin() + static_cast<std::ptrdiff_t>(n));
      const std::vector<Json> with(cover.begin(), cover.begin() + static_cast<std::ptrdiff_t>(n + 1));
      CHECK(tuples(with, strength).size() > tuples(fewer, strength).size());
    }
    CHECK(cover.size() > before);
    CHECK(cover.size() < valid.size());
    before = cover.size();
  }
  CHECK(listed(kSweep, "--cover") == listed(kSweep, "--cover --strength 2"));
}

TEST_CASE("grids of few keys are covered whole") {
  const std::string head =
      R"({"base": {"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64,
    "mask": "causal"}, "grids": [)";
  CHECK(listed(head + "{}]}", "--cover").size() == 1);
  CHECK(listed(head + R"({"depth": [64, 128]}, {"lse": [true]}]})", "--cover --strength 3").size() == 3);
  CHECK(listed(head + R"({"depth": [64, 128], "lse": [true, false]}]})", "--cover --strength 3").size() == 4);
  CHECK(listed(head + R"({"depth": [64, 128], "lse": [true, false]}]})", "--cover --strength 1").size() == 2);
}

TEST_CASE("shards are equal parts of what was selected, without overlap" * doctest::test_suite("breadth")) {
  for (const std::string selection : {"", "--cover --strength 3", "--sample 50 --seed 5", "--limit 41"}) {
    CAPTURE(selection);
    const std::vector<Json> whole = listed(kSweep, selection);
    std::vector<std::string> joined, all;
    for (const Json& config : whole) all.push_back(config.dump());
    std::size_t generated = 0;
    for (int part = 1; part <= 7; ++part) {
      const std::string options = selection + " --shard " + std::to_string(part) + "/7";
      const std::vector<Json> shard = listed(kSweep, options);
      CHECK(shard.size() >= whole.size() / 7);
      CHECK(shard.size() <= whole.size() / 7 + 1);
      for (const Json& config : shard) joined.push_back(config.dump());
      generated +=
          run_kiln("sweep - --no-compile --json " + options, kSweep).json()["generated"].get<std::size_t>();
    }
    CHECK(generated == listed(kSweep, "").size());
    std::sort(joined.begin(), joined.end());
    std::sort(all.begin(), all.end());
    CHECK(joined == all);
  }
}

TEST_CASE("what shards pass adds up, and each is run as it is without shards") {
  const std::string sweep = R"({"base": {"target": "sm_80", "operation": "prefill", "dtype": "bf16",
    "depth": 64}, "grids": [{"mask": ["none", "causal"], "lse": [false, true]}]})";
  const std::string options = "sweep - --run --cover --json";
  const auto whole = run_kiln(options, sweep);
  if (whole.status == 3) {
    MESSAGE("skipped: " << whole.err);
    return;
  }
  REQUIRE_MESSAGE(whole.status == 0, whole.err);
  CHECK(whole.json()["run"] == 4);
  int compiled = 0, passed = 0;
  for (const char* shard : {" --shard 1/3", " --shard 2/3", " --shard 3/3"}) {
    const Json part = run_kiln(options + shard, sweep).json();
    CHECK(part["run"] == part["passed"]);
    compiled += part["compiled"].get<int>();
    passed += part["passed"].get<int>();
  }
  CHECK(compiled == 4);
  CHECK(passed == 4);
}

TEST_CASE("a part or a strength that is none is refused") {
  for (const char* option : {"--shard 0/3", "--shard 4/3", "--shard 3", "--shard 1/3x", "--shard -1/3",
                             "--shard 1/0", "--shard /", "--strength 0", "--strength 5"}) {
    CAPTURE(option);
    const auto result = run_kiln(std::string("sweep - ") + option, kSweep);
    CHECK(result.status == 2);
    CHECK_MESSAGE(is_one_line(result.err), result.err);
  }
}

// A compiler that refuses every kernel with a sink stands for a fault of one key.
TEST_CASE("a failing member is shrunk to the keys that fail") {
  const std::string compiler = scratch() + "clang", log = scratch() + "shrunk.jsonl";
  std::ofstream(compiler) << R"(#!/bin/sh
clang=$(command -v clang-22) || exit 1
for file; do
  if [ -f "$file" ] && grep -q 'sink.head.' "$file"; then echo "kernel.hip:1:1: error: no sinks here" >&2; exit 1; fi
done
exec "$clang" "$@"
)";
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  const std::string sweep =
      R"({"base": {"target": "gfx942", "operation": "prefill", "dtype": "bf16", "depth": 64,
    "mask": "causal", "lse": true}, "grids": [{"sink": [false, true]}]})";
  const auto result = run_kiln("sweep - --json --log " + log, sweep, "KILN_CLANG=" + compiler);
  if (result.status == 3) {
    MESSAGE("skipped: " << result.err);
    return;
  }
  CHECK(result.status == 1);
  const Json report = result.json();
  CHECK(report["compiled"] == 1);
  REQUIRE(report["failed"].size() == 1);
  const Json& failed = report["failed"][0];
  CHECK(failed["level"] == "compile");
  CHECK(failed["error"].get<std::string>().find("no sinks here") != std::string::npos);
  CHECK(failed["smallest"] == Json::parse(R"({"target": "gfx942", "operation": "prefill", "dtype": "bf16",
    "depth": 64, "sink": true})"));
  // From the log the same is told without another trial.
  const auto again = run_kiln("sweep - --json --log " + log, sweep, "KILN_CLANG=" + compiler);
  CHECK(again.status == 1);
  CHECK(again.json()["resumed"] == 2);
  CHECK(again.json()["failed"] == report["failed"]);
}

TEST_CASE("a sweep with a log goes on where it was, and makes a page") {
  const std::string sweep =
      R"({"base": {"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64}, "grids": [{"mask": ["none", "causal"]}]})";
  const std::string log = scratch() + "sweep.jsonl", page = scratch() + "sweep.html";
  const auto first = run_kiln("sweep - --limit 1 --json --log " + log, sweep);
  REQUIRE_MESSAGE(first.status == 0, first.err);
  CHECK(first.json()["resumed"] == 0);
  std::ofstream(log, std::ios::app) << R"({"config": {"cut sh)";  // killed while it wrote
  const auto second = run_kiln("sweep - --json --log " + log + " --html " + page, sweep);
  REQUIRE_MESSAGE(second.status == 0, second.err);
  CHECK(second.json()["resumed"] == 1);
  CHECK(second.json()["compiled"] == 2);
  std::ifstream in(log);
  std::size_t lines = 0;
  for (std::string line; std::getline(in, line); ++lines)
    CHECK(Json::parse(line, nullptr, false).is_object());
  CHECK(lines == 3);
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  CHECK(text.str().find(R"("mask":"causal"},"level":"passed")") != std::string::npos);
  // The log of another sweep, and what is no log, are left as they are.
  CHECK(run_kiln("sweep - --no-compile --seed 3 --log " + log, sweep).status == 2);
  CHECK(run_kiln("sweep - --no-compile --log " KILN_SOURCE_DIR "/README.md", sweep).status == 2);
}

TEST_CASE("bench --compare tells what is faster from what is noise") {
  const auto file = [](const std::string& name, const std::string& samples) {
    const std::string path = scratch() + name;
    std::ofstream(path) << R"([{"name": "a", "problem": "p", "us": 1, "samples": [)" + samples + "]}]";
    return path;
  };
  const std::string base = file("base.json", "100, 101, 99, 100, 102, 98, 100, 101");
  const std::string noise = file("noise.json", "101, 99, 100, 102, 98, 101, 100, 99");
  const std::string slow = file("slow.json", "110, 111, 109, 110, 112, 108, 110, 111");
  const auto same = run_kiln("bench --json --compare " + base + " " + noise);
  CHECK(same.status == 0);
  CHECK(same.json()[0]["verdict"] == "same");
  const auto slower = run_kiln("bench --json --compare " + base + " " + slow);
  CHECK(slower.status == 1);
  CHECK(slower.json()[0]["verdict"] == "slower");
  CHECK(slower.json()[0]["interval"][0].get<double>() > 1.05);
  CHECK(slower.json()[0]["interval"][1].get<double>() < 1.15);
  CHECK(run_kiln("bench --compare " + slow + " " + base).out.find("faster") != std::string::npos);
  // Times in the unit that fits; what is in one file alone is named.
  const auto row = [](const std::string& name, const std::string& us) {
    return R"({"name": ")" + name + R"(", "problem": "p", "samples": [)" + us + "," + us + "," + us + "," +
           us + "," + us + "]}";
  };
  const std::string two = scratch() + "two.json";
  std::ofstream(two) << "[" + row("long", "3810887.1") + "," + row("gone", "1") + "]";
  std::ofstream(scratch() + "one.json") << "[" + row("long", "3810887.1") + "]";
  const std::string shown = run_kiln("bench --compare " + two + " " + scratch() + "one.json").out;
  CHECK(shown.find("3.81 s") != std::string::npos);
  CHECK(shown.find("only in " + two + ": gone, p") != std::string::npos);
  for (const std::string& bad :
       {base + " " KILN_SOURCE_DIR "/README.md", file("few.json", "1, 2") + " " + base}) {
    const auto refused = run_kiln("bench --compare " + bad);
    CHECK(refused.status == 2);
    CHECK_MESSAGE(is_one_line(refused.err), refused.err);
  }
  CHECK(run_kiln("bench").status == 2);
}

}  // namespace
}  // namespace kiln::test
