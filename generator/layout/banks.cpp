#include "generator/layout/banks.hpp"

#include <algorithm>
#include <set>

namespace kiln::layout {
namespace {

struct LaneRange {
  int first, last;
};

Phases repeat_in_upper_half(std::vector<std::vector<LaneRange>> lower) {
  Phases phases;
  for (int half : {0, 32}) {
    for (const auto& ranges : lower) {
      std::vector<int>& lanes = phases.emplace_back();
      for (const LaneRange& range : ranges) {
        for (int lane = range.first; lane <= range.last; ++lane) lanes.push_back(lane + half);
      }
    }
  }
  return phases;
}

Phases consecutive(int lanes, int per_phase) {
  Phases phases;
  for (int first = 0; first < lanes; first += per_phase) {
    std::vector<int>& phase = phases.emplace_back();
    for (int lane = first; lane < first + per_phase; ++lane) phase.push_back(lane);
  }
  return phases;
}

int bytes_of(LdsAccess access) {
  switch (access) {
    case LdsAccess::read_u16:
    case LdsAccess::read_b32:
      return 4;
    case LdsAccess::read_b128:
    case LdsAccess::write_b128:
      return 16;
    case LdsAccess::read_b96:
      return 12;
    default:
      return 8;
  }
}

}  // namespace

BankCount count_banks(std::span<const std::uint32_t> addresses, int bytes, const Phases& phases, int banks) {
  BankCount count;
  for (const auto& lanes : phases) {
    std::vector<std::set<std::uint32_t>> words(static_cast<std::size_t>(banks));
    for (int lane : lanes) {
      const std::uint32_t address = addresses[static_cast<std::size_t>(lane)];
      if (address == kInactive) continue;
      for (int b = 0; b < bytes; b += 4) {
        const std::uint32_t word = (address + static_cast<std::uint32_t>(b)) / 4;
        words[word % static_cast<std::uint32_t>(banks)].insert(word);
      }
    }
    std::size_t deepest = 0;
    for (const auto& bank : words) deepest = std::max(deepest, bank.size());
    if (deepest == 0) continue;
    count.phases += 1;
    count.cycles += static_cast<int>(deepest);
  }
  return count;
}

Phases nvidia_phases(int bytes_per_lane) {
  return consecutive(32, std::min(32, 128 / bytes_per_lane));
}

BankCount nvidia_banks(std::span<const std::uint32_t> addresses, int bytes_per_lane) {
  return count_banks(addresses, bytes_per_lane, nvidia_phases(bytes_per_lane), 32);
}

AmdPhases amd_phases(Target target, LdsAccess access) {
  const bool gfx950 = target == Target::gfx950;
  const Phases quarters = repeat_in_upper_half(
      {{{0, 3}, {20, 23}}, {{4, 7}, {16, 19}}, {{8, 11}, {28, 31}}, {{12, 15}, {24, 27}}});
  switch (access) {
    case LdsAccess::read_u16:
    case LdsAccess::read_b32:
      return {consecutive(64, 32), 32, false};
    case LdsAccess::read_b128:
      if (!gfx950) return {quarters, 32};
      return {repeat_in_upper_half({{{0, 3}, {12, 15}, {20, 27}}, {{4, 11}, {16, 19}, {28, 31}}}), 64};
    case LdsAccess::read_b96:
      return {quarters, 32, gfx950};
    case LdsAccess::read_b64:
      if (gfx950) return {consecutive(64, 32), 64};
      return {consecutive(64, 16), 32, false};
    case LdsAccess::read_b64_tr:
      return {consecutive(64, 32), 64, false};
    case LdsAccess::write_b64:
      return {consecutive(64, 16), 32, gfx950};
    case LdsAccess::write_b128:
      return {consecutive(64, 8), 32};
  }
  return {};
}

BankCount amd_banks(Target target, LdsAccess access, std::span<const std::uint32_t> addresses) {
  const AmdPhases model = amd_phases(target, access);
  return count_banks(addresses, bytes_of(access), model.phases, model.banks);
}

}  // namespace kiln::layout
