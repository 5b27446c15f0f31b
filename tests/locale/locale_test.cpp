// The library in a program whose locale writes numbers with a comma: nothing that is read or written changes
// by a byte.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <locale>
#include <sstream>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

#include <kiln/emulator/emulator.hpp>
#include "runtime/support/process.hpp"
#include "runtime/support/settings.hpp"
#include "tests/runtime/support.hpp"
#include "workbench/files/npy.hpp"
#include "workbench/files/trace.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

/// A folder with de_DE.UTF-8, made here: no root and no installed locale is needed.
const std::string& locale_folder() {
  static const Scratch scratch;
  static const bool made = [] {
    ProcessRequest request;
    request.arguments = {"localedef", "-f", "UTF-8", "-i", "de_DE", scratch / "de_DE.UTF-8"};
    return run_process(request).started && std::filesystem::exists(scratch / "de_DE.UTF-8/LC_NUMERIC");
  }();
  REQUIRE_MESSAGE(made, "localedef made no de_DE.UTF-8: run scripts/setup.sh (package locales)");
  return scratch.path();
}

struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

/// The C library's locale and that of C++ streams, for a scope.
class CommaLocale {
 public:
  CommaLocale() {
    setenv("LOCPATH", locale_folder().c_str(), 1);
    REQUIRE(std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr);
    before_ = std::locale::global(std::locale(std::locale::classic(), new Comma));
    // It is in force, or the test would prove nothing.
    REQUIRE(std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr);
    REQUIRE(std::strtod("0,5", nullptr) == 0.5);
    std::ostringstream text;
    text << 1234.5;
    REQUIRE(text.str() == "1.234,5");
  }
  ~CommaLocale() {
    std::locale::global(before_);
    std::setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
  }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;

 private:
  std::locale before_;
};

const char* const kConfigs[] = {
    R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64, "scale": 0.37, "score_mod": {"expr": "score * 0.5 + 1.25 - 1e-3 * k"}})",
    R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128, "mask": "causal", "score_mod": {"softcap": 12.5}, "lse": true})",
    R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 128, "score_mod": "alibi", "operand": {"kind": "paged", "page_size": 16}})",
    R"({"target": "gfx942", "operation": "prefill", "dtype": "bf16", "depth": 128, "score_mod": {"expr": "2.5 * score - .125"}})",
};

constexpr std::string_view kPtx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<3>;
  .reg .f64 %fd<3>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [out];
  mov.f64 %fd1, 0.625;
  add.f64 %fd2, %fd1, 1.5e-1;
  st.global.f64 [%rd1], %fd2;
  ret;
})";

std::string run_ptx() {
  emulator::GlobalMemory memory;
  const std::uint64_t out = memory.allocate(8);
  const emulator::Module module = emulator::Module::from_ptx(std::string(kPtx), "k.ptx");
  emulator::Launch launch;
  launch.kernel = "k";
  launch.args.resize(1);
  launch.args[0].resize(8);
  std::memcpy(launch.args[0].data(), &out, 8);
  emulator::launch(memory, module, launch);
  std::string bytes(8, '\0');
  memory.read(out, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// Everything that reads or writes a number, as text.
std::vector<std::pair<std::string, std::string>> everything() {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](const std::string& name, const std::function<std::string()>& work) {
    std::string text;
    try {
      text = work();
    } catch (const std::exception& error) {
      text = std::string("threw ") + error.what();
    }
    all.emplace_back(name, text);
  };
  for (const char* config : kConfigs) {
    add("config", [&] { return to_json(parse_config(config, "config")); });
    add("source", [&] { return generate(make_plan(parse_config(config, "config"))).text; });
    add("manifest", [&] { return to_json(generate(make_plan(parse_config(config, "config"))).manifest); });
    add("manifest read again", [&] {
      const std::string text = to_json(generate(make_plan(parse_config(config, "config"))).manifest);
      return to_json(manifest_from_json(text));
    });
  }
  add("refusal", [] {
    return to_json(parse_config(
        R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64, "scale": -1.5})",
        "config"));
  });
  add("npy", [] {
    const std::vector<float> values{0.5F, 1234.5F};
    const NpyArray array = npy_from_floats({1, 2}, values);
    const std::vector<std::byte> bytes = format_npy(array);
    const NpyArray again = parse_npy(bytes, "a.npy");
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + shape_text(again.shape);
  });
  for (const char* trace :
       {"ContextTokens\n1234\n12e2\n", "{\"input_length\": 1234}\n{\"input_length\": 12.0}\n"}) {
    add("trace", [&] {
      std::istringstream in(trace);
      std::string text;
      for (const std::int64_t length : read_trace(in, "trace", 0, 0)) text += fmt::format("{} ", length);
      return text;
    });
  }
  for (const char* size : {"1.5G", "0.25M", "1e3", "1,5G"})
    add("size", [&] { return fmt::format("{}", parse_size(size).value_or(7)); });
  add("ptx", run_ptx);
  return all;
}

}  // namespace

TEST_CASE("nothing that is read or written depends on the locale") {
  const auto plain = everything();
  const CommaLocale comma;
  const auto under = everything();
  REQUIRE(plain.size() == under.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(plain[i].first);
    CHECK(plain[i].second == under[i].second);
    CHECK(under[i].second.find(plain[i].first == "refusal" ? "nothing" : "threw ") == std::string::npos);
  }
  // What the plain ones are compared with is right itself.
  CHECK(plain[1].second.find("0.5f") != std::string::npos);
  CHECK(plain[1].second.find("1.25f") != std::string::npos);
}

TEST_CASE("the command under the locale of its user") {
  ProcessRequest request;
  const auto kiln = [&](std::vector<std::string> arguments) {
    const Scratch scratch;
    request.arguments = std::move(arguments);
    request.arguments.insert(request.arguments.begin(), KILN_COMMAND);
    request.environment.emplace_back("KILN_CACHE_DIR", scratch / "cache");
    const ProcessResult result = run_process(request);
    request.environment.pop_back();
    CHECK_MESSAGE(result.ok(), result.errors);
    return result.output;
  };
  const auto facts = [&] {
    std::vector<std::string> texts;
    nlohmann::json run =
        nlohmann::json::parse(kiln({"run", "prefill_bf16_d64_causal_sm80", "--device", "emulated",
                                    "--seqlen-q", "40", "--scale", "0.25", "--check", "--json"}));
    texts.push_back(run["check"].dump() + run["rel_err"].dump());
    texts.push_back(kiln({"plan", "prefill_bf16_d64_causal_sm80"}));
    texts.push_back(kiln({"inspect", "prefill_bf16_d64_causal_sm80", "--json"}));
    return texts;
  };
  const auto plain = facts();
  request.environment = {
      {"LD_PRELOAD", KILN_LOCALE_SHIM}, {"LOCPATH", locale_folder()}, {"LC_ALL", "de_DE.UTF-8"}};
  CHECK(facts() == plain);
}
