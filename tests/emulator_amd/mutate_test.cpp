// Mutants of code objects: what is changed, and that the emulated device notices every one of them.
#include <doctest/doctest.h>

#include "emulator/amdgcn/mutate.hpp"
#include "harness.hpp"

using namespace amd_test;

TEST_CASE("each wait, barrier and wide LDS access of a program has its mutants, and all are killed") {
  if (!toolchain()) return;
  for (const std::string& target : kTargets) {
    CAPTURE(target);
    const auto bytes = compile_program("swap", target);
    const std::string object(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto mutants = amd::mutations(amd::Module::from_code_object(bytes), "swap");
    const auto run = [&](const std::string& code, emu::Policy policy, std::uint64_t seed) {
      const auto module = amd::Module::from_code_object(std::as_bytes(std::span(code.data(), code.size())));
      Device d;
      std::vector<float> x(512);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      const auto in = d.upload(x, "in"), out = d.reserve<float>(512, "out");
      auto launch = launch_of({1, 1, 1}, {128, 1, 1}, {arg(in), arg(out)});
      launch.policy = policy;
      launch.seed = seed;
      launch.instruction_budget = 100000;
      const auto report = amd::launch(d.memory, module, launch);
      if (!report.completed || !report.findings.empty()) return false;
      const auto y = d.download<float>(out, 512);
      for (std::size_t i = 0; i < 512; ++i) {
        if (y[i] != x[(127 - i / 4) * 4 + i % 4]) return false;
      }
      return true;
    };
    for (const Way& way : kWays) CHECK(run(object, way.policy, way.seed));
    int barriers = 0, waits = 0, swizzles = 0;
    for (const auto& mutant : mutants) {
      CAPTURE(mutant.change);
      CAPTURE(mutant.text);
      barriers += mutant.text.starts_with("s_barrier") ? 1 : 0;
      waits += mutant.text.starts_with("s_waitcnt") ? 1 : 0;
      swizzles += mutant.text.starts_with("ds_") ? 1 : 0;
      const std::string code = amd::apply(object, mutant);
      CHECK(code.size() == object.size());
      bool killed = false;
      for (const Way& way : kWays) killed = killed || !run(code, way.policy, way.seed);
      CHECK(killed == mutant.equivalent.empty());
    }
    CHECK(barriers == 1);
    CHECK(waits >= 4);
    CHECK(swizzles == 2);
  }
}

TEST_CASE("of a block of one wave barriers, and waits for what only others would see, are told apart") {
  if (!toolchain()) return;
  const std::string body =
      "__shared__ u32 words[64];\nwords[tid()] = in[tid()];\n"
      "__asm volatile(\"s_waitcnt lgkmcnt(0)\\n\\ts_barrier\" ::: \"memory\");\nout[tid()] = words[63 - tid()];\n}\n";
  for (const int lanes : {64, 128}) {
    CAPTURE(lanes);
    const auto bytes = compile_text(program_source("swap") + "\nKERNEL(" + std::to_string(lanes) +
                                        ") k(const u32* in, u32* out) {\n" + body,
                                    "gfx942");
    bool barrier = false, wait = false;
    for (const auto& mutant : amd::mutations(amd::Module::from_code_object(bytes), "k")) {
      if (mutant.text.starts_with("s_barrier")) {
        barrier = true;
        CHECK(mutant.equivalent.empty() == (lanes > 64));
      }
      if (mutant.text == "s_waitcnt lgkmcnt(0)" && !barrier && mutant.change == "lgkmcnt not waited") {
        // the last one before the barrier
        wait = mutant.equivalent.empty();
      }
    }
    CHECK(barrier);
    CHECK(wait == (lanes > 64));
  }
}
