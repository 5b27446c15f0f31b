// run, compile, verify, cache, doctor on the emulated device, and the exit status of everything that can go
// wrong.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/cli/command.hpp"
#include "workbench/files/npy.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/problem/workload.hpp"

using kiln::test::is_one_line;
using kiln::test::run_kiln;
using kiln::test::scratch;

namespace {

const std::string kConfig = "prefill_bf16_d64_causal_sm90a";

// Kernels are compiled here. scripts/setup.sh sees to it that a compiler is there, so its absence is a
// failure, not a skip.
bool have_nvrtc() {
  static const bool found = [] {
    const nlohmann::json report = run_kiln("doctor --json").json();
    for (const auto& compiler : report["compilers"]) {
      if (compiler["kind"] == "nvrtc" && compiler["found"] == true) return true;
    }
    return false;
  }();
  return found;
}

void write_tensor(const std::string& name, std::vector<std::int64_t> shape, std::uint64_t seed) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  kiln::write_npy(scratch() + name, kiln::npy_from_floats(shape, kiln::random_normal(count, seed, 0)));
}

}  // namespace

TEST_CASE("run --check passes and fills the documented keys; the second run comes from the cache") {
  CHECK(run_kiln("cache clear").status == 0);  // other cases compile, too
  REQUIRE_MESSAGE(have_nvrtc(), "no NVRTC: run scripts/setup.sh");
  const std::string command =
      "run " + kConfig +
      " --device emulated --seqlen-q 70 --seqlen-k 90 --heads-q 2 --heads-kv 1 --check --json";
  const auto first = run_kiln(command);
  CHECK(first.status == 0);
  CHECK(first.err.empty());
  const auto document = first.json();
  for (const char* key :
       {"name", "device", "cache", "compile_ms", "launch_us", "max_abs_err", "rel_err", "lse_err", "check"}) {
    CHECK_MESSAGE(document.contains(key), key);
  }
  CHECK(document["device"] == "emulated");
  CHECK(document["cache"] == "miss");
  CHECK(document["check"] == true);
  CHECK(document["rel_err"].get<double>() < 4e-3);
  CHECK(document["rel_err"].get<double>() > 0);
  const auto again = run_kiln(command).json();
  CHECK(again["cache"] == "disk");
  CHECK(again["rel_err"] == document["rel_err"]);
  CHECK(run_kiln("cache stats --json").json()["entries"] == 1);
  CHECK(run_kiln("cache list --json").json()[0]["name"] == kConfig);
  CHECK(run_kiln("cache clear --json").json()["removed"] == 1);
  CHECK(run_kiln("cache stats --json").json()["entries"] == 0);
}

TEST_CASE("lengths of 0, k shorter than q, and ragged lengths through contiguous and ragged kernels") {
  REQUIRE_MESSAGE(have_nvrtc(), "no NVRTC: run scripts/setup.sh");
  for (const char* config : {"prefill_bf16_d64_causal_sm90a", "prefill_bf16_d64_ragged_causal_sm90a"}) {
    const auto result =
        run_kiln(std::string("run ") + config +
                 " --device emulated --policy random --seed 5 --lengths-q 0,5,70,1 --lengths-k "
                 "9,0,20,40 --check --json");
    CHECK_MESSAGE(result.json()["check"] == true, result.out);
    CHECK(result.json()["requests"].size() == 4);
  }
  CHECK(run_kiln("run " + kConfig + " --device emulated --seqlen-q 0 --check").status == 0);
}

