// Finding one's way: help, the list of configs, completion, names from elsewhere.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/cli/command.hpp"

using kiln::test::run_kiln;
using kiln::test::scratch;

namespace {

std::string refusal_of(const std::string& config) {
  const std::string path = scratch() + "discover.json";
  std::ofstream(path) << config;
  const auto result = run_kiln("validate " + path);
  CHECK(result.status == 2);
  return result.out;
}

}  // namespace

TEST_CASE("kiln alone prints its help") {
  const auto result = run_kiln("");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(result.out == run_kiln("--help").out);
}

TEST_CASE("list: what each config is, within 100 columns, and only what was asked for") {
  const auto all = run_kiln("list");
  CHECK(all.status == 0);
  std::istringstream lines(all.out);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 100, line);
  const auto document = run_kiln("list --json").json();
  const auto windows = run_kiln("list --target sm_90a --operation decode paged causal --json").json();
  CHECK(!windows.empty());
  CHECK(windows.size() < document.size());
  std::size_t expected = 0;
  for (const auto& row : document) {
    const bool wanted = row["target"] == "sm_90a" && row["operation"] == "decode" &&
                        row["operand"] == "paged" && row["mask"] == "causal";
    expected += wanted ? 1 : 0;
  }
  CHECK(windows.size() >= expected);  // a word may also be in a name
  for (const auto& row : windows) CHECK(row["target"] == "sm_90a");
  CHECK(run_kiln("list --target sm_91").status == 2);
  CHECK(run_kiln("list nothinghasthisword").status == 2);
}

TEST_CASE("completion: the shells take the scripts, and every command is in them") {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const auto script = run_kiln("completion " + shell);
    CHECK(script.status == 0);
    for (const char* word : {"validate", "emulate", "seed", "prefill_bf16_d128_sm90a"})
      CHECK_MESSAGE(script.out.find(word) != std::string::npos, shell, " ", word);
  }
  CHECK(run_kiln("completion tcsh").status == 2);
  std::ofstream(scratch() + "completion.bash") << run_kiln("completion bash").out;
  const std::string check = "bash -c 'source " + scratch() +
                            "completion.bash; COMP_WORDS=(kiln run --ch); COMP_CWORD=2; _kiln; "
                            "[ \"${COMPREPLY[0]}\" = --check ]'";
  CHECK(std::system(check.c_str()) == 0);
}

TEST_CASE("names that other libraries have lead to kiln's") {
  const std::string text = refusal_of(
      R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "head_dim": 128, "window_size": 4, "softmax_scale": 1})");
  CHECK(text.find("/head_dim = 128: schema: unknown key (nearest legal: depth)") != std::string::npos);
  CHECK(text.find("(nearest legal: mask: {\"sliding_window\": N})") != std::string::npos);
  CHECK(text.find("/softmax_scale = 1: schema: unknown key (nearest legal: scale)") != std::string::npos);
}

TEST_CASE("a mask that is none is told of all there are") {
  const std::string text = refusal_of(
      R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128, "mask": "casual"})");
  CHECK(
      text.find(
          "wants none, causal, custom, {\"sliding_window\": N} or {\"chunked\": N} (nearest legal: causal)") !=
      std::string::npos);
}
