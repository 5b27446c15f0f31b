#include "workbench/analysis/amd_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include <kiln/error.hpp>

#include "workbench/analysis/control_flow.hpp"

namespace kiln {
namespace {

using emulator::amdgcn::InstructionView;

constexpr std::array<AmdMachine, 3> kAmdMachines{{
    {"gfx90a", "one die of an MI250X", 110, 1.7, 64 << 10, 16, 128, 191, 0, 1.6},
    {"gfx942", "MI300X", 304, 2.1, 64 << 10, 16, 128, 1307, 2615, 5.3},
    {"gfx950", "MI355X", 256, 2.4, 160 << 10, 8, 256, 2517, 5033, 8.0},
}};

/// Prefill, measured by others on their kernels (sources in docs/amd.md). The first row that fits a kernel is
/// the one.
enum class Of { fp8, causal, any };
struct PublishedRow {
  std::string_view target;
  Of of;
  int most_depth;
  AmdPublished figure;
};
constexpr PublishedRow kPublished[] = {
    {"gfx950", Of::fp8, 1024, {827, "MAX prefill v2, FP8, depth 128, tiles of 128 keys"}},
    {"gfx950", Of::causal, 64, {821, "HipKittens, BF16, depth 64, causal, GQA, 4096 tokens; AITER 392"}},
    {"gfx950",
     Of::causal,
     1024,
     {1216, "HipKittens, BF16, depth 128, causal, GQA 64/8, 8192 tokens; AITER 1205"}},
    {"gfx950", Of::any, 1024, {1408, "AITER v3, BF16, depth 128, no mask, batch 4, 64/8 heads, 8192 tokens"}},
    {"gfx942", Of::any, 1024, {592, "AITER v3, BF16, depth 128, no mask, batch 4, 64/8 heads, 8192 tokens"}},
};

/// Issue to issue on one SIMD, for gfx90a, gfx942 and gfx950; 0: the target lacks it.
struct MatrixRow {
  std::string_view shape;
  int bits;  ///< of an element of A and B
  int blocks;
  std::array<int, 3> cycles;
};
constexpr MatrixRow kMatrixRows[] = {
    {"32x32x8", 16, 1, {64, 32, 32}}, {"16x16x16", 16, 1, {32, 16, 16}}, {"4x4x4", 16, 16, {8, 8, 8}},
    {"32x32x16", 16, 1, {0, 0, 32}},  {"16x16x32", 16, 1, {0, 0, 16}},   {"32x32x16", 8, 1, {0, 32, 32}},
    {"16x16x32", 8, 1, {0, 16, 16}},  {"32x32x64", 8, 1, {0, 0, 64}},    {"16x16x128", 8, 1, {0, 0, 32}},
    {"32x32x64", 4, 1, {0, 0, 32}},   {"16x16x128", 4, 1, {0, 0, 16}},
};

/// Value of "name:3" in an instruction's text, or 0.
int modifier(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  int value = 0;
  if (at != std::string_view::npos)
    std::from_chars(text.data() + at + name.size(), text.data() + text.size(), value);
  return value;
}

const MatrixRow* matrix_row(std::string_view text) {
  constexpr std::string_view kStart = "v_mfma_";
  if (!text.starts_with(kStart)) return nullptr;
  std::string_view name = text.substr(kStart.size(), text.find(' ') - kStart.size());
  if (name.starts_with("scale_")) name.remove_prefix(6);
  if (!name.starts_with("f32_")) return nullptr;
  name.remove_prefix(4);
  int bits = 0;
  if (name.find("f8f6f4") != std::string_view::npos) {
    // Formats 0 and 1 have 8 bits; the rate is that of the wider operand.
    bits = modifier(text, "cbsz:") <= 1 || modifier(text, "blgp:") <= 1 ? 8 : 4;
  } else if (name.find("fp8") != std::string_view::npos || name.find("bf8") != std::string_view::npos) {
    bits = 8;
  } else if (name.find("f16") != std::string_view::npos) {
    bits = 16;
  }
  for (const MatrixRow& row : kMatrixRows) {
    if (row.bits == bits && name.starts_with(row.shape) && name.size() > row.shape.size() &&
        (name[row.shape.size()] < '0' || name[row.shape.size()] > '9'))
      return &row;
  }
  return nullptr;
}

/// Bytes that one lane moves, by the end of the mnemonic: b128, dwordx4, u16, ...
int lane_bytes(std::string_view name) {
  struct Row {
    std::string_view word;
    int bytes;
  };
  static constexpr Row rows[] = {{"b128", 16}, {"dwordx4", 16}, {"b96", 12},    {"dwordx3", 12}, {"b64", 8},
                                 {"u64", 8},   {"f64", 8},      {"dwordx2", 8}, {"u16", 2},      {"i16", 2},
                                 {"b16", 2},   {"short", 2},    {"ushort", 2},  {"u8", 1},       {"i8", 1},
                                 {"b8", 1},    {"byte", 1}};
  // A transposing read names the element last: ds_read_b64_tr_b16 moves 8 bytes.
  if (const std::size_t tr = name.find("_tr_"); tr != std::string_view::npos) name = name.substr(0, tr);
  int bytes = 4;
  for (const Row& row : rows) {
    if (name.find(row.word) != std::string_view::npos) {
      bytes = row.bytes;
      break;
    }
  }
  return name.find("read2") != std::string_view::npos || name.find("write2") != std::string_view::npos
             ? 2 * bytes
             : bytes;
}

constexpr int kWaveLanes = 64, kSimds = 4, kVectorCycles = 4, kLdsBytes = 128, kL1Bytes = 64;

/// Waves of a SIMD and blocks of a compute unit that are resident together.
void set_residence(AmdLoopModel& model, const AmdMachine& machine, const Binary& binary,
                   const Manifest& manifest) {
  const int registers = std::max(8, (binary.registers + 7) / 8 * 8);
  const int waves_by_registers = std::min(8, 512 / registers) * kSimds;
  const int block_waves = std::max(1, (manifest.num_threads + kWaveLanes - 1) / kWaveLanes);
  const int lds = manifest.smem_bytes + binary.static_smem_bytes;
  const int blocks_by_lds = lds == 0 ? 64 : machine.lds_bytes / lds;
  model.blocks_per_cu = std::max(1, std::min(blocks_by_lds, waves_by_registers / block_waves));
  model.waves_per_simd = std::max(1, model.blocks_per_cu * block_waves / kSimds);
}

/// Whole clocks of an access of a wave; one of less than 4 bytes a lane takes as long as one of 4.
int whole_clocks(int bytes, int bytes_a_clock) {
  return std::max(bytes, 4 * kWaveLanes) / bytes_a_clock;
}

/// Adds one instruction; pipes in cycles of one wave.
void add(AmdLoopModel& model, const AmdMachine& machine, const InstructionView& in) {
  const std::string_view name = in.text.substr(0, in.text.find(' '));
  const int bytes = lane_bytes(name) * kWaveLanes;
  ++model.instructions;
  if (in.kind == "mfma") {
    const int cycles = mfma_cycles(machine.target, in.text);
    if (cycles == 0) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("the cycle model does not know {} on {}", name, machine.target));
    }
    ++model.mfma;
    model.matrix += cycles;
    model.flops += mfma_flops(in.text);
  } else if (in.kind == "transcendental") {
    ++model.transcendental;
    model.vector += machine.transcendental;
  } else if (in.kind == "valu") {
    ++model.valu;
    model.vector += kVectorCycles;
  } else if (in.kind == "lds_read") {
    ++model.lds_reads;
    model.narrow_lds += bytes < 4 * kWaveLanes ? 1 : 0;
    model.lds += whole_clocks(bytes, bytes >= 8 * kWaveLanes ? machine.lds_read_bytes : kLdsBytes);
  } else if (in.kind == "lds_write" || in.kind == "lds_atomic") {
    ++model.lds_writes;
    model.narrow_lds += bytes < 4 * kWaveLanes ? 1 : 0;
    model.lds += whole_clocks(bytes, kLdsBytes);
  } else if (in.kind == "lds_permute") {
    ++model.lds_permutes;
    model.lds += 4.0 * kWaveLanes / kLdsBytes;
  } else if (in.kind == "dma") {
    ++model.dma;
    model.narrow_dma += bytes < 16 * kWaveLanes ? 1 : 0;
    model.memory += static_cast<double>(bytes) / kL1Bytes;
    model.lds += static_cast<double>(bytes) / kLdsBytes;
  } else if (in.kind.starts_with("vmem")) {
    ++model.memory_loads;
    model.narrow_loads += bytes < 4 * kWaveLanes ? 1 : 0;
    model.scratch += name.starts_with("scratch_") ? 1 : 0;
    model.memory += whole_clocks(bytes, kL1Bytes);
  } else if (in.kind == "wait") {
    ++model.waits;
  } else if (in.kind == "barrier") {
    ++model.barriers;
  } else {
    ++model.scalar;
  }
}

