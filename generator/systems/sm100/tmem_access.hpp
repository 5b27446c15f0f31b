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
  /// Of targets with tcgen05.ld.red: `float tmem_load_max_N(float (&x)[N], u32 at)`, the largest of x; NaN does not count.
  std::string load_max() const { return fmt::format("tmem_load_max_{}", registers()); }
  void add_load_max(Prelude& prelude) const;
  void add_store(Prelude& prelude) const;

 private:
  enum class Kind { load, load_max, store };
  /// Lines of an asm statement; `end` follows the last.
  void emit_instructions(Writer& w, Kind kind, const char* end) const;
  int piece() const { return registers() > 64 ? 32 : registers(); }  ///< registers of an instruction
  const char* columns_text() const;

  int columns_;
  bool halves_;
};

}  // namespace kiln::sm100
