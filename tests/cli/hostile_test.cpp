// Text that a terminal would obey, in every place where kiln takes text from users, files or caches and prints it.
#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/cache/entry.hpp"
#include "tests/cli/command.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

const std::string kEscape = "\x1b[2J", kQuoted = "$(printf '\\033[2J')";

/// Output has no control character but line feeds and tabs, and says `part`.
void check_quiet(const CommandResult& result, int status, const std::string& part = "[2J") {
  CHECK(result.status == status);
  const std::string all = result.out + result.err;
  CAPTURE(all);
  CHECK(all.find(part) != std::string::npos);
  for (const char c : all) {
    if (c == '\n' || c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)) continue;
    FAIL_CHECK("control character ", static_cast<int>(c));
    break;
  }
}

std::string save(const std::string& name, const std::string& text) {
  write_file(scratch() + name, text);
  return scratch() + name;
}

}  // namespace

TEST_CASE("arguments and settings") {
  check_quiet(run_kiln("\"val" + kQuoted + "\""), 2);
  check_quiet(run_kiln("run \"--x" + kQuoted + "\""), 2);
  check_quiet(run_kiln("validate \"a" + kQuoted + "\""), 2, "control character");
  check_quiet(run_kiln("bench decode --iterations \"1" + kQuoted + "\""), 2);
  for (const char* name : {"KILN_CACHE_MAX_SIZE", "KILN_DEVICE", "KILN_LOG"})
    check_quiet(
        run_kiln("run prefill_bf16_d64_causal_sm90a", "", std::string(name) + "=\"1" + kQuoted + "\""), 2);
  const std::string folder = scratch() + "cache" + kEscape;
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::owner_all);
  check_quiet(run_kiln("cache list", "", "KILN_CACHE_DIR=\"" + scratch() + "cache" + kQuoted + "\""), 0);
}

TEST_CASE("configs") {
  const std::string config = R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 64)";
  check_quiet(run_kiln("validate -", config + ", \"na\\u001b[2Jme\": 1}"), 2);
  check_quiet(run_kiln("validate -", config + ", \"name\": \"a\\u001b[2J\"}"), 2);
  check_quiet(run_kiln("validate -", config + ", \"mask\": {\"\\u001b[2J\": 3}}"), 2);
  check_quiet(run_kiln("validate -", config + ", \"score_mod\": {\"expr\": \"score + \\u001b[2J\"}}"), 2);
  check_quiet(run_kiln("validate -", config + ", " + kEscape + "}"), 2, "broken JSON");
  check_quiet(run_kiln("sweep -", "{\"base\": " + config + "}, \"grids\": [{\"\\u001b[2J\": [1]}]}"), 2);
}

TEST_CASE("what is refused is not repeated for pages") {
  const std::string many(50000, 'x'), config = R"('{"target": ")" + many + R"("}')";
  for (const std::string& arguments : {"validate " + many, "validate " + config, "run " + many,
                                       "bench --" + many, "run llama3_8b_prefill_sm80 --heads-q " + many}) {
    const CommandResult result = run_kiln(arguments);
    CAPTURE(arguments.substr(0, 20));
    CHECK(result.status == 2);
    CHECK(result.out.size() + result.err.size() < 2000);
  }
}

TEST_CASE("O and its log-sum-exp are not written to one file, however it is named") {
  const CommandResult result =
      run_kiln("run prefill_bf16_d64_causal_sm90a --device emulated --out x.npy --lse ./x.npy");
  CHECK(result.status == 2);
  CHECK(result.err.find("--out and --lse name the same file") != std::string::npos);
}

TEST_CASE("entries of a cache") {
  Binary binary;
  binary.name = "a" + kEscape, binary.entry = binary.compiler = binary.target =
                                   "b\xc2\x9b"
                                   "2J" +
                                   kEscape;
  binary.image = "image";
  Hash128 key;
  key.bytes.fill(0xab);
  const std::string folder = scratch() + "poor/v1/ab";
  fs::create_directories(folder);
  for (const char* part : {"poor", "poor/v1", "poor/v1/ab"})
    fs::permissions(scratch() + part, fs::perms::owner_all);
  const std::string file = folder + "/" + key.hex().substr(2) + ".kiln";
  write_file(file, write_entry(binary, key, 1));
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  const std::string here = "KILN_CACHE_DIR=" + scratch() + "poor";
  check_quiet(run_kiln("cache list", "", here), 0);
  check_quiet(run_kiln("cache list --json", "", here), 0);
  // A pack takes it along; a damaged one says what is wrong with it.
  check_quiet(run_kiln("cache export " + scratch() + "pack", "", here), 0, "kernel");
  std::string pack = read_file(scratch() + "pack");
  REQUIRE(pack.size() > 100);
  pack[pack.size() - 3] = static_cast<char>(pack[pack.size() - 3] ^ 1);
  check_quiet(run_kiln("cache import " + save("broken", pack), "", here), 2, "kiln: ");
}

TEST_CASE("programs for the emulated device: names, files, lines") {
  const std::string ptx =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry kernel(.param .u64 p) {\n  .reg .b64 %rd<3>; .reg .b32 %r<3>;\n"
      "  ld.param.u64 %rd1, [p];\n  .loc 1 3 1\n  ld.global.u32 %r1, [%rd1+4096]; // " +
      kEscape + "\n  st.global.u32 [%rd1], %r1;\n  ret;\n}\n.file 1 \"a" + kEscape + ".cu\"\n";
  const std::string file = save("k.ptx", ptx);
  check_quiet(run_kiln("emulate " + file + " --kernel kernel --grid 1 --block 32 --arg zeros:u32[4]"), 1,
              "out-of-bounds");
  check_quiet(
      run_kiln("emulate " + save("l.ptx", "abc " + kEscape + "\n") + " --kernel x --grid 1 --block 1"), 2,
      "kiln: ");
}
