// Emitted accessors of tensor memory by a whole warp: loads with their wait, stores without.
//
//   shape      32x32b       lane l of the warp has row l, register i column i; over 64 columns by 32
//              16x32bx2     accumulators of 64 rows, 16 in the first lanes of each warp's 32: lanes 16 to 31 have the
//                           same rows, and the columns from `registers` on
#pragma once

#include <string>

#include <fmt/format.h>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"

namespace kiln::sm100 {

class TmemAccess {
 public:
  /// `columns`: a power of two up to 64, of 128 rows also a multiple of 32 up to 128; `m`: rows of the accumulator,
  /// 64 or 128.
  TmemAccess(int columns, int m) : columns_(columns), halves_(m == 64) {}

  /// Columns that one lane holds.
  int registers() const { return halves_ ? columns_ / 2 : columns_; }
  /// Emitted: the first of them, and the row of the accumulator.
  std::string first_column() const;
  std::string row() const;

  /// `void tmem_load_N(float (&x)[N], u32 at)`, `tmem_load_halves_N`. `void tmem_store_floats_N(u32 at, const float
  /// (&x)[N])`, `tmem_store_halves_N`: the caller waits (`tmem_wait_store`).
  std::string load() const { return fmt::format("tmem_load_{}{}", halves_ ? "halves_" : "", registers()); }
  std::string store() const {
    return fmt::format("tmem_store_{}_{}", halves_ ? "halves" : "floats", registers());
  }
  void add_load(Prelude& prelude) const;
  void add_store(Prelude& prelude) const;

 private:
  /// Lines of an asm statement; `end` follows the last.
  void emit_instructions(Writer& w, bool load, const char* end) const;
  const char* columns_text() const;

  int columns_;
  bool halves_;
};

}  // namespace kiln::sm100
