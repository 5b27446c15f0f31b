// Numbers beyond what their type holds, settings that cannot be read, and memory that ends: each is said as it is.
#include <doctest/doctest.h>

#include "tests/cli/command.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln::test;

namespace {

const std::string kRun = "run prefill_bf16_d64_sm80 --device emulated --seqlen-q 16 --heads-q 1 ";

void check_refused(const std::string& arguments, const std::string& message,
                   const std::string& setting = "") {
  const CommandResult result = run_kiln(arguments, "", setting);
  CAPTURE(arguments);
  CAPTURE(result.err);
  CHECK(result.status == 2);
  CHECK(is_one_line(result.err));
  CHECK(result.err.find(message) != std::string::npos);
}

}  // namespace

TEST_CASE("a number that does not fit is refused as the user wrote it") {
  const std::string many = "12345678901234567890123", says = "'" + many + "' is not a number that fits";
  for (const char* option : {"--batch", "--heads-kv", "--seqlen-k", "--seed", "--requests", "--max-length"})
    check_refused(kRun + option + " " + many, std::string(option) + ": " + says);
  check_refused(kRun + "--batch -" + many, "--batch: '-" + many + "' is not a number that fits");
  check_refused("sweep - --limit " + many, "--limit: " + says);
  check_refused("emulate x.ptx --max-instructions " + many, "--max-instructions: " + says);
  check_refused(kRun + "--scale 1e999", "--scale: '1e999' is not a number that fits");
  check_refused(kRun + "--scale 1e-999", "--scale: '1e-999' is not a number that fits");
  check_refused(kRun + "--q-scale 1e99", "--q-scale: '1e99' is not a number that fits");
  for (const char* minutes : {"1e999", "0", "-1", "nan"})
    check_refused(std::string("tune prefill_bf16_d64_sm80 --minutes ") + minutes,
                  "--minutes: '" + std::string(minutes) + "' is not a number above 0");
  // What fits stays what it is.
  CHECK(run_kiln(kRun + "--seed 18446744073709551615").status == 0);
}

TEST_CASE("a setting that cannot be read is an error of every command") {
  for (const char* command :
       {"list", "keys", "cache list", "cache stats", "doctor", "plan prefill_bf16_d64_sm80", "man"}) {
    check_refused(command, "KILN_LOG is 'foo'", "KILN_LOG=foo");
    check_refused(command, "KILN_CACHE_MAX_SIZE is 'x'", "KILN_CACHE_MAX_SIZE=x");
    check_refused(command, "KILN_LOCK_TIMEOUT is 'x'", "KILN_LOCK_TIMEOUT=x");
    check_refused(command, "no device is called \"foo\"", "KILN_DEVICE=foo");
    check_refused(command, "KILN_AMD_COMPILER is \"foo\"", "KILN_AMD_COMPILER=foo");
  }
  CHECK(run_kiln("--version", "", "KILN_LOG=foo").status == 0);
}

TEST_CASE("where an address space limit leaves too little, both figures are said") {
  write_file(scratch() + "r.ptx",
             ".version 8.0\n.target sm_80\n.address_size 64\n"
             ".visible .entry kernel(.param .u64 p) {\n  ret;\n}\n");
  const auto limited = [&](int mebibytes, const std::string& what) {
    const std::string limit = "ulimit -v " + std::to_string(1024 * mebibytes) + "; ";
    return run_kiln("emulate r.ptx --kernel kernel --block 32 " + what, "", limit);
  };
  int refused = 0;
  for (int mebibytes = 16; mebibytes <= 64; mebibytes += 4) {
    const CommandResult result = limited(mebibytes, "--grid 64 --arg zeros:u32[64]");
    CAPTURE(mebibytes);
    CAPTURE(result.err);
    if (result.status == 0 || result.status == 127)
      continue;  // enough, or too little for the loader of programs
    ++refused;
    CHECK(result.status == 3);
    CHECK(is_one_line(result.err));
    CHECK(result.err.find("MiB") != std::string::npos);
    CHECK(result.err.find("limit leaves") != std::string::npos);
  }
  CHECK(refused > 0);
}
