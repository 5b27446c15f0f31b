#include "cli/inspect/inspect_amd.hpp"

#include <fmt/format.h>

#include <kiln/kiln.hpp>

#include "workbench/analysis/amd_loop.hpp"

namespace kiln::cli {

Json amd_cycle_model(const KernelSource& source) {
  try {
    Runtime runtime;
    const auto binary = runtime.compile(source);
    const AmdMachine& machine = amd_machine(binary->target);
    const AmdLoopModel m = model_amd_loop(*binary, source.manifest);
    const double peak = is_fp8(source.manifest.dtype) ? machine.peak_8bit : machine.peak_16bit;
    Json published = nullptr;
    if (const AmdPublished found = amd_published(source.manifest); found.tflops > 0)
      published = {{"tflops", found.tflops}, {"by", found.as}, {"device", machine.device}};
    return {{"device", machine.device},
            {"registers",
             {{"vector", binary->registers},
              {"accumulators", binary->accumulators},
              {"scalar", binary->scalar_registers}}},
            {"loop",
             {{"address", fmt::format("{:x}", m.first_address)},
              {"instructions", m.instructions},
              {"mfma", m.mfma},
              {"valu", m.valu},
              {"transcendental", m.transcendental},
              {"scalar", m.scalar},
              {"lds_reads", m.lds_reads},
              {"lds_writes", m.lds_writes},
              {"lds_permutes", m.lds_permutes},
              {"memory", m.memory_loads},
              {"dma", m.dma},
              {"waits", m.waits},
              {"barriers", m.barriers},
              {"narrow_lds", m.narrow_lds},
              {"narrow_memory", m.narrow_loads},
              {"scratch", m.scratch}}},
            {"blocks_per_cu", m.blocks_per_cu},
            {"waves_per_simd", m.waves_per_simd},
            {"cycles",
             {{"matrix", m.matrix},
              {"vector", m.vector},
              {"lds", m.lds},
              {"memory", m.memory},
              {"issue", m.issue},
              {"one_wave", m.wave}}},
            {"bound", m.bound},
            {"tflops", m.tflops_bound},
            {"tflops_in_order", m.tflops_in_order},
            {"tflops_lockstep", m.tflops_lockstep},
            {"two_groups", m.two_groups},
            {"peak_tflops", peak},
            {"decode", source.manifest.operation == Operation::decode},
            {"read_tbs", m.read_tbs},
            {"memory_tbs", machine.memory_tbs},
            {"published", published}};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::environment && error.code() != ErrorCode::bad_input) throw;
    return {{"problem", error.what()}};
  }
}

void print_amd_cycle_model(const Json& model) {
  fmt::print("\n{} (on paper: nothing was run on AMD hardware)\n", bold("cycle model of the main loop"));
  if (model.contains("problem")) {
    fmt::print("  {}\n", model["problem"].get<std::string>());
    return;
  }
  const Json &loop = model["loop"], &cycles = model["cycles"];
  const auto number = [](const Json& value) { return value.get<double>(); };
  const auto count = [&](const char* key) { return loop[key].get<int>(); };
  fmt::print(
      "  {} instructions of a wave: {} MFMA, {} vector, {} transcendental, {} LDS reads, {} LDS writes, {} "
      "LDS\n"
      "  permutes, {} memory, {} DMA, {} waits, {} barriers, {} scalar\n",
      count("instructions"), count("mfma"), count("valu"), count("transcendental"), count("lds_reads"),
      count("lds_writes"), count("lds_permutes"), count("memory"), count("dma"), count("waits"),
      count("barriers"), count("scalar"));
  fmt::print("  {} vector registers ({} accumulators): {} blocks a CU, {} waves a SIMD\n",
             model["registers"]["vector"].get<int>(), model["registers"]["accumulators"].get<int>(),
             model["blocks_per_cu"].get<int>(), model["waves_per_simd"].get<int>());
  fmt::print(
      "  cycles of all resident waves: matrix {:.0f}, vector {:.0f}, LDS {:.0f}, memory {:.0f}, issue "
      "{:.0f}; one "
      "wave alone {:.0f}\n",
      number(cycles["matrix"]), number(cycles["vector"]), number(cycles["lds"]), number(cycles["memory"]),
      number(cycles["issue"]), number(cycles["one_wave"]));
  fmt::print(
      "  bound by {}; TFLOP/s on {}: {:.0f} when pipes overlap perfectly, {:.0f} when only waves do, {:.0f} "
      "when the\n"
      "  {} in step; peak {:.0f}\n",
      model["bound"].get<std::string>(), model["device"].get<std::string>(), number(model["tflops"]),
      number(model["tflops_in_order"]), number(model["tflops_lockstep"]),
      model["two_groups"].get<bool>() ? "two groups of waves of a block go" : "waves of a block go",
      number(model["peak_tflops"]));
  if (model["decode"].get<bool>()) {
    fmt::print(
        "  keys and values at up to {:.1f} TB/s by this loop; the memory of {} brings {:.1f}: bound by {}\n",
        number(model["read_tbs"]), model["device"].get<std::string>(), number(model["memory_tbs"]),
        number(model["read_tbs"]) < number(model["memory_tbs"]) ? "the loop" : "the memory");
  } else if (!model["published"].is_null()) {
    fmt::print("  published, measured by others on {}: {:.0f} TFLOP/s ({})\n",
               model["published"]["device"].get<std::string>(), number(model["published"]["tflops"]),
               model["published"]["by"].get<std::string>());
  }
}

}  // namespace kiln::cli