TEST_CASE("files of whole cache rows give what files of the columns read give") {
  REQUIRE_MESSAGE(have_nvrtc(), "no NVRTC: run scripts/setup.sh");
  write_tensor("q.npy", {1, 9, 2, 64}, 1);
  write_tensor("wk.npy", {1, 40, 1, 96}, 2);
  write_tensor("wv.npy", {1, 40, 1, 96}, 3);
  for (const char* name : {"k.npy", "v.npy"}) {
    const auto rows = kiln::to_floats(kiln::read_npy(scratch() + "w" + name));
    std::vector<float> part;
    for (int i = 0; i < 40; ++i)
      part.insert(part.end(), rows.begin() + 96 * i + 16, rows.begin() + 96 * i + 80);
    kiln::write_npy(scratch() + name, kiln::npy_from_floats({1, 40, 1, 64}, part));
  }
  std::ofstream(scratch() + "rows.json")
      << R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 64, "mask": "causal",
             "cache_depth": 96, "head_dim_offset": 16})";
  const std::string tensors = " --device emulated --q q.npy --check ";
  CHECK(run_kiln("run rows.json" + tensors + "--k wk.npy --v wv.npy --out wo.npy").status == 0);
  CHECK(run_kiln("run prefill_bf16_d64_causal_sm90a" + tensors + "--k k.npy --v v.npy --out o.npy").status ==
        0);
  CHECK(kiln::read_npy(scratch() + "wo.npy").data == kiln::read_npy(scratch() + "o.npy").data);
  CHECK(run_kiln("run rows.json" + tensors + "--k k.npy --v v.npy")
            .err.find("depth is 64, the config wants 96") != std::string::npos);
}

TEST_CASE("rows with a tail of rotary columns come as their columns, and scales are those of the others") {
  REQUIRE_MESSAGE(have_nvrtc(), "no NVRTC: run scripts/setup.sh");
  std::ofstream(scratch() + "tail.json")
      << R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "kv_dtype": "fp8_e4m3", "depth": 192,
             "ov_depth": 128, "v_from_k": true, "rope_depth": 64, "rope": {"layout": "tail"},
             "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}}})";
  write_tensor("tq.npy", {1, 2, 4, 192}, 1);
  write_tensor("tk.npy", {1, 70, 1, 192}, 2);
  write_tensor("ts.npy", {70}, 3);
  const std::string tensors = "run tail.json --device emulated --q tq.npy --check ";
  CHECK(run_kiln(tensors + "--k tk.npy --k-scale ts.npy").status == 0);
  CHECK(run_kiln(tensors + "--k tk.npy --out whole.npy").status == 0);
  // What E4M3 cannot hold of the rotary columns changes the result; of the others it does not.
  auto k = kiln::to_floats(kiln::read_npy(scratch() + "tk.npy"));
  for (std::size_t i = 0; i < k.size(); ++i)
    if (i % 192 < 128) k[i] = kiln::e4m3_to_float(kiln::float_to_e4m3(k[i]));
  kiln::write_npy(scratch() + "tk.npy", kiln::npy_from_floats({1, 70, 1, 192}, k));
  CHECK(run_kiln(tensors + "--k tk.npy --out same.npy").status == 0);
  CHECK(kiln::read_npy(scratch() + "same.npy").data == kiln::read_npy(scratch() + "whole.npy").data);
  for (float& x : k) x = kiln::e4m3_to_float(kiln::float_to_e4m3(x));
  kiln::write_npy(scratch() + "tk.npy", kiln::npy_from_floats({1, 70, 1, 192}, k));
  CHECK(run_kiln(tensors + "--k tk.npy --out other.npy").status == 0);
  CHECK_FALSE(kiln::read_npy(scratch() + "other.npy").data == kiln::read_npy(scratch() + "whole.npy").data);
  write_tensor("tk.npy", {1, 70, 1, 256}, 2);
  CHECK(run_kiln(tensors + "--k tk.npy").err.find("depth is 256, the config wants 192") != std::string::npos);
}

TEST_CASE("rotary columns in a tensor of their own come in the same file, and give what one tensor gives") {
  REQUIRE_MESSAGE(have_nvrtc(), "no NVRTC: run scripts/setup.sh");
  const std::string keys = R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 192,
      "ov_depth": 128, "v_from_k": true, "rope_depth": 64, "operand": {"kind": "paged", "page_size": 16})";
  std::ofstream(scratch() + "one.json") << keys << "}";
  std::ofstream(scratch() + "apart.json") << keys << R"(, "rope": {"layout": "separate"}})";
  write_tensor("sq.npy", {1, 2, 4, 192}, 1);
  write_tensor("sk.npy", {1, 70, 1, 192}, 2);
  for (const std::string name : {"one", "apart"}) {
    const auto result = run_kiln(
        "run " + name + ".json --device emulated --q sq.npy --k sk.npy --check --out " + name + ".npy");
    CHECK_MESSAGE(result.status == 0, result.err);
  }
  CHECK(kiln::read_npy(scratch() + "apart.npy").data == kiln::read_npy(scratch() + "one.npy").data);
}

