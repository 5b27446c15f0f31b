#include "generator/systems/sm100/tmem_access.hpp"

#include "generator/emit/writer.hpp"

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

std::string TmemAccess::row() const {
  return halves_ ? "16 * warp + lane % 16" : "32 * warp + lane";
}

std::string TmemAccess::instruction(bool load) const {
  const int n = registers();
  std::string list;
  for (int i = 0; i < n; ++i) list += fmt::format("{}%{}", i > 0 ? ", " : "", load ? i : i + 1);
  list = "{" + list + "}";
  const std::string at = fmt::format("[%{}]", load ? n : 0), split = halves_ ? fmt::format(", {}", n) : "";
  return fmt::format("tcgen05.{}.sync.aligned.{}.x{}.b32 {};", load ? "ld" : "st",
                     halves_ ? "16x32bx2" : "32x32b", n,
                     load ? list + ", " + at + split : at + split + ", " + list);
}

void TmemAccess::add_load(Prelude& prelude) const {
  Writer w;
  w.comment("{} columns {}, with the wait for them.", registers(),
            halves_ ? "of a row: lanes 16 to 31 have the second half" : "of this lane's row");
  w.open("__device__ __forceinline__ void {}(float (&x)[{}], u32 at)", load(), registers());
  w.line("asm volatile(");
  w.line("    \"{}\\n\"", instruction(true));
  w.line("    \"tcgen05.wait::ld.sync.aligned;\" :");
  emit_operands(w, registers(), "=f", "");
  w.line("    : \"r\"(at) : \"memory\");");
  w.close();
  prelude.add(load(), w.take());
}

void TmemAccess::add_store(Prelude& prelude) const {
  Writer w;
  w.comment("The same columns back.");
  w.open("__device__ __forceinline__ void {}(u32 at, const float (&x)[{}])", store(), registers());
  w.line("asm volatile(");
  w.line("    \"{}\" ::\"r\"(at),", instruction(false));
  emit_operands(w, registers(), "f", "");
  w.line("    : \"memory\");");
  w.close();
  prelude.add(store(), w.take());
}

}  // namespace kiln::sm100