bool has_two_groups(const Manifest& manifest) {
  return manifest.config_json.find(R"("schedule":"cdna_prefill_pingpong")") != std::string::npos;
}

/// Cycles of one iteration of a ping-pong loop: between two barriers one group of waves is in one phase and
/// the other group in the next; a SIMD has a wave of each. Neither ends before its own instructions in order,
/// nor before any pipe has served both.
double two_group_cycles(const std::vector<AmdLoopModel>& phases) {
  double cycles = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const AmdLoopModel &a = phases[i], &b = phases[(i + 1) % phases.size()];
    const auto in_order = [](const AmdLoopModel& m) {
      return m.matrix + m.vector + (m.lds + m.memory) / kSimds;
    };
    const auto issue = [](const AmdLoopModel& m) { return 4.0 * m.instructions; };
    cycles += std::max({in_order(a), in_order(b), a.matrix + b.matrix, a.vector + b.vector,
                        kSimds * (a.lds + b.lds), kSimds * (a.memory + b.memory), issue(a), issue(b)});
  }
  return cycles;
}

emulator::amdgcn::Module open_module(const Binary& binary) {
  try {
    return emulator::amdgcn::Module::from_code_object(
        std::as_bytes(std::span(binary.image.data(), binary.image.size())), binary.name);
  } catch (const emulator::Error& error) {
    throw Error(ErrorCode::environment, error.what());
  }
}

