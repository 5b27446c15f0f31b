// Configs through to a run: a config of keys that the bytes choose is planned or refused; what is planned is
// compiled by NVRTC (nothing is tried where there is none) and runs on the emulated device without a finding,
// with results that pass the check.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <kiln/generator.hpp>
#include <kiln/runtime.hpp>

#include "workbench/verify/ladder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::size_t at = 0;
  const auto pick = [&](std::initializer_list<const char*> choices) {
    const std::size_t index = at < size ? data[at++] : 0;
    return std::string(choices.begin()[index % choices.size()]);
  };
  std::string text = "{\"target\": \"" + pick({"sm_90a", "sm_80"}) + "\", \"operation\": \"" +
                     pick({"prefill", "decode"}) + "\", \"dtype\": \"" +
                     pick({"bf16", "fp16", "bf16", "fp8_e4m3"}) +
                     "\", \"depth\": " + pick({"64", "128", "256", "80", "192"});
  text += pick({"", "", ", \"ov_depth\": 128", ", \"ov_depth\": 64"});
  text += pick({"", ", \"mask\": \"causal\"", ", \"mask\": {\"sliding_window\": 70}",
                ", \"mask\": {\"chunked\": 33}", ", \"mask\": \"custom\""});
  text += pick({"", "", ", \"score_mod\": {\"softcap\": 20.5}", ", \"score_mod\": \"alibi\"",
                ", \"score_mod\": {\"expr\": \"where(k % 3 == 0, score * 0.5, score - 0.25)\"}"});
  text += pick({"", ", \"lse\": true"}) + pick({"", "", "", ", \"sink\": true"});
  text += pick({"", ", \"operand\": {\"kind\": \"ragged\"}",
                ", \"operand\": {\"kind\": \"paged\", \"page_size\": 16}",
                ", \"operand\": {\"kind\": \"paged\", \"page_size\": 64}",
                ", \"operand\": {\"kind\": \"continuous\"}"});
  text += pick({"", "", "", ", \"kv_dtype\": \"fp8_e4m3\"", ", \"kv_dtype\": \"int8\""});
  text += pick({"", "", ", \"BM\": 64", ", \"BM\": 128", ", \"BN\": 64", ", \"BN\": 128"});
  text += pick({"", "", "", ", \"num_kv_stages\": 2", ", \"num_kv_stages\": 3", ", \"split_kv\": 2"}) + "}";
  try {
    const kiln::Plan plan = kiln::make_plan(kiln::parse_config(text, "fuzz"));
    const kiln::KernelSource source = kiln::generate(plan);
    static kiln::Runtime runtime([] {
      kiln::RuntimeOptions options;
      options.device = "emulated";
      return options;
    }());
    kiln::EmulatorOptions emulator;
    emulator.policy = static_cast<kiln::EmulatorOptions::Policy>(size % 3);
    emulator.seed = size;
    const kiln::LadderRun run =
        kiln::run_cases(runtime, plan, source, kiln::boundary_cases(plan.resolved(), true), emulator, 2);
    if (!run.passed()) {
      std::fprintf(stderr, "%s: %s\n", text.c_str(),
                   run.check.failures.empty() ? run.findings.front().message.c_str()
                                              : run.check.failures.front().c_str());
      std::abort();
    }
  } catch (const kiln::Error& error) {
    if (error.code() == kiln::ErrorCode::bad_config || error.code() == kiln::ErrorCode::environment) return 0;
    std::fprintf(stderr, "%s: %s\n", text.c_str(), error.what());
    std::abort();
  }
  return 0;
}
