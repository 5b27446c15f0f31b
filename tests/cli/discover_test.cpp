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

TEST_CASE("kiln help is --help of the command that it names") {
  CHECK(run_kiln("help").out == run_kiln("--help").out);
  CHECK(run_kiln("help run").out == run_kiln("run --help").out);
  CHECK(run_kiln("help cache prune").out == run_kiln("cache prune --help").out);
  for (const std::string words : {"rn", "cache prun", "run cache"}) {
    const auto result = run_kiln("help " + words);
    CHECK(result.status == 2);
    CHECK_MESSAGE(kiln::test::is_one_line(result.err), result.err);
  }
  CHECK(run_kiln("help rn").err.find("did you mean 'run'?") != std::string::npos);
}

TEST_CASE("list on a terminal fits 100 columns") {
  const std::string out = scratch() + "list.txt";
  const std::string command = "script -qec '" KILN_COMMAND " list' /dev/null > " + out;
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream in(out);
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    for (std::size_t at = line.find('\x1b'); at != std::string::npos; at = line.find('\x1b'))
      line.erase(at, line.find('m', at) - at + 1);
    while (!line.empty() && line.back() == '\r') line.pop_back();
    CHECK_MESSAGE(line.size() <= 100, line);
  }
  CHECK(lines > 100);
}

TEST_CASE("list: a line a config in a pipe, and only what was asked for") {
  const auto all = run_kiln("list");
  CHECK(all.status == 0);
  CHECK(all.out.starts_with("name "));
  CHECK(std::count(all.out.begin(), all.out.end(), '\n') ==
        1 + static_cast<long>(run_kiln("list --json").json().size()));
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
  const std::string values = "bash -c 'source " + scratch() +
                             "completion.bash; COMP_WORDS=(kiln run x --policy r); COMP_CWORD=4; _kiln; "
                             "[ \"${COMPREPLY[*]}\" = random ]'";
  CHECK(std::system(values.c_str()) == 0);
  const std::string targets = "test \"$(bash -c '. " + scratch() +
                              "completion.bash; COMP_WORDS=(kiln list --target gfx94); COMP_CWORD=3; _kiln; "
                              "echo ${COMPREPLY[*]}')\" = gfx942";
  CHECK(std::system(targets.c_str()) == 0);
  if (std::system("command -v fish >/dev/null") == 0) {
    std::ofstream(scratch() + "completion.fish") << run_kiln("completion fish").out;
    const std::string fish = "test \"$(HOME=" + scratch() + " fish -c 'source " + scratch() +
                             "completion.fish; complete -C \"kiln run x --policy r\"' | cut -f1)\" = random";
    CHECK(std::system(fish.c_str()) == 0);
  }
  if (std::system("command -v zsh >/dev/null") == 0) {
    std::ofstream(scratch() + "completion.zsh") << run_kiln("completion zsh").out;
    const std::string zsh = "zsh -n " + scratch() + "completion.zsh";
    CHECK(std::system(zsh.c_str()) == 0);
  }
}

TEST_CASE("names that other libraries have lead to kiln's") {
  const std::string text = refusal_of(
      R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "head_dim": 128, "window_size": 4, "softmax_scale": 1})");
  CHECK(text.find("/head_dim = 128: schema: unknown key (nearest legal: depth)") != std::string::npos);
  CHECK(text.find("(nearest legal: mask: {\"sliding_window\": N})") != std::string::npos);
  CHECK(text.find("/softmax_scale = 1: schema: unknown key (nearest legal: scale)") != std::string::npos);
}