/// The loop from barrier to barrier; the first phase goes on where the last ends.
std::vector<AmdLoopModel> loop_phases(const AmdMachine& machine, std::span<const InstructionView> code,
                                      std::span<const std::size_t> path) {
  std::vector<AmdLoopModel> phases(1);
  for (const std::size_t i : path) {
    add(phases.back(), machine, code[i]);
    if (code[i].kind == "barrier") phases.emplace_back();
  }
  for (const std::size_t i : path) {
    if (phases.size() == 1) break;
    add(phases.back(), machine, code[i]);
    if (code[i].kind == "barrier") break;
  }
  if (phases.size() > 1) phases.erase(phases.begin());
  return phases;
}

/// Cycles of one wave become those of all resident waves. A wave issues one instruction in 4 cycles; a SIMD has
/// its own matrix and vector unit, LDS and L1 belong to all four.
void set_pipes(AmdLoopModel& model) {
  model.issue = 4.0 * model.instructions;
  model.wave = model.matrix + model.vector + (model.lds + model.memory) / kSimds;
  const double waves = model.waves_per_simd, unit_waves = waves * kSimds;
  model.matrix *= waves;
  model.vector *= waves;
  model.lds *= unit_waves;
  model.memory *= unit_waves;
  model.flops *= model.waves_per_simd * kSimds;
  const std::pair<double, const char*> pipes[] = {{model.matrix, "matrix"},
                                                  {model.vector, "vector"},
                                                  {model.lds, "LDS"},
                                                  {model.memory, "memory"},
                                                  {model.issue, "issue"}};
  const auto most = std::ranges::max_element(pipes, {}, &std::pair<double, const char*>::first);
  model.cycles = most->first;
  model.bound = most->second;
}

