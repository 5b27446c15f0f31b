// list, validate, plan, generate, inspect: documents, determinism, and every bad config is a clear error.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/command.hpp"
#include "tests/runtime/support.hpp"

using kiln::test::is_one_line;
using kiln::test::read_file;
using kiln::test::run_kiln;
using kiln::test::scratch;

namespace {

const std::string kGood = R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128})";

}  // namespace

TEST_CASE("list names every shipped config, and each one validates") {
  const auto list = run_kiln("list --json").json();
  REQUIRE(list.size() > 10);
  std::string names;
  for (const auto& entry : list) {
    for (const char* key : {"name", "target", "operation", "dtype", "depth", "path"})
      CHECK(entry.contains(key));
    CHECK(std::filesystem::exists(std::filesystem::path(KILN_SOURCE_DIR) / entry["path"].get<std::string>()));
    names += " " + entry["name"].get<std::string>();
  }
  const auto result = run_kiln("validate --json" + names);
  CHECK(result.status == 0);
  for (const auto& entry : result.json()) {
    CHECK_MESSAGE(entry["ok"] == true, entry.dump());
    CHECK(entry["errors"].empty());
  }
}

TEST_CASE("validate says where and why, and exits with 2") {
  struct Bad {
    const char *config, *pointer;
  };
  const Bad cases[] = {
      {R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128, "BNN": 64})", "/BNN"},
      {R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": "128"})", "/depth"},
      {R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 0})", "/depth"},
      {R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16"})", "/depth"},
      {R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 1e999})", "/depth"},
      {R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 128, "mma_shape": [16, 8, 7]})",
       "/mma_shape"},
      {R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 128, "BK": 24})", "/BK"},
      {R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 256, "num_kv_stages": 9})",
       "/num_kv_stages"},
      {R"({"target": "sm_42", "operation": "prefill", "dtype": "bf16", "depth": 128})", "/target"},
  };
  for (const Bad& bad : cases) {
    CAPTURE(std::string(bad.config));
    const auto result = run_kiln("validate --json -", bad.config);
    CHECK(result.status == 2);
    const auto document = result.json();
    REQUIRE(document.size() == 1);
    CHECK(document[0]["ok"] == false);
    bool found = false;
    for (const auto& error : document[0]["errors"]) {
      for (const char* key : {"pointer", "value", "rule", "suggestion"}) CHECK(error.contains(key));
      found = found || error["pointer"].get<std::string>().starts_with(bad.pointer);
    }
    CHECK_MESSAGE(found, document.dump());
    // The same config is refused, with nothing on standard output, by what would emit code.
    const auto plan = run_kiln("generate - --out refused", bad.config);
    CHECK(plan.status == 2);
    CHECK(plan.out.empty());
    CHECK(!std::filesystem::exists(scratch() + "refused"));
  }
}

TEST_CASE("text that is no config: one line, status 2") {
  for (const std::string& text :
       {std::string(), std::string("{\"target\": "), std::string("[]"), std::string("\0\x01\xff", 3),
        std::string(100000, '['), "{\"depth\": " + std::string(1000000, '9') + "}"}) {
    const auto result = run_kiln("plan -", text);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("kiln: "));
    CHECK(result.err.size() < 3000);
  }
  const auto huge = run_kiln("plan -", std::string(std::size_t{5} << 20, '9'));
  CHECK(huge.status == 2);
  CHECK(is_one_line(huge.err));
}

TEST_CASE("plan holds every part, whatever the form") {
  const auto document = run_kiln("plan --json -", kGood).json();
  for (const char* key : {"name", "resolved", "systems", "resources"}) CHECK(document.contains(key));
  for (const char* key : {"smem_bytes", "num_threads", "max_registers"})
    CHECK(document["resources"][key].get<int>() > 0);
  CHECK(document["resolved"]["depth"] == 128);
  CHECK(run_kiln("plan -", kGood).json() == document);
  CHECK(run_kiln("plan '" + kGood + "'").json() == document);
  const auto broken = run_kiln("plan '{\"target\": 1'");
  CHECK(broken.status == 2);
  CHECK(is_one_line(broken.err));
}

