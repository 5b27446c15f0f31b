// tune: what it prints, what it stores, and that run and bench find it again.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/command.hpp"

using kiln::test::is_one_line;
using kiln::test::run_kiln;
using kiln::test::scratch;

namespace {
const std::string kProblem = "prefill_bf16_d64_sm80 --device emulated --seqlen-q 64 --heads-q 1";
}

TEST_CASE("tune stores the best right kernel, and run --tuned takes it") {
  const std::string cache = "KILN_CACHE_DIR=" + scratch() + "tune-cache";
  const auto result = run_kiln("tune " + kProblem + " --limit 4 --json", "", cache);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(result.err.empty());  // a pipe sees no progress
  const auto document = result.json();
  CHECK(document["tried"] == 4);
  CHECK(document["table"].size() == 4);
  CHECK(document["finished"] == false);
  CHECK(document["unit"] == "warp instructions and bank conflicts");
  const double best = document["best"]["score"].get<double>();
  CHECK(best > 0);
  for (const auto& row : document["table"]) {
    if (!row["score"].is_null()) CHECK(row["score"].get<double>() >= best);
    CHECK(row["score"].is_null() != row["problem"].get<std::string>().empty());
  }
  const std::string stored = document["stored"];
  CHECK(std::filesystem::exists(stored));
  CHECK(run_kiln("validate " + stored).status == 0);

  const auto run = run_kiln("run " + kProblem + " --tuned --check --json", "", cache);
  REQUIRE_MESSAGE(run.status == 0, run.err);
  const auto counters = run.json()["counters"];
  CHECK(counters["instructions"].get<double>() + counters["bank_conflicts"].get<double>() == best);

  // Another problem has no winner, and a damaged file says where it lies.
  const auto other = run_kiln("run " + kProblem + " --seqlen-k 65 --tuned", "", cache);
  CHECK(other.status == 2);
  CHECK(is_one_line(other.err));
  CHECK(other.err.find("kiln tune") != std::string::npos);
  std::ofstream(stored) << "{";
  const auto damaged = run_kiln("run " + kProblem + " --tuned", "", cache);
  CHECK(damaged.status == 2);
  CHECK(damaged.err.find(stored) != std::string::npos);
}

TEST_CASE("tune writes the winner where it is told, or nothing at all") {
  const std::string cache = "KILN_CACHE_DIR=" + scratch() + "tune-quiet";
  const std::string out = scratch() + "winner.json";
  const auto result = run_kiln("tune " + kProblem + " --limit 2 --no-store --out " + out, "", cache);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(result.out.find("not a speed") != std::string::npos);
  CHECK(run_kiln("validate " + out).status == 0);
  CHECK(!std::filesystem::exists(scratch() + "tune-quiet/tuned"));
  CHECK(run_kiln("tune " + kProblem + " --limit 1 --no-store --out /proc/none", "", cache).status == 2);
  for (const char* nowhere : {"KILN_CACHE_DIR=/proc/none", "KILN_CACHE_DIR=relative/folder"}) {
    const auto refused = run_kiln("tune " + kProblem + " --limit 1", "", nowhere);
    CHECK(refused.status == 3);
    CHECK(is_one_line(refused.err));
    CHECK(refused.err.find("--no-store") != std::string::npos);
  }
}
