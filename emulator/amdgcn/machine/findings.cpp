// Findings: where they are, how equal ones are folded, and the counters.
#include <algorithm>
#include <cstdio>
#include <utility>

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

namespace {

/// How many barriers, or with `waits` waits too, come before an instruction: what lies between two of them shares its
/// missing synchronisation.
std::string region(const Grid& grid, const Inst& in, bool waits) {
  const auto count =
      std::count_if(grid.program.code.begin() + grid.entry, grid.program.code.end(), [&](const Inst& i) {
        return i.address < in.address && (i.cls == Class::barrier || (waits && i.cls == Class::wait));
      });
  return std::to_string(count);
}

/// Either may be the one that came later.
std::string pair_of(std::string a, std::string b) {
  if (b < a) std::swap(a, b);
  return a + " | " + b;
}

std::string source(const Site& s) {
  return s.source_file + ':' + std::to_string(s.source_line);
}

/// See Mistakes: findings that share one of these are one mistake.
std::vector<std::string> causes_of(const Grid& grid, const Finding& f, const Inst& in, const Inst* other) {
  const std::string& kind = f.kind;
  const bool lines = f.site.source_line != 0 && (other == nullptr || f.other.source_line != 0);
  std::vector<std::string> out;
  if (kind.ends_with("-race") && other != nullptr)
    out.push_back("race #" + pair_of(region(grid, in, false), region(grid, *other, false)));
  else if (kind == "register-not-waited" ||
           kind == "uninitialized-register")  // what nobody waited for is unknown
    out.push_back("register #" + region(grid, in, true));
  else if (kind == "register-overwritten" || kind == "lds-dma-not-waited" || kind == "lds-overwritten" ||
           kind.starts_with("uninitialized"))
    out.push_back(kind + " #" + region(grid, in, true));
  if (lines)
    out.push_back((kind.ends_with("-race") ? "race" : kind) + ' ' + pair_of(source(f.site), source(f.other)));
  else if (out.empty())  // as an unrolled loop has it several times
    out.push_back(kind + " #" + region(grid, in, true) + ' ' + in.text.substr(0, in.text.find(' ')));
  return out;
}

}  // namespace

void Wave::report(const char* kind, const Inst& in, int lane, const std::string& message, const Inst* other,
                  int other_wave) {
  if (!grid.launch.findings) return;
  Finding f;
  f.kind = kind;
  f.message = message;
  f.site = site(in, lane);
  if (other != nullptr) {
    f.has_other = true;
    f.other = site(*other, -1);
    f.other.warp = other_wave;
  }
  const std::lock_guard lock(grid.mutex);
  if (grid.mistakes.again(f.kind, f.site.ptx_line, f.has_other ? f.other.ptx_line : 0)) return;
  const std::vector<std::string> causes = causes_of(grid, f, in, other);
  grid.mistakes.add(std::move(f), causes);
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