TEST_CASE("generate twice gives the same bytes, and files named as documented") {
  const auto first = run_kiln("generate - --out a --json", kGood),
             second = run_kiln("generate - --out b --json", kGood);
  REQUIRE(first.status == 0);
  const auto entry = first.json()[0];
  const std::string name = entry["name"];
  CHECK(entry["source"] == "a/" + name + ".cu");
  CHECK(entry["manifest"] == "a/" + name + ".json");
  const std::string source = read_file(scratch() + "a/" + name + ".cu");
  CHECK(source.size() == entry["bytes"].get<std::size_t>());
  CHECK(source == read_file(scratch() + "b/" + name + ".cu"));
  CHECK(read_file(scratch() + "a/" + name + ".json") == read_file(scratch() + "b/" + name + ".json"));
  CHECK(source.find("#include") == std::string::npos);
}

TEST_CASE("one bad config among good ones: nothing is written") {
  std::ofstream(scratch() + "good.json") << kGood;
  std::ofstream(scratch() + "bad.json") << R"({"target": "sm_90a"})";
  CHECK(run_kiln("generate good.json bad.json --out none").status == 2);
  CHECK(!std::filesystem::exists(scratch() + "none"));
  const auto validate = run_kiln("validate good.json bad.json --json");
  CHECK(validate.status == 2);
  CHECK(validate.json()[0]["ok"] == true);
  CHECK(validate.json()[1]["ok"] == false);
}

TEST_CASE("a page shows what was measured of its kernel, and of no other") {
  const auto page_of = [](const std::string& config) {
    const std::string page = KILN_BINARY_DIR "/inspect_measured_test.html";
    CHECK(run_kiln("inspect " + config + " --html " + page, "", "KILN_NVRTC=/nonexistent").status == 0);
    return read_file(page);
  };
  for (const char* config :
       {"prefill_bf16_d128_sm90a", "prefill_bf16_d128_causal_sm90a", "decode_bf16_d128_sm90a"})
    CHECK_MESSAGE(page_of(config).find("\"measured\":[{") != std::string::npos, config);
  for (const char* config :
       {"prefill_bf16_d128_softcap_causal_sm90a", "prefill_bf16_d128_alibi_causal_sm90a"})
    CHECK_MESSAGE(page_of(config).find("\"measured\":[]") != std::string::npos, config);
}

