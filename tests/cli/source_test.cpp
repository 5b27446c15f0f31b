// --source: an edited kernel is compiled, run and checked like the emitted one.
#include <doctest/doctest.h>

#include "tests/cli/command.hpp"
#include "tests/runtime/support.hpp"

using kiln::test::is_one_line;
using kiln::test::read_file;
using kiln::test::run_kiln;
using kiln::test::scratch;
using kiln::test::write_file;

namespace {

/// Writes `text` with one `from` replaced by `to`; false where there is none.
bool write_edited(const std::string& path, std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return false;
  text.replace(at, from.size(), to);
  write_file(path, text);
  return true;
}

}  // namespace

TEST_CASE("an edited source runs in place of the emitted one, and is found out when it is wrong") {
  const std::string config = "prefill_bf16_d64_causal_sm80";
  const std::string problem =
      " --device emulated --seqlen-q 70 --seqlen-k 70 --heads-q 2 --heads-kv 1 --check";
  REQUIRE(run_kiln("generate " + config + " --out " + scratch()).status == 0);
  const std::string emitted = read_file(scratch() + config + ".cu"), edited = scratch() + "edited.cu";

  REQUIRE(write_edited(edited, emitted, "\n", "\n// by hand\n"));
  CHECK(run_kiln("run " + config + problem + " --source " + edited).status == 0);

  // A barrier less: a race, which the emulated device finds.
  REQUIRE(write_edited(edited, emitted, "__syncthreads();", ""));
  const auto raced = run_kiln("verify " + config + " --quick --json --source " + edited);
  CHECK(raced.status == 1);
  CHECK_FALSE(raced.json()["findings"].empty());

  REQUIRE(write_edited(edited, emitted, "extern \"C\"", "no code; extern \"C\""));
  CHECK(run_kiln("run " + config + problem + " --source " + edited).status == 1);

  const auto missing = run_kiln("run " + config + problem + " --source " + scratch() + "no_such.cu");
  CHECK(missing.status == 2);
  CHECK(is_one_line(missing.err));
  const auto two = run_kiln("bench " + config + " " + config + " --source " + edited);
  CHECK((two.status == 2 || two.status == 3));  // 3: no GPU here
}