TEST_CASE("real tensors in, float32 tensors out, in the documented shapes") {
  REQUIRE_MESSAGE(have_nvrtc(), "no NVRTC: run scripts/setup.sh");
  write_tensor("q.npy", {2, 33, 4, 64}, 1);
  write_tensor("k.npy", {2, 50, 2, 64}, 2);
  write_tensor("v.npy", {2, 50, 2, 64}, 3);
  const auto result =
      run_kiln("run " + kConfig +
               " --device emulated --q q.npy --k k.npy --v v.npy --out o.npy --lse l.npy --check --json");
  CHECK_MESSAGE(result.json()["check"] == true, result.err);
  const auto o = kiln::read_npy(scratch() + "o.npy"), lse = kiln::read_npy(scratch() + "l.npy");
  CHECK(o.type == kiln::NpyType::f32);
  CHECK(o.shape == std::vector<std::int64_t>{2, 33, 4, 64});
  CHECK(lse.shape == std::vector<std::int64_t>{2, 4, 33});

  // The same rows as ragged tensors give the same numbers, whatever the operand kind.
  auto flat = [](const char* name, const char* to) {
    auto array = kiln::read_npy(scratch() + name);
    array.shape = {array.shape[0] * array.shape[1], array.shape[2], array.shape[3]};
    kiln::write_npy(scratch() + to, array);
  };
  flat("q.npy", "rq.npy");
  flat("k.npy", "rk.npy");
  flat("v.npy", "rv.npy");
  CHECK(run_kiln(
            "run " + kConfig +
            " --device emulated --lengths-q 33,33 --lengths-k 50,50 --q rq.npy --k rk.npy --v rv.npy --out "
            "ro.npy --lse rl.npy")
            .status == 0);
  const auto ragged = kiln::read_npy(scratch() + "ro.npy"), ragged_lse = kiln::read_npy(scratch() + "rl.npy");
  CHECK(ragged.shape == std::vector<std::int64_t>{66, 4, 64});
  CHECK(ragged.data == o.data);
  // A kernel of ragged operands takes requests of equal length in the contiguous form.
  const auto equal = run_kiln(
      "run prefill_bf16_d64_ragged_causal_sm80 --device emulated --q q.npy --k k.npy --v v.npy --out eo.npy --check");
  CHECK_MESSAGE(equal.status == 0, equal.err);
  CHECK(kiln::read_npy(scratch() + "eo.npy").shape == o.shape);
  CHECK(ragged_lse.shape == std::vector<std::int64_t>{4, 66});
  CHECK(kiln::to_floats(ragged_lse)[40] == kiln::to_floats(lse)[4 * 33 + 7]);

  // A truncated input: one line, and no output file.
  std::filesystem::resize_file(scratch() + "v.npy", 1000);
  const auto cut =
      run_kiln("run " + kConfig + " --device emulated --q q.npy --k k.npy --v v.npy --out cut.npy");
  CHECK(cut.status == 2);
  CHECK(is_one_line(cut.err));
  CHECK(cut.err.find("truncated") != std::string::npos);
  CHECK(!std::filesystem::exists(scratch() + "cut.npy"));
}

TEST_CASE("a trace, CSV and JSON lines") {
  REQUIRE_MESSAGE(have_nvrtc(), "no NVRTC: run scripts/setup.sh");
  std::ofstream(scratch() + "t.csv") << "TIMESTAMP,ContextTokens,GeneratedTokens\na,374,1\nb,20,1\nc,3,1\n";
  std::ofstream(scratch() + "t.jsonl") << "{\"input_length\": 374}\n{\"input_length\": 20}\n";
  const auto csv = run_kiln("run " + kConfig +
                            " --device emulated --trace t.csv --requests 2 --max-length 64 --check --json")
                       .json();
  const auto lines =
      run_kiln("run " + kConfig +
               " --device emulated --trace t.jsonl --requests 2 --max-length 64 --check --json")
          .json();
  CHECK(csv["requests"].size() == 2);
  CHECK(csv["requests"][0]["seqlen_q"] == 64);
  CHECK(csv["requests"][1]["seqlen_k"] == 20);
  CHECK(csv["rel_err"] == lines["rel_err"]);
}

