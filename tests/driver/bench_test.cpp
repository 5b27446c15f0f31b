// bench --source on the stand-in for the driver: both kernels are launched and timed, the times mean nothing.
#include <doctest/doctest.h>

#include "tests/cli/command.hpp"

using kiln::test::run_kiln;
using kiln::test::scratch;

TEST_CASE("bench times the edited kernel and the emitted one, and says what the edit changed") {
  const std::string config = "prefill_bf16_d64_causal_sm80";
  REQUIRE(run_kiln("generate " + config + " --out " + scratch()).status == 0);
  const std::string command = "emulate --arch sm_80 -- " KILN_COMMAND " bench " + config + " --source " +
                              scratch() + config +
                              ".cu --seqlen-q 8 --seqlen-k 8 --heads-q 1 --heads-kv 1 --warmup 0 "
                              "--iterations 3";
  const auto text = run_kiln(command);
  CHECK(text.status == 0);
  CHECK(text.out.find("emitted") != std::string::npos);
  CHECK(text.out.find("time ") != std::string::npos);
  CHECK(text.out.find("95 % interval") != std::string::npos);

  const auto rows = run_kiln(command + " --json").json();
  REQUIRE(rows.size() == 1);
  const auto& edited = rows[0]["edited"];
  CHECK(edited["us"].size() == 2);
  CHECK(edited["us"][1].get<double>() > 0);
  CHECK(edited["emitted_samples"].size() == 3);
  CHECK(edited["registers"][0] == edited["registers"][1]);
  CHECK(edited.contains("verdict"));
}

TEST_CASE("what is compiled under kiln emulate is not what a GPU's cache has") {
  const std::string config = "prefill_bf16_d64_sm80", compile = " compile " + config + " --json";
  const auto emulated = run_kiln("emulate --arch sm_80 -- " KILN_COMMAND + compile), real = run_kiln(compile);
  REQUIRE(emulated.status == 0);
  REQUIRE(real.status == 0);
  CHECK(real.json()["cache"] == "miss");
  CHECK(real.json()["key"] != emulated.json()["key"]);
  CHECK(run_kiln("emulate --arch sm_80 -- " KILN_COMMAND + compile).json()["cache"] == "disk");
}

TEST_CASE("a GPU of capability 10.3 runs kernels of sm_103a and none of sm_100a") {
  const std::string problem = " run '{\"target\": \"";
  const auto run = [&](const std::string& gpu, const std::string& target) {
    return run_kiln(
        "emulate --gpu " + gpu + " -- " KILN_COMMAND + problem + target +
        "\", \"operation\": \"prefill\", \"dtype\": \"bf16\", \"depth\": 64, \"mask\": \"causal\"}' "
        "--device cuda:0 --seqlen-q 130 --seqlen-k 140 --heads-q 1 --heads-kv 1");
  };
  const auto right = run("B300", "sm_103a");
  CHECK_MESSAGE(right.status == 0, right.out << right.err);
  CHECK(run("B200", "sm_100a").status == 0);
  for (const auto& [gpu, target] : {std::pair{"B300", "sm_100a"}, std::pair{"B200", "sm_103a"}}) {
    const auto wrong = run(gpu, target);
    CHECK(wrong.status != 0);
    CHECK(wrong.err.find(std::string("cannot run a kernel for ") + target) != std::string::npos);
  }
}
