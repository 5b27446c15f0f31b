// Findings: where they are, how equal ones are folded, and the counters.
#include <cstdio>

#include "emulator/amdgcn/load/module.hpp"
#include "emulator/amdgcn/machine/machine.hpp"

namespace kiln::emulator::amdgcn {

const Inst& Wave::current() const {
  return grid.program.code[static_cast<std::size_t>(pc)];
}

Site Wave::site(const Inst& in, int lane) const {
  Site out;
  const auto it = grid.program.by_address.find(in.address);
  const int index_of = it == grid.program.by_address.end() ? -1 : it->second;
  out.kernel = grid.kernel;
  out.block = wg.id;
  out.warp = index;
  out.lane = lane;
  out.ptx_line = index_of < 0 ? 0 : index_of - grid.entry + 1;
  char address[32];
  std::snprintf(address, sizeof address, "%llx: ", static_cast<unsigned long long>(in.address));
  out.ptx_text = address + in.text;
  out.source_file = in.source_file == nullptr ? "" : *in.source_file;
  out.source_line = in.source_line;
  return out;
}

void Wave::report(const char* kind, const Inst& in, int lane, const std::string& message, const Inst* other,
                  int other_wave) {
  if (!grid.launch.findings) return;
  const std::lock_guard lock(grid.mutex);
  std::string key = kind;
  key += '|' + std::to_string(in.address) + '|' + (other == nullptr ? "" : std::to_string(other->address));
  const auto [it, fresh] = grid.finding_index.try_emplace(key, grid.findings.size());
  if (!fresh) {
    if (it->second < grid.findings.size()) ++grid.findings[it->second].count;
    return;
  }
  if (static_cast<int>(grid.findings.size()) >= grid.launch.max_findings) {
    it->second = grid.findings.size() + 1;  // counted nowhere: the report is full
    return;
  }
  Finding f;
  f.kind = kind;
  f.message = message;
  f.site = site(in, lane);
  if (other != nullptr) {
    f.has_other = true;
    f.other = site(*other, -1);
    f.other.warp = other_wave;
  }
  grid.findings.push_back(std::move(f));
}

std::span<const std::string_view> finding_kinds() {
  static constexpr std::string_view kinds[] = {"ambiguous-bounds",
                                               "barrier-mismatch",
                                               "deadlock",
                                               "global-race",
                                               "instruction-budget",
                                               "lds-dma-not-waited",
                                               "lds-overwritten",
                                               "lds-race",
                                               "misaligned",
                                               "out-of-bounds",
                                               "partial-exec",
                                               "register-not-waited",
                                               "register-overwritten",
                                               "trap",
                                               "uninitialized-lds",
                                               "uninitialized-read",
                                               "uninitialized-register"};
  return kinds;
}

Tally& tally() {
  static thread_local Tally t;
  return t;
}

void Tally::add(const Tally& o) {
  for (int i = 0; i < kClasses; ++i) by_class[i] += o.by_class[i];
  lane_instructions += o.lane_instructions;
  lds_accesses += o.lds_accesses;
  lds_conflicts += o.lds_conflicts;
  global_accesses += o.global_accesses;
  global_sectors += o.global_sectors;
  bytes_read += o.bytes_read;
  bytes_written += o.bytes_written;
  dma_bytes += o.dma_bytes;
  matrix_flops += o.matrix_flops;
}

}  // namespace kiln::emulator::amdgcn