TEST_CASE("bad usage: one line on standard error, nothing on standard output, status 2") {
  for (const std::string& arguments : {std::string("lst"),
                                       std::string("run"),
                                       "run " + kConfig + " --sed 3",
                                       "run " + kConfig + " --seqlen-q abc",
                                       "run " + kConfig + " --device toaster",
                                       "run " + kConfig + " --policy sometimes",
                                       "run " + kConfig + " --lengths-q 1,x",
                                       "run " + kConfig + " --lengths-q 1,2 --lengths-k 3",
                                       "run " + kConfig + " --out x.npy --lse x.npy",
                                       "run " + kConfig + " --scale 1e39",
                                       "run " + kConfig + " --lengths-q 1 --batch 2",
                                       "run " + kConfig + " --heads-q 3 --heads-kv 2",
                                       "run " + kConfig + " --batch 0",
                                       "run " + kConfig + " --seqlen-q -1",
                                       "run " + kConfig + " --seqlen-q 99999999999999999999",
                                       "run " + kConfig + " --seqlen-q 2000000000 --batch 2",
                                       "run " + kConfig + " --requests 3",
                                       "run " + kConfig + " --trace /nonexistent",
                                       "run " + kConfig + " --q nothing.npy",
                                       std::string("run no_such_config"),
                                       std::string("cache"),
                                       std::string("cache sats"),
                                       std::string("--json list"),
                                       std::string("validate \"\""),
                                       std::string("validate \"$(printf 'a\\033[31mb')\""),
                                       std::string("plan " KILN_SOURCE_DIR),
                                       "run " + kConfig + " --lengths-q \"\"",
                                       "run " + kConfig + " --seed -3",
                                       "run " + kConfig + " --seed x",
                                       "compile " + kConfig + " --out -",
                                       "compile " + kConfig + " --emit sass",
                                       "compile " + kConfig + " --emit hsaco --out x",
                                       "tune " + kConfig + " --limit 0",
                                       "tune " + kConfig + " --batch 0",
                                       "run " + kConfig + " --tuned",
                                       "run " + kConfig + " --scale 0 --device emulated --seqlen-q 16",
                                       "run " + kConfig + " --scale -1 --device emulated --seqlen-q 16",
                                       "inspect --html " KILN_SOURCE_DIR "/CMakeLists.txt/x.html " + kConfig,
                                       "plan " + kConfig + " " + kConfig,
                                       std::string("emulate /nonexistent.ptx"),
                                       std::string("sweep " KILN_SOURCE_DIR "/CMakeLists.txt")}) {
    CAPTURE(arguments);
    const auto result = run_kiln(arguments);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK_MESSAGE(is_one_line(result.err), result.err);
  }
  CHECK(run_kiln("--json list").err.find("kiln list --json") != std::string::npos);
  CHECK(run_kiln("lst").err.find("did you mean 'list'") != std::string::npos);
  CHECK(run_kiln("run " + kConfig + " --sed 3").err.find("did you mean '--seed'") != std::string::npos);
}

TEST_CASE("a sweep that is none is refused, however it is broken") {
  const std::string base = R"({"base": {"target": "sm_80", "operation": "prefill", "dtype": "bf16"}, )";
  const std::string deep(400000, '[');
  const std::pair<std::string, std::string> cases[] = {
      {base + R"("grids": [{"depht": [64]}]})", "did you mean 'depth'"},
      {base + R"("grids": [{"depth": [64]}], "grid": []})", "\"grid\" is neither"},
      {base + R"("grids": [{"depth": [64], "depth": [128]}]})", "twice"},
      {base + R"("grids": [{"depth": [64,]}]})", "line 1, column"},
      {R"({"base": {"name": )" + deep + std::string(400000, ']') + R"(}, "grids": [{"depth": [64]}]})",
       "deeper"},
  };
  for (const auto& [text, why] : cases) {
    CAPTURE(text.substr(0, 200));
    const auto result = run_kiln("sweep -", text);
    CHECK(result.status == 2);
    CHECK_MESSAGE(is_one_line(result.err), result.err);
    CHECK(result.err.find(why) != std::string::npos);
  }
}

TEST_CASE("verify --mutate --only of a text that no statement has is an error, not a success over nothing") {
  const auto result = run_kiln("verify prefill_bf16_d64_sm80 --mutate --only __syncthreads");
  if (result.status == 3) return;  // no compiler here
  CHECK(result.status == 2);
  CHECK(result.err.find("--only '__syncthreads'") != std::string::npos);
}

