// Bank conflicts of one LDS access: which lanes are served together, and how many of them need one bank for
// different dwords. Phases as published for b128 and gfx950; where nothing is published (b64 before gfx950,
// transposing reads) consecutive lanes are assumed.
#include <algorithm>
#include <array>
#include <vector>

#include "emulator/amdgcn/load/module.hpp"
#include "emulator/tensor/multiversion.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using Phase = std::vector<int>;

Phase lanes(std::initializer_list<std::pair<int, int>> ranges) {
  Phase p;
  for (const auto& [first, last] : ranges) {
    for (int l = first; l <= last; ++l) p.push_back(l);
  }
  return p;
}

std::vector<Phase> consecutive(int width) {
  std::vector<Phase> phases;
  for (int first = 0; first < kLanes; first += width) phases.push_back(lanes({{first, first + width - 1}}));
  return phases;
}

/// The lower half's phases, and the same for the upper one.
std::vector<Phase> both_halves(std::vector<Phase> phases) {
  const std::size_t n = phases.size();
  for (std::size_t i = 0; i < n; ++i) {
    Phase upper = phases[i];
    for (int& l : upper) l += 32;
    phases.push_back(std::move(upper));
  }
  return phases;
}

struct Service {
  int banks;
  std::vector<Phase> phases;
};

const Service& service(bool gfx950, int bytes, bool write, bool transposed) {
  static const Service narrow{32, consecutive(32)};
  static const Service read_b128{32, both_halves({lanes({{0, 3}, {20, 23}}), lanes({{4, 7}, {16, 19}}),
                                                  lanes({{8, 11}, {28, 31}}), lanes({{12, 15}, {24, 27}})})};
  static const Service read_b64{32, consecutive(16)};
  static const Service write_b64{32, consecutive(16)};
  static const Service write_b128{32, consecutive(8)};
  static const Service wide_read_b128{
      64, both_halves({lanes({{0, 3}, {12, 15}, {20, 27}}), lanes({{4, 11}, {16, 19}, {28, 31}})})};
  static const Service wide_read_b64{64, consecutive(32)};
  if (bytes <= 4) return narrow;
  if (write) return bytes == 8 ? write_b64 : write_b128;
  if (bytes == 8) return gfx950 ? wide_read_b64 : read_b64;
  if (transposed || bytes == 12) return read_b128;
  return gfx950 ? wide_read_b128 : read_b128;
}

}  // namespace

KILN_MULTIVERSION int lds_conflicts(std::string_view target, std::span<const std::uint32_t> offsets,
                                    int bytes, bool write, bool transposed, std::uint64_t mask) {
  const Service& s = service(target == "gfx950", bytes, write, transposed);
  int extra = 0;
  for (const Phase& phase : s.phases) {
    std::array<std::uint32_t, kLanes * 4> words;
    std::size_t count = 0;
    for (const int lane : phase) {
      if (!(mask >> lane & 1) || static_cast<std::size_t>(lane) >= offsets.size()) continue;
      for (int b = 0; b < std::max(4, bytes); b += 4)
        words[count++] = (offsets[static_cast<std::size_t>(lane)] + static_cast<std::uint32_t>(b)) / 4;
    }
    std::uint64_t used = 0;
    bool apart = true;  // every word in a bank of its own
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bank = std::uint64_t{1} << words[i] % static_cast<unsigned>(s.banks);
      apart &= (used & bank) == 0;
      used |= bank;
    }
    if (apart) continue;
    std::sort(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
    const auto end = std::unique(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
    std::array<int, 64> load{};
    for (auto it = words.begin(); it != end; ++it) ++load[*it % static_cast<unsigned>(s.banks)];
    extra += std::max(0, *std::max_element(load.begin(), load.end()) - 1);
  }
  return extra;
}

}  // namespace kiln::emulator::amdgcn
