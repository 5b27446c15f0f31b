// Emitted accessors of tensor memory by a whole warp, with their wait.
//
//   shape      32x32b       lane l of the warp has row l, register i column i
//              16x32bx2     accumulators of 64 rows, 16 in the first lanes of each warp's 32: lanes 16 to 31 have the
//                           same rows, and the columns from `registers` on
#pragma once

#include <string>

#include <fmt/format.h>

#include "generator/emit/prelude.hpp"

namespace kiln::sm100 {

class TmemAccess {
 public:
  /// `columns`: a power of two up to 64; `m`: rows of the accumulator, 64 or 128.
  TmemAccess(int columns, int m) : columns_(columns), halves_(m == 64) {}

  /// Columns that one lane holds.
  int registers() const { return halves_ ? columns_ / 2 : columns_; }
  /// Emitted: the first of them, and the row of the accumulator.
  std::string first_column() const;
  std::string row() const;

  /// `void tmem_load_N(float (&x)[N], u32 at)`, `tmem_load_halves_N`.
  std::string load() const { return fmt::format("tmem_load_{}{}", halves_ ? "halves_" : "", registers()); }
  std::string store() const { return fmt::format("tmem_store_{}{}", halves_ ? "halves_" : "", registers()); }
  void add_load(Prelude& prelude) const;
  void add_store(Prelude& prelude) const;

 private:
  std::string instruction(bool load) const;

  int columns_;
  bool halves_;
};

}  // namespace kiln::sm100