TEST_CASE("verify --mutate counts what is caught") {
  // Of PTX, and of a code object where this machine can make one.
  for (const char* arguments :
       {"prefill_bf16_d64_sm80 --only wait_group", "prefill_bf16_d64_gfx942 --only s_barrier"}) {
    CAPTURE(arguments);
    const auto result = run_kiln(std::string("verify --mutate --json ") + arguments);
    if (result.status == 3) {
      MESSAGE("skipped: " << result.err);
      continue;
    }
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const auto document = result.json();
    CHECK(document["findings"].empty());
    CHECK(document["mutants"].get<int>() >= 3);
    CHECK(document["killed"] == document["mutants"]);
    CHECK(document["survivors"].empty());
  }
}

TEST_CASE("what the machine lacks: status 3 and how to get it") {
  const auto compiler = run_kiln("compile " + kConfig, "", "KILN_NVRTC=/nonexistent");
  CHECK(compiler.status == 3);
  CHECK(compiler.err.find("install") != std::string::npos);
  CHECK(run_kiln("generate " + kConfig + " --out g", "", "KILN_NVRTC=/nonexistent").status == 0);
  CHECK(run_kiln("run " + kConfig + " --device hip").status == 3);
  CHECK(run_kiln("doctor --json", "", "KILN_NVRTC=/nonexistent").status == 0);
}

TEST_CASE("an LLVM library that is missing or too old for a target: status 3, and it is named, not asked") {
  const std::string run =
      "run prefill_bf16_d64_gfx950 --device emulated --batch 1 --heads-q 1 --heads-kv 1 --seqlen-q 64 "
      "--seqlen-k 64";
  if (const auto usual = run_kiln(run); usual.status == 3) {
    MESSAGE("skipped: " << usual.err);
    return;
  }
  std::vector<std::string> libraries{"/nonexistent"};
  // Of what distributions have beside the current one. Asked for gfx950 these end the process.
  for (int major = 14; major < 20; ++major)
    libraries.push_back("/usr/lib/x86_64-linux-gnu/libLLVM-" + std::to_string(major) + ".so.1");
  for (const std::string& library : libraries) {
    if (library != libraries[0] && !std::filesystem::exists(library)) continue;
    CAPTURE(library);
    const auto result = run_kiln(run, "", "KILN_LLVM=" + library);
    CHECK(result.status == 3);
    CHECK(is_one_line(result.err));
    CHECK(result.err.find("install libllvm") != std::string::npos);
  }
}

TEST_CASE("every command explains itself") {
  for (const char* command :
       {"", "list", "validate", "plan", "generate", "compile", "run", "inspect", "verify", "sweep", "tune",
        "bench", "emulate", "cache", "cache prune", "doctor"}) {
    const auto result = run_kiln(std::string(command) + " --help");
    CHECK(result.status == 0);
    CHECK(result.out.find("Usage") != std::string::npos);
  }
}

TEST_CASE("output that cannot be written is an error") {
  // Output of any length: a short one fails when it is flushed, a long one while it is printed.
  for (const char* command : {"list --json", "list", "keys", "man", "--help"}) {
    for (const char* out : {"/dev/full", "&-"}) {
      CAPTURE(command);
      const std::string said = scratch() + "full.err";
      CHECK(run_kiln(std::string(command) + " >" + out + " 2>" + said + " #").status == 1);
      std::ifstream err(said);
      CHECK(std::string(std::istreambuf_iterator<char>(err), {}) ==
            "kiln: cannot write to standard output\n");
    }
  }
  CHECK(run_kiln("generate " + kConfig + " --out /proc/none").status == 2);
  CHECK(run_kiln("cache import /tmp").status == 2);
}