TEST_CASE("inspect works without a compiler") {
  const auto result = run_kiln("inspect --json -", kGood, "KILN_NVRTC=/nonexistent");
  CHECK(result.status == 0);
  CHECK(result.json()["manifest"]["entry"].is_string());
  CHECK(run_kiln("inspect -", kGood).out.find("resources") != std::string::npos);
  const std::string page = KILN_BINARY_DIR "/inspect_test.html";
  CHECK(run_kiln("inspect - --html " + page, kGood).status == 0);
  std::ifstream in(page);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  for (const char* part : {"\"fragments\":[{", "\"choices\":[{", "extern \\\"C\\\"", "</html>"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  // No kernel for AMD was ever timed: no value of its planner is called measured.
  const std::string amd = KILN_BINARY_DIR "/inspect_amd_test.html";
  CHECK(run_kiln("inspect prefill_bf16_d128_causal_gfx942 --html " + amd).status == 0);
  std::ifstream amd_in(amd);
  const std::string amd_text((std::istreambuf_iterator<char>(amd_in)), {});
  CHECK(amd_text.find("the model alone has another") != std::string::npos);
  CHECK(amd_text.find("which measurements set") == std::string::npos);
  // One page that fetches nothing.
  for (const char* part : {"<link", "src=", "http://", "https://", "KILN_DATA"}) {
    CAPTURE(part);
    const std::size_t found = text.find(part);
    CHECK((found == std::string::npos || text.compare(found, 18, "http://www.w3.org/") == 0));
  }
  const std::string pair = "inspect prefill_bf16_d64_sm80 --diff prefill_bf16_d64_causal_sm80";
  CHECK(run_kiln(pair + " --json").json()["/resolved/mask"] ==
        nlohmann::json::parse(R"(["none", "causal"])"));
  CHECK(run_kiln(pair).out.find("/resolved/mask") != std::string::npos);
}

TEST_CASE("the page of inspect has who waited for whom in a run") {
  for (const char* config : {"decode_bf16_d128_paged64_sm90a", "prefill_bf16_d64_causal_gfx942"}) {
    CAPTURE(config);
    const std::string page = KILN_BINARY_DIR "/inspect_waits_test.html";
    REQUIRE(run_kiln("inspect " + std::string(config) + " --html " + page).status == 0);
    const std::string text = read_file(page), mark = R"(id="data">)";
    const std::size_t begin = text.find(mark) + mark.size();
    const auto document = nlohmann::json::parse(text.substr(begin, text.find("</script>", begin) - begin));
    const auto run = document["report"]["run"]["replay"];
    // What was waited for had come: an arrival, a copy or a load that the trace knows.
    CHECK(run["unknown"] == 0);
    CHECK(run["waits"].size() >= 4);
    int waited = 0;
    for (const auto& wait : run["waits"]) {
      CHECK(wait["from"] <= wait["to"]);
      CHECK(wait["to"] <= run["end"]);
      CHECK(wait.contains("slack") == (wait["from"] == wait["to"]));
      waited += wait["from"] < wait["to"] ? 1 : 0;
    }
    CHECK(waited > 0);
    // The critical path goes from the end of the run to its begin.
    REQUIRE(run["path"].size() > 1);
    CHECK(run["path"].front()[2] == run["end"]);
    CHECK(run["path"].back()[1] == 0);
  }
}

TEST_CASE("inspect draws a run, and takes measured rows") {
  const std::string folder = KILN_BINARY_DIR "/inspect_measured_test";
  std::filesystem::create_directories(folder);
  const std::string picture = folder + "/run.svg", rows = folder + "/rows.json", page = folder + "/page.html";
  REQUIRE(run_kiln("inspect prefill_bf16_d64_sm80 --timeline " + picture).status == 0);
  const std::string drawn = read_file(picture);
  CHECK(drawn.find("warp 3") != std::string::npos);
  CHECK(drawn.find("class=\"p\"") != std::string::npos);
  std::ofstream(rows)
      << R"([{"name": "x", "problem": "mine", "us": 1, "samples": [1], "tflops": 123.5, "gbps": 900}])";
  REQUIRE(run_kiln("inspect prefill_bf16_d64_sm80 --html " + page + " --measured " + rows).status == 0);
  CHECK(read_file(page).find("\"tflops\":123.5") != std::string::npos);
  std::ofstream(rows) << "[1]";
  const auto bad = run_kiln("inspect prefill_bf16_d64_sm80 --html " + page + " --measured " + rows);
  CHECK(bad.status == 2);
  CHECK(bad.err.find("is no document of `kiln bench --json`") != std::string::npos);
}

TEST_CASE("keys says what works, by key and target") {
  const auto all = run_kiln("keys --json").json();
  CHECK(all["depth"]["sm_90a"]["decode"].get<std::string>().find("576") != std::string::npos);
  CHECK(all["dma"].contains("gfx942"));
  CHECK(!all["dma"].contains("sm_90a"));
  const auto one = run_kiln("keys mask BM --target gfx950");
  CHECK(one.status == 0);
  CHECK(one.out.find("sliding_window: any") != std::string::npos);
  CHECK(one.out.find("sm_80") == std::string::npos);
  CHECK(!run_kiln("keys --target sm_80 --json").json().contains("dma"));
  const auto unknown = run_kiln("keys detph");
  CHECK(unknown.status == 2);
  CHECK(unknown.err == "kiln: no key is called 'detph'; did you mean 'depth'?\n");
  CHECK(run_kiln("keys --target sm_91").status == 2);
}
