// --source: an edited kernel is compiled, run and checked like the emitted one.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/command.hpp"
#include "tests/runtime/support.hpp"

using kiln::test::is_one_line;
using kiln::test::read_file;
using kiln::test::run_kiln;
using kiln::test::scratch;
using kiln::test::write_file;
using Json = nlohmann::json;

namespace {

/// Writes `text` with one `from` replaced by `to`; false where there is none.
bool write_edited(const std::string& path, std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return false;
  text.replace(at, from.size(), to);
  write_file(path, text);
  return true;
}

const std::string kCuda = "prefill_bf16_d64_causal_sm80", kHip = "decode_bf16_d128_gfx942";

/// The file that kiln emits for a config, with a reciprocal made an exact division.
std::string exact(const std::string& config) {
  const bool hip = config == kHip;
  const std::string name = config + (hip ? ".hip" : ".cu"), edited = scratch() + "exact_" + name;
  REQUIRE(run_kiln("generate " + config + " --out " + scratch()).status == 0);
  REQUIRE(write_edited(edited, read_file(scratch() + name),
                       hip ? "return __builtin_amdgcn_rcpf(x);" : "rcp_approx(row_sum_0);",
                       hip ? "return 1.0f / x;" : "1.0f / row_sum_0;"));
  return edited;
}

bool compiles(const std::string& config) {
  const bool can = run_kiln("compile " + config).status == 0;
  if (!can) MESSAGE("skipped: nothing compiles " << config);
  return can;
}

/// Names of files in a folder, with those below it.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error))
    names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  return names;
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

TEST_CASE("inspect takes an edited source, and says what the edit changed") {
  for (const std::string& config : {kCuda, kHip}) {
    CAPTURE(config);
    if (!compiles(config)) continue;
    const std::string edited = exact(config), page = scratch() + "page.html",
                      picture = scratch() + "waits.svg";
    const std::string command = "inspect " + config + " --source " + edited;
    const auto text = run_kiln(command);
    CHECK(text.status == 0);
    CHECK(text.out.find(edited) != std::string::npos);
    CHECK(text.out.find("emitted  edited") != std::string::npos);

    const auto document = run_kiln(command + " --json --origins").json();
    const Json& changes = document["edited"];
    CHECK(changes["registers"].size() == 2);
    CHECK(changes["smem_bytes"][0] == changes["smem_bytes"][1]);
    CHECK(changes["warnings"].empty());
    CHECK(document["source_bytes"] == read_file(edited).size());
    CHECK_FALSE(document.contains("source"));
    // One line is the person's; all others keep what wrote them.
    const Json &files = document["origins"]["files"], &lines = document["origins"]["lines"];
    const auto own = std::find(files.begin(), files.end(), edited);
    REQUIRE(own != files.end());
    CHECK(std::count_if(lines.begin(), lines.end(),
                        [&](const Json& line) { return line[0] == own - files.begin(); }) == 1);

    CHECK(run_kiln(command + " --html " + page + " --timeline " + picture).status == 0);
    const std::string html = read_file(page);
    CHECK(html.find("\"edited\":{\"file\"") != std::string::npos);
    CHECK(html.find(config == kHip ? "return 1.0f / x;" : "1.0f / row_sum_0;") != std::string::npos);
    CHECK(read_file(picture).find("<svg") != std::string::npos);
  }
}

TEST_CASE("instructions are counted by opcode, in the emitted kernel and in the edited one") {
  for (const std::string& config : {kCuda, kHip}) {
    CAPTURE(config);
    if (!compiles(config)) continue;
    const std::string edited = exact(config);
    const auto document = run_kiln("inspect " + config + " --source " + edited + " --json").json();
    const Json& machine = document["edited"]["machine"];
    if (machine.contains("problem")) {
      MESSAGE("skipped: " << machine["problem"]);
      continue;
    }
    const int before = machine["instructions"][0], after = machine["instructions"][1];
    CHECK(after > before);
    int sum = 0;
    for (const Json& counts : machine["opcodes"]) sum += counts[1].get<int>() - counts[0].get<int>();
    CHECK(sum == after - before);
    const auto text = run_kiln("inspect " + config + " --source " + edited).out;
    CHECK(text.find("+" + std::to_string(after - before)) != std::string::npos);
    CHECK(text.find(config == kHip ? "v_div_scale_f32" : "MUFU.RCP") != std::string::npos);

    // What nobody edited differs in nothing.
    const std::string copy = scratch() + config + (config == kHip ? ".hip" : ".cu");
    const auto same = run_kiln("inspect " + config + " --source " + copy + " --json").json();
    CHECK(same["edited"]["machine"]["opcodes"].empty());
    CHECK(same["edited"]["machine"]["places"] == 0);
    CHECK(run_kiln("inspect " + config + " --source " + copy).out.find("the machine code is the same") !=
          std::string::npos);
  }
}

TEST_CASE("without a disassembler the changes say so in one line") {
  const auto text =
      run_kiln("inspect " + kCuda + " --source " + exact(kCuda), "", "KILN_NVDISASM=/nonexistent");
  CHECK(text.status == 0);
  const std::size_t at = text.out.find("machine code is not compared: /nonexistent");
  REQUIRE(at != std::string::npos);
  CHECK(text.out.compare(text.out.find('\n', at), 2, "\n\n") == 0);
  CHECK(text.out.find("registers") < at);
}

TEST_CASE("verify says what an edit changed") {
  const std::string command = "verify " + kCuda + " --quick --random-runs 0 --source " + exact(kCuda);
  CHECK(run_kiln(command).out.find("emitted  edited") != std::string::npos);
  CHECK(run_kiln(command + " --json").json()["edited"]["registers"].size() == 2);
}

TEST_CASE("--source of inspect without a file is a switch") {
  const std::string line = "extern \"C\" __global__";
  CHECK(run_kiln("inspect " + kCuda + " --source").out.find(line) != std::string::npos);
  CHECK(run_kiln("inspect " + kCuda + " --source --json").json()["source"].get<std::string>().find(line) !=
        std::string::npos);
  CHECK(run_kiln("inspect --source " + kCuda).out.find(line) != std::string::npos);
  const auto nothing = run_kiln("inspect --source");
  CHECK(nothing.status == 2);
  CHECK(is_one_line(nothing.err));
  const auto plans = run_kiln("inspect " + kCuda + " --source " + exact(kCuda) + " --diff " + kHip);
  CHECK(plans.status == 2);
  CHECK(is_one_line(plans.err));
}

TEST_CASE("a wrong --source is one line, and leaves nothing behind") {
  const std::string emitted = read_file(exact(kCuda)), folder = scratch() + "wrong/";
  REQUIRE(run_kiln("generate " + kHip + " --out " + scratch()).status == 0);
  std::filesystem::create_directories(folder + "folder");
  write_file(folder + "empty.cu", " \n");
  REQUIRE(write_edited(folder + "name.cu", emitted, "kiln_" + kCuda + "(", "another("));
  REQUIRE(write_edited(folder + "syntax.cu", emitted, "__syncthreads();", "__syncthreads() x;"));
  write_file(folder + "many.cu", emitted + "no code\n;int a[] = b;\nint c = d;\n");
  struct Wrong {
    std::string file;
    int status;
    const char* says;
  };
  const Wrong all[] = {{folder + "missing.cu", 2, "No such file"},
                       {folder + "folder", 2, "it is a folder"},
                       {folder + "empty.cu", 2, "is empty"},
                       {folder + "name.cu", 2, "has no kernel 'kiln_prefill_bf16_d64_causal_sm80'"},
                       {scratch() + kHip + ".hip", 2, "is a kernel for gfx942, the config's is for sm_80"},
                       {folder + "syntax.cu", 1, "syntax.cu:"},
                       {folder + "many.cu", 1, "errors)"}};
  const std::vector<std::string> before = files_in(folder), cached = files_in(scratch() + "cache");
  for (const Wrong& wrong : all) {
    for (const std::string& command :
         {"inspect " + kCuda, "inspect " + kCuda + " --html " + folder + "page.html",
          "run " + kCuda + " --device emulated --seqlen-q 8 --seqlen-k 8 --out " + folder + "o.npy",
          "verify " + kCuda + " --quick", "bench " + kCuda}) {
      CAPTURE(command);
      CAPTURE(wrong.file);
      const auto result = run_kiln(command + " --source " + wrong.file);
      // A machine without a GPU compiles nothing for bench.
      if (command.starts_with("bench") && wrong.status == 1 && result.status == 3) continue;
      CHECK(result.status == wrong.status);
      CHECK(is_one_line(result.err));
      CHECK(result.err.find(wrong.says) != std::string::npos);
    }
  }
  CHECK(files_in(folder) == before);
  for (const std::string& name : files_in(scratch() + "cache")) {
    CAPTURE(name);
    if (name.find("/locks/") != std::string::npos) continue;  // are never removed
    CHECK(std::count(cached.begin(), cached.end(), name) == 1);
  }
}

TEST_CASE("a comment with the kernel's name is no kernel") {
  const std::string path = scratch() + "comment.cu";
  for (const char* text : {"// kiln_prefill_bf16_d64_causal_sm80(", "/* kiln_prefill_bf16_d64_causal_sm80",
                           "void kiln_prefill_bf16_d64_causal_sm80_2();"}) {
    write_file(path, text);
    CHECK(run_kiln("verify " + kCuda + " --source " + path).err.find("has no kernel") != std::string::npos);
  }
}