TEST_CASE("values that other libraries and people name lead to kiln's") {
  const std::string text = refusal_of(
      R"({"target": "h100", "operation": "decode", "dtype": "half", "kv_dtype": "fp8", "depth": 128,
                     "mask": "window", "operand": "paged", "alibi": true, "page_size": 64})");
  for (const char* hint :
       {"/target = \"h100\": schema: wants one of sm_80, sm_90a, sm_100a, sm_103a, gfx90a, gfx942, gfx950 "
        "(nearest legal: sm_90a)",
        "(nearest legal: fp16)", "(nearest legal: fp8_e4m3)", "(nearest legal: {\"sliding_window\": 4096})",
        "(nearest legal: {\"kind\": \"paged\", \"page_size\": 64})", "(nearest legal: score_mod: \"alibi\")",
        "(nearest legal: operand: {\"kind\": \"paged\", \"page_size\": N})"}) {
    CHECK_MESSAGE(text.find(hint) != std::string::npos, hint << " in\n" << text);
  }
}

TEST_CASE("a mask that is none is told of all there are") {
  const std::string text = refusal_of(
      R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128, "mask": "casual"})");
  CHECK(text.find(
            "wants none, causal, custom, {\"sliding_window\": N}, {\"chunked\": N} or "
            "{\"window\": {...}} (nearest legal: causal, {\"sliding_window\": 4096}, {\"chunked\": 8192})") !=
        std::string::npos);
}

TEST_CASE("generate never takes a config for the place of its manifest") {
  const std::string path = scratch() + "mine.json";
  const std::string config =
      R"({"name": "mine", "target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64})";
  std::ofstream(path) << config;
  const auto result = run_kiln("generate " + path + " --out " + scratch());
  CHECK(result.status == 2);
  CHECK(kiln::test::is_one_line(result.err));
  std::ostringstream left;
  left << std::ifstream(path).rdbuf();
  CHECK(left.str() == config);
}

TEST_CASE("on a terminal a broken rule is shown in the config, with a caret under its key") {
  const std::string path = scratch() + "caret.json", out = scratch() + "caret.txt";
  std::ofstream(path) << R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 128,
 "operand": {"kind": "paged", "page_size": 0}, "mask": "causal"})";
  const std::string command =
      "NO_COLOR=1 script -qec '" KILN_COMMAND " plan " + path + "' /dev/null > " + out;
  CHECK(std::system(command.c_str()) == 0x200);
  std::ostringstream shown;
  shown << std::ifstream(out).rdbuf();
  std::string text = shown.str();
  std::erase(text, '\r');
  CHECK(
      text.find(
          "caret.json:2:31\n2 |  \"operand\": {\"kind\": \"paged\", \"page_size\": 0}, \"mask\": \"causal\"}\n"
          "  |                               ^~~~~~~~~~~\n") != std::string::npos);
  // In a pipe there is a line for each broken rule and no excerpt.
  CHECK(run_kiln("plan " + path).err.find("-->") == std::string::npos);
}

TEST_CASE("the manual page has every command") {
  const auto page = run_kiln("man");
  CHECK(page.status == 0);
  CHECK(page.out.starts_with(".TH KILN 1"));
  for (const char* word :
       {".SS validate CONFIG...", ".SS cache prune", "\\-\\-random\\-runs", ".SS watch CONFIG"})
    CHECK_MESSAGE(page.out.find(word) != std::string::npos, word);
}

TEST_CASE("watch shows what a save changed") {
  const std::string path = scratch() + "watched.json", out = scratch() + "watched.txt";
  std::ofstream(path)
      << R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64, "mask": "causal"})";
  const std::string command = "(sleep 1; sed -i s/causal/none/ " + path +
                              ") & timeout 120 " KILN_COMMAND " watch " + path +
                              " --changes 1 --no-verify > " + out;
  CHECK(std::system(command.c_str()) == 0);
  std::ostringstream shown;
  shown << std::ifstream(out).rdbuf();
  CHECK(shown.str().find("-- save 1") != std::string::npos);
  CHECK(shown.str().find("diff     ") != std::string::npos);
  CHECK(shown.str().find(" removed\n") != std::string::npos);
  CHECK(run_kiln("watch " + scratch() + "nothing.json").status == 2);
}