TEST_CASE("what is too large for the machine is refused with both figures, and quickly") {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    CAPTURE(arguments);
    const auto result = run_kiln(arguments);
    CHECK(result.status == 3);
    CHECK(result.out.empty());
    CHECK_MESSAGE(is_one_line(result.err), result.err);
    CHECK_MESSAGE(result.err.find(words) != std::string::npos, result.err);
    CHECK_MESSAGE(result.err.find("iB of memory, ") != std::string::npos, result.err);
  };
  refused("run prefill_bf16_d64_causal_sm90a --device emulated --seqlen-q 100000000 --heads-q 8",
          "the problem (batch 1, ");
  refused("run decode_bf16_d128_paged64_sm80 --device emulated --batch 100 --seqlen-k 2000000",
          "the problem (batch 100, ");
  refused("tune prefill_bf16_d64_causal_sm90a --device emulated --no-store --seqlen-q 100000000 --heads-q 8",
          "the problem (");
  // A pack is told by its beginning.
  const auto zeros = run_kiln("cache import /dev/zero");
  CHECK(zeros.status == 2);
  CHECK(zeros.err == "kiln: /dev/zero is not a kiln pack\n");
  std::ofstream(scratch() + "zeros.pack") << "kilnpack 1\n" << std::string(4096, '\0');
  CHECK(run_kiln("cache import zeros.pack").err == "kiln: zeros.pack, entry 1: cut off or not an entry\n");
}

TEST_CASE("a read-only file is not replaced") {
  namespace fs = std::filesystem;
  std::ofstream(scratch() + "kept") << "kept";
  fs::permissions(scratch() + "kept", fs::perms::owner_read | fs::perms::group_read);
  for (const char* command : {"cache export kept", "inspect prefill_bf16_d64_sm80 --html kept"}) {
    const auto result = run_kiln(command);
    CHECK(result.status == 2);
    CHECK(result.err == "kiln: cannot write 'kept': Permission denied\n");
  }
  std::string text;
  std::ifstream(scratch() + "kept") >> text;
  CHECK(text == "kept");
  fs::permissions(scratch() + "kept", fs::perms::owner_all);
  CHECK(run_kiln("cache export kept").status == 0);
}

TEST_CASE("an interrupt during a compile ends with one line and by the signal") {
  REQUIRE_MESSAGE(have_nvrtc(), "no NVRTC: run scripts/setup.sh");
  for (const auto& [ending, line] :
       {std::pair(SIGINT, "kiln: interrupted\n"), std::pair(SIGTERM, "kiln: terminated\n")}) {
    const std::string said = scratch() + "interrupted.err";
    const pid_t pid = fork();
    if (pid == 0) {
      const int err = open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600),
                none = open("/dev/null", O_WRONLY);
      dup2(err, STDERR_FILENO);
      dup2(none, STDOUT_FILENO);
      setenv("KILN_CACHE_DIR", (scratch() + "interrupted-" + std::to_string(ending)).c_str(), 1);
      execl(KILN_COMMAND, "kiln", "compile", "llama3_8b_prefill_sm90a", nullptr);
      _exit(127);
    }
    // Once NVRTC is there the compile begins, and lasts for seconds; its own handlers stand soon after.
    const auto loaded = [&] {
      std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
      for (std::string text; std::getline(maps, text);) {
        if (text.find("libnvrtc.so") != std::string::npos) return true;
      }
      return false;
    };
    while (!loaded() && waitpid(pid, nullptr, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(pid, ending);
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status));  // a shell calls this 130 and 143
    CHECK(WTERMSIG(status) == ending);
    std::ifstream err(said);
    CHECK(std::string(std::istreambuf_iterator<char>(err), {}) == line);
  }
}

TEST_CASE("outputs go through links and devices, which stay what they are") {
  const auto piped = run_kiln("inspect " + kConfig + " --html /dev/stdout");
  CHECK(piped.status == 0);
  CHECK(piped.out.find("<html") != std::string::npos);
  const std::string target = scratch() + "target.html", link = scratch() + "link.html";
  std::filesystem::create_symlink(target, link);
  std::ofstream(target) << "old";
  CHECK(run_kiln("inspect " + kConfig + " --html " + link).status == 0);
  CHECK(std::filesystem::is_symlink(link));
  CHECK(std::filesystem::file_size(target) > 1000);
  // A device that takes nothing: an error, and no file in its place.
  const std::string device = scratch() + "full";
  if (std::system(("mknod " + device + " c 1 7 2>/dev/null").c_str()) != 0) return;  // needs root
  const auto full = run_kiln("inspect " + kConfig + " --html " + device);
  if (full.err.find("ermission") != std::string::npos) return;  // a folder mounted without devices
  CHECK(full.status == 2);
  CHECK(is_one_line(full.err));
  CHECK(std::filesystem::is_character_file(device));
}
