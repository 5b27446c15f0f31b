#include "generator/systems/sm100/tmem_access.hpp"

#include <algorithm>

namespace kiln::sm100 {
namespace {

/// Operands x[0], x[1], ... under `constraint`, eight a line; `end` follows the last.
void emit_operands(Writer& w, int count, const char* constraint, const char* end) {
  for (int i = 0; i < count; i += 8) {
    std::string list;
    for (int j = i; j < std::min(i + 8, count); ++j)
      list += fmt::format("{}\"{}\"(x[{}])", j > i ? ", " : "", constraint, j);
    w.line("      {}{}", list, i + 8 < count ? "," : end);
  }
}

}  // namespace

std::string TmemAccess::first_column() const {
  return halves_ ? fmt::format("lane / 16 * {}", registers()) : "0";
}

const char* TmemAccess::columns_text() const {
  return halves_ ? "of a row: lanes 16 to 31 have the second half" : "of this lane's row";
}

std::string TmemAccess::row() const {
  return halves_ ? "16 * warp + lane % 16" : "32 * warp + lane";
}

void TmemAccess::emit_instructions(Writer& w, bool load, const char* end) const {
  const int n = registers(), piece = n > 64 ? 32 : n, first_operand = load ? 0 : 1;
  for (int first = 0; first < n; first += piece) {
    std::string list;
    for (int i = first; i < first + piece; ++i)
      list += fmt::format("{}%{}", i > first ? ", " : "", i + first_operand);
    const std::string operands = fmt::format("{{{}}}", list);
    const std::string column = first > 0 ? fmt::format(" + {}", first) : "";
    const std::string at =
        fmt::format("[%{}{}]{}", load ? n : 0, column, halves_ ? fmt::format(", {}", n) : "");
    w.line("    \"tcgen05.{}.sync.aligned.{}.x{}.b32 {}, {};{}\"{}", load ? "ld" : "st",
           halves_ ? "16x32bx2" : "32x32b", piece, load ? operands : at, load ? at : operands,
           load || first + piece < n ? "\\n" : "", first + piece < n ? "" : end);
  }
}

void TmemAccess::add_load(Prelude& prelude) const {
  Writer w;
  w.comment("{} columns {}, with the wait for them.", registers(), columns_text());
  w.open("__device__ __forceinline__ void {}(float (&x)[{}], u32 at)", load(), registers());
  w.line("asm volatile(");
  emit_instructions(w, true, "");
  w.line("    \"tcgen05.wait::ld.sync.aligned;\" :");
  emit_operands(w, registers(), "=f", "");
  w.line("    : \"r\"(at) : \"memory\");");
  w.close();
  prelude.add(load(), w.take());
}

void TmemAccess::add_store(Prelude& prelude) const {
  Writer w;
  w.comment("{} columns {}.", registers(), columns_text());
  w.open("__device__ __forceinline__ void {}(u32 at, const float (&x)[{}])", store(), registers());
  w.line("asm volatile(");
  emit_instructions(w, false, " ::\"r\"(at),");
  emit_operands(w, registers(), "f", "");
  w.line("    : \"memory\");");
  w.close();
  prelude.add(store(), w.take());
}

}  // namespace kiln::sm100
