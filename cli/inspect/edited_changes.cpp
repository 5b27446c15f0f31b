// Instructions are compared as the disassembler writes them, without addresses.
#include "cli/inspect/edited_changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "cli/execute/bench_compare.hpp"
#include "cli/generate/edited_source.hpp"
#include "cli/inspect/report_json.hpp"
#include "cli/inspect/sass.hpp"

namespace kiln::cli {
namespace {

constexpr std::size_t kMostOpcodes = 24;  // rows of the table

/// "0010: @P0 FADD R1, R2, R3": the instruction.
std::string_view instruction_of(std::string_view line) {
  const std::size_t colon = line.find(": ");
  return colon == std::string_view::npos ? line : line.substr(colon + 2);
}

/// "FADD"; with its types and modifiers, since those are what it costs: "MUFU.RCP", "v_mfma_f32_32x32x8_bf16_1k".
std::string_view opcode_of(std::string_view instruction) {
  if (instruction.starts_with('@'))
    instruction.remove_prefix(std::min(instruction.find(' ') + 1, instruction.size()));
  return instruction.substr(0, instruction.find(' '));
}

/// The instructions of a program, without what fills it up to the next boundary.
struct MachineCode {
  std::string kind, problem;
  std::vector<std::string> instructions;

  explicit MachineCode(const Binary& binary) {
    if (!binary.image.starts_with("\x7f"
                                  "ELF")) {
      problem = "the compiled program has none (it was compiled under kiln emulate)";
      return;
    }
    const Json program = binary.ptx.empty() ? program_json(binary) : sass_json(binary);
    if (program.contains("problem")) {
      problem = program["problem"].get<std::string>();
      return;
    }
    kind = program["kind"].get<std::string>();
    for (const Json& line : program["lines"])
      instructions.emplace_back(instruction_of(line.get_ref<const std::string&>()));
    const auto padding = [](const std::string& text) {
      const std::string_view opcode = opcode_of(text);
      return opcode == "NOP" || opcode == "s_nop" || opcode == "s_code_end";
    };
    while (!instructions.empty() && padding(instructions.back())) instructions.pop_back();
  }
};

Json machine_changes(const Binary& before, const Binary& after) {
  const MachineCode old_code(before), new_code(after);
  for (const MachineCode* code : {&old_code, &new_code})
    if (!code->problem.empty()) return {{"problem", code->problem}};
  std::map<std::string, std::pair<int, int>, std::less<>> counts;
  for (const std::string& text : old_code.instructions) ++counts[std::string(opcode_of(text))].first;
  for (const std::string& text : new_code.instructions) ++counts[std::string(opcode_of(text))].second;
  Json opcodes = Json::object();
  for (const auto& [opcode, count] : counts)
    if (count.first != count.second) opcodes[opcode] = {count.first, count.second};
  std::size_t places = 0;
  for (std::size_t i = 0; i < std::min(old_code.instructions.size(), new_code.instructions.size()); ++i)
    places += old_code.instructions[i] == new_code.instructions[i] ? 0 : 1;
  return {{"kind", new_code.kind},
          {"instructions", {old_code.instructions.size(), new_code.instructions.size()}},
          {"places", places},
          {"opcodes", opcodes}};
}

using Rows = std::vector<std::vector<std::string>>;

void add_row(Rows& rows, const std::string& name, const Json& pair) {
  const auto before = pair[0].get<std::int64_t>(), after = pair[1].get<std::int64_t>();
  rows.push_back({name, std::to_string(before), std::to_string(after),
                  after == before ? "" : fmt::format("{:+d}", after - before)});
}

/// The opcodes with the largest changes, and below them how many there are more.
std::string add_opcodes(Rows& rows, const Json& opcodes) {
  std::vector<std::pair<std::string, Json>> sorted;
  for (const auto& [opcode, pair] : opcodes.items()) sorted.emplace_back(opcode, pair);
  const auto change = [](const Json& pair) {
    return std::abs(pair[1].get<std::int64_t>() - pair[0].get<std::int64_t>());
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto& a, const auto& b) { return change(a.second) > change(b.second); });
  for (std::size_t i = 0; i < std::min(sorted.size(), kMostOpcodes); ++i)
    add_row(rows, "  " + sorted[i].first, sorted[i].second);
  if (sorted.size() <= kMostOpcodes) return {};
  return fmt::format("  and {} opcodes more; --json has all\n", sorted.size() - kMostOpcodes);
}

}  // namespace

