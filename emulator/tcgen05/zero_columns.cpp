// The mask has one part for each fold of D: N columns with M 128, halves of them with M 64, quarters with M 32. A part is
// runs of zeros and ones by turns. The table of the ISA gives the lengths of the two the other way round than its four
// examples do; the examples are followed here: "use span" is the run whose columns are used.
#include "emulator/tcgen05/zero_columns.hpp"

#include "emulator/tcgen05/descriptor.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

std::uint32_t field(std::uint64_t bits, int shift, int width) {
  return static_cast<std::uint32_t>(bits >> shift & ((std::uint64_t{1} << width) - 1));
}

std::string wrong(const std::string& name, std::uint32_t value, const std::string& must) {
  return "zero-column mask: " + name + " = " + std::to_string(value) + ", " + must;
}

std::string check_shift(const InstructionDescriptor& i, std::uint32_t shift) {
  const std::uint32_t most = i.m == 32 ? 16 : 32;
  if (shift > most)
    return wrong("column shift (bits 56-61)", shift,
                 "at most " + std::to_string(most) + " with M = " + std::to_string(i.m));
  if (shift > i.most_shift)
    return wrong("column shift (bits 56-61)", shift,
                 "the maximum shift (bits 30-31) of the instruction descriptor says at most " +
                     std::to_string(i.most_shift));
  return {};
}

}  // namespace

std::string decode_zero_columns(std::uint64_t bits, const InstructionDescriptor& i, ZeroColumns& out) {
  out = {};
  if (const std::uint32_t v = field(bits, 36, 3); v != 0) return wrong("bits 36-38", v, "must be 0");
  if (const std::uint32_t v = field(bits, 62, 2); v != 0) return wrong("bits 62-63", v, "must be 0");
  out.shift = field(bits, 56, 6);
  if (std::string text = check_shift(i, out.shift); !text.empty()) return text;
  if (field(bits, 39, 1) == 0) return {};
  const std::uint32_t run[2] = {field(bits, 48, 8) + 1, field(bits, 40, 8) + 1};
  const auto parts = static_cast<std::uint32_t>(128 / i.m), width = static_cast<std::uint32_t>(i.n) / parts;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const std::uint32_t skipped = field(bits, static_cast<int>(8 * part), 8);
    std::uint32_t now = field(bits, static_cast<int>(32 + part), 1);
    if (skipped >= run[now])
      return wrong("start count " + std::to_string(part) + " (bits " + std::to_string(8 * part) + "-" +
                       std::to_string(8 * part + 7) + ")",
                   skipped,
                   "must be less than the first span of " + std::to_string(run[now]) +
                       " columns: nothing says what follows it");
    std::uint32_t left = run[now] - skipped;
    for (std::uint32_t c = part * width; c < (part + 1) * width; ++c) {
      if (now != 0) out.zeros[c / 64] |= std::uint64_t{1} << c % 64;
      if (--left == 0) left = run[now ^= 1];
    }
  }
  return {};
}

}  // namespace kiln::emulator::tcgen05
