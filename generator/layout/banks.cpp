#include "generator/layout/banks.hpp"

#include <algorithm>
#include <array>

namespace kiln::layout {
namespace {

struct LaneRange {
  int first, last;
};

Phases repeat_in_upper_half(const std::vector<std::vector<LaneRange>>& lower) {
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

AmdPhases made_phases(bool gfx950, LdsAccess access) {
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

}  // namespace

BankCount count_banks(std::span<const std::uint32_t> addresses, int bytes, const Phases& phases, int banks) {
  BankCount count;
  std::vector<std::uint32_t> words;
  std::vector<int> wanted(static_cast<std::size_t>(banks));
  for (const auto& lanes : phases) {
    words.clear();
    for (int lane : lanes) {
      const std::uint32_t address = addresses[static_cast<std::size_t>(lane)];
      if (address == kInactive) continue;
      for (int b = 0; b < bytes; b += 4) words.push_back((address + static_cast<std::uint32_t>(b)) / 4);
    }
    if (words.empty()) continue;
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::fill(wanted.begin(), wanted.end(), 0);
    for (const std::uint32_t word : words) ++wanted[word % static_cast<std::uint32_t>(banks)];
    count.phases += 1;
    count.cycles += *std::max_element(wanted.begin(), wanted.end());
  }
  return count;
}

const Phases& nvidia_phases(int bytes_per_lane) {
  static const std::array<Phases, 3> all{consecutive(32, 32), consecutive(32, 16), consecutive(32, 8)};
  return all[bytes_per_lane <= 4 ? 0 : bytes_per_lane <= 8 ? 1 : 2];
}

BankCount nvidia_banks(std::span<const std::uint32_t> addresses, int bytes_per_lane) {
  return count_banks(addresses, bytes_per_lane, nvidia_phases(bytes_per_lane), 32);
}

const AmdPhases& amd_phases(Target target, LdsAccess access) {
  const auto made = [](bool gfx950) {
    std::vector<AmdPhases> all;
    for (int each = 0; each <= static_cast<int>(LdsAccess::write_b128); ++each)
      all.push_back(made_phases(gfx950, static_cast<LdsAccess>(each)));
    return all;
  };
  static const std::vector<AmdPhases> gfx950 = made(true), before = made(false);
  return (target == Target::gfx950 ? gfx950 : before)[static_cast<std::size_t>(access)];
}

BankCount amd_banks(Target target, LdsAccess access, std::span<const std::uint32_t> addresses) {
  const AmdPhases& model = amd_phases(target, access);
  return count_banks(addresses, bytes_of(access), model.phases, model.banks);
}

}  // namespace kiln::layout