Json changes_json(const KernelSource& edited, const Binary& before, const Binary& after) {
  const int smem = edited.manifest.smem_bytes;
  Json out{{"file", edited.file},
           {"compiler", after.compiler},
           {"registers", {before.registers, after.registers}}};
  if (after.ptx.empty()) {
    out["accumulators"] = {before.accumulators, after.accumulators};
    out["scalar_registers"] = {before.scalar_registers, after.scalar_registers};
  }
  out["spill_bytes"] = {before.spill_bytes, after.spill_bytes};
  out["stack_bytes"] = {before.stack_bytes, after.stack_bytes};
  out["smem_bytes"] = {smem + before.static_smem_bytes, smem + after.static_smem_bytes};
  out["warnings"] = after.warnings;
  out["machine"] = machine_changes(before, after);
  return out;
}

Json changes_json(Runtime& runtime, const Plan& plan, const KernelSource& edited) {
  const std::shared_ptr<const Binary> after = compiled(runtime, edited);
  return changes_json(edited, *runtime.compile(generate(plan)), *after);
}

void add_times(Json& changes, const std::vector<double>& before, const std::vector<double>& after) {
  const Comparison c = compare_samples(before, after);
  changes["us"] = {median(before), median(after)};
  changes["emitted_samples"] = before;
  changes["ratio"] = c.ratio;
  changes["interval"] = {c.low, c.high};
  changes["verdict"] = c.verdict();
}

void print_changes(const Json& changes) {
  Rows rows{{changes["file"].get<std::string>(), "emitted", "edited", "change"}};
  const bool amd = changes.contains("accumulators");
  add_row(rows, amd ? "vector registers" : "registers", changes["registers"]);
  const auto has_any = [&](const char* key) { return changes[key] != Json{0, 0}; };
  if (amd) {
    if (has_any("accumulators")) add_row(rows, "  accumulators of them", changes["accumulators"]);
    add_row(rows, "scalar registers", changes["scalar_registers"]);
  }
  add_row(rows, "bytes spilled", changes["spill_bytes"]);
  if (has_any("stack_bytes")) add_row(rows, "bytes of stack", changes["stack_bytes"]);
  add_row(rows, "bytes of shared memory", changes["smem_bytes"]);
  std::string below;
  if (changes.contains("us")) {
    const auto number = [](const Json& value) { return value.get<double>(); };
    rows.push_back({"time", time_text(number(changes["us"][0])), time_text(number(changes["us"][1])),
                    fmt::format("x {:.3f}", number(changes["ratio"]))});
    below = fmt::format("the edited kernel is {} (95 % interval {:.3f} .. {:.3f})\n",
                        changes["verdict"] == "same" ? "as fast" : changes["verdict"].get<std::string>(),
                        number(changes["interval"][0]), number(changes["interval"][1]));
  }
  const Json& machine = changes["machine"];
  if (machine.contains("problem")) {
    std::string problem = machine["problem"].get<std::string>();
    std::replace(problem.begin(), problem.end(), '\n', ' ');
    below += "machine code is not compared: " + problem + "\n";
  } else {
    add_row(rows, machine["kind"].get<std::string>() + " instructions", machine["instructions"]);
    below += add_opcodes(rows, machine["opcodes"]);
    const auto places = machine["places"].get<std::size_t>();
    if (machine["opcodes"].empty())
      below += places == 0
                   ? "the machine code is the same\n"
                   : fmt::format("the same opcodes; {} instructions have other operands or another place\n",
                                 places);
  }
  fmt::print("{}{}", table(rows), below);
  for (const Json& warning : changes["warnings"])
    fmt::print("{} {}\n", bad("check failed:"), warning.get<std::string>());
}

}  // namespace kiln::cli
