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

void TmemAccess::emit_instructions(Writer& w, Kind kind, const char* end) const {
  const bool load = kind != Kind::store, max = kind == Kind::load_max;
  const int n = registers(), maxima = max ? n / piece() : 0, first_operand = load ? 0 : 1;
  for (int first = 0; first < n; first += piece()) {
    std::string list;
    for (int i = first; i < first + piece(); ++i)
      list += fmt::format("{}%{}", i > first ? ", " : "", i + first_operand);
    std::string operands = fmt::format("{{{}}}", list);
    if (max) operands += fmt::format(", %{}", n + first / piece());
    const std::string column = first > 0 ? fmt::format(" + {}", first) : "";
    const std::string at =
        fmt::format("[%{}{}]{}", load ? n + maxima : 0, column, halves_ ? fmt::format(", {}", n) : "");
    w.line("    \"tcgen05.{}.sync.aligned.{}.x{}.{} {}, {};{}\"{}",
           max    ? "ld.red"
           : load ? "ld"
                  : "st",
           halves_ ? "16x32bx2" : "32x32b", piece(), max ? "max.f32" : "b32", load ? operands : at,
           load ? at : operands, load || first + piece() < n ? "\\n" : "", first + piece() < n ? "" : end);
  }
}

void TmemAccess::add_load(Prelude& prelude) const {
  Writer w;
  w.comment("{} columns {}, with the wait for them.", registers(), columns_text());
  w.open("__device__ __forceinline__ void {}(float (&x)[{}], u32 at)", load(), registers());
  w.line("asm volatile(");
  emit_instructions(w, Kind::load, "");
  w.line("    \"tcgen05.wait::ld.sync.aligned;\" :");
  emit_operands(w, registers(), "=f", "");
  w.line("    : \"r\"(at) : \"memory\");");
  w.close();
  prelude.add(load(), w.take());
}

void TmemAccess::add_load_max(Prelude& prelude) const {
  Writer w;
  const int maxima = registers() / piece();
  w.comment("{} columns {}, with the wait for them, and the largest.", registers(), columns_text());
  w.open("__device__ __forceinline__ float {}(float (&x)[{}], u32 at)", load_max(), registers());
  std::string names, outputs, largest = "max_0";
  for (int i = 0; i < maxima; ++i) {
    names += fmt::format("{}max_{}", i > 0 ? ", " : "", i);
    outputs += fmt::format("{}\"=f\"(max_{})", i > 0 ? ", " : "", i);
    if (i > 0) largest = fmt::format("fmaxf({}, max_{})", largest, i);
  }
  w.line("float {};", names);
  w.line("asm volatile(");
  emit_instructions(w, Kind::load_max, "");
  w.line("    \"tcgen05.wait::ld.sync.aligned;\" :");
  emit_operands(w, registers(), "=f", ",");
  w.line("      {}", outputs);
  w.line("    : \"r\"(at) : \"memory\");");
  w.line("return {};", largest);
  w.close();
  prelude.add(load_max(), w.take());
}

void TmemAccess::add_store(Prelude& prelude) const {
  Writer w;
  w.comment("{} columns {}.", registers(), columns_text());
  w.open("__device__ __forceinline__ void {}(u32 at, const float (&x)[{}])", store(), registers());
  w.line("asm volatile(");
  emit_instructions(w, Kind::store, " ::\"r\"(at),");
  emit_operands(w, registers(), "f", "");
  w.line("    : \"memory\");");
  w.close();
  prelude.add(store(), w.take());
}

}  // namespace kiln::sm100