void set_rates(AmdLoopModel& model, const AmdMachine& machine, const std::vector<AmdLoopModel>& phases) {
  const double scale = static_cast<double>(model.flops) * machine.compute_units * machine.ghz * 1e-3;
  model.tflops_bound = scale / model.cycles;
  model.tflops_in_order = scale / std::max(model.cycles, model.wave);
  const int block_waves = std::max(1, model.waves_per_simd / model.blocks_per_cu);
  const double lockstep =
      std::max(model.cycles, model.two_groups ? two_group_cycles(phases) : model.wave * block_waves);
  model.tflops_lockstep = scale / lockstep;
  model.bytes = model.memory * kL1Bytes;
  model.read_tbs = model.bytes / lockstep * machine.compute_units * machine.ghz * 1e-3;
}

}  // namespace

const AmdMachine& amd_machine(std::string_view target) {
  for (const AmdMachine& machine : kAmdMachines) {
    if (machine.target == target) return machine;
  }
  throw Error(ErrorCode::bad_input,
              fmt::format("the cycle model is for gfx90a, gfx942 and gfx950, not {}", target));
}

AmdPublished amd_published(const Manifest& manifest) {
  const bool causal = manifest.config_json.find(R"("mask":"causal")") != std::string::npos;
  for (const PublishedRow& row : kPublished) {
    const bool fits = row.of == Of::any || (row.of == Of::fp8 ? is_fp8(manifest.dtype) : causal);
    if (row.target == manifest.target && manifest.depth <= row.most_depth && fits) return row.figure;
  }
  return {};
}

int mfma_cycles(std::string_view target, std::string_view text) {
  const MatrixRow* row = matrix_row(text);
  return row == nullptr ? 0
                        : row->cycles[static_cast<std::size_t>(&amd_machine(target) - kAmdMachines.data())];
}

std::int64_t mfma_flops(std::string_view text) {
  const MatrixRow* row = matrix_row(text);
  if (row == nullptr) return 0;
  std::int64_t product = 2 * row->blocks, number = 0;
  for (const char c : row->shape) {
    if (c == 'x') {
      product *= number;
      number = 0;
    } else {
      number = number * 10 + (c - '0');
    }
  }
  return product * number;
}

AmdLoopModel model_amd_loop(const Binary& binary, const Manifest& manifest) {
  const AmdMachine& machine = amd_machine(binary.target);
  const emulator::amdgcn::Module module = open_module(binary);
  const auto code = module.instructions(binary.entry);
  const auto loop = main_loop(code);
  if (!loop) throw Error(ErrorCode::bad_input, binary.name + " has no loop with matrix instructions");
  AmdLoopModel model;
  model.first_address = code[loop->path.front()].address;
  set_residence(model, machine, binary, manifest);
  model.two_groups = has_two_groups(manifest);
  for (const std::size_t i : loop->path) add(model, machine, code[i]);
  std::vector<AmdLoopModel> phases = loop_phases(machine, code, loop->path);
  if (model.two_groups) {
    // Each group's copies stand in the text, and on the path, but a wave makes only its own.
    model.memory /= 2;
    for (AmdLoopModel& phase : phases) phase.memory /= 2;
  }
  set_pipes(model);
  set_rates(model, machine, phases);
  return model;
}

}  // namespace kiln
