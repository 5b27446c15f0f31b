// V of keys that a bounded mask hides. A matrix instruction multiplies whole tiles: where a row does not see a
// key P is 0, and 0 x NaN is NaN. So V of a key that one row of a tile sees reaches O of the
// rows that it is hidden from, where it is NaN or infinite; and what is NaN stays NaN.
//
// The main loops do nothing about it. The epilogue looks whether a warp's O is finite (an operation for two
// columns). If not, and if V of a key that lies in the tiles of the warp's rows, hidden from one of them, is
// not finite, then those rows are computed once more, key by key, with nothing but what each of them sees.
//
// Text for NVIDIA and AMD: 32 lanes share a row, of AMD's waves both halves do the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/mha_operand.hpp"
#include "generator/systems/score_mod.hpp"

namespace kiln {

class HiddenValues {
 public:
  struct Shape {
    int depth = 0, ov_depth = 0;
    DType type = DType::bf16, out = DType::bf16;  ///< of Q, K and V; of O
    std::string pack = {};                        ///< two floats to a register of O's type; unless f32
  };
  /// Emitted expressions.
  struct Place {
    std::string first_row, end_row;  ///< the warp's rows
    std::string query, head;         ///< of `row`, a row of these
    std::string visited_begin,
        visited_end;   ///< keys of the tiles of these rows, or of more; at most seqlen_k
    std::string q, o;  ///< pointers to the elements of `row`, of O in its type
    std::string page;  ///< of `key`, negative: a row of zeros; empty: no table
    std::string k, v;  ///< pointers to the elements of `key` on `page`
    std::string sink;  ///< natural logit of the head; empty: none
    std::string batch = "batch", seqlen_q = "seqlen_q", seqlen_k = "seqlen_k";
  };
  /// Names of the sequence, as an emitted kernel has them.
  struct Names {
    std::string batch = "batch", head = "head", kv_head = "kv_head", q_start = "q_start", k_start = "k_start",
                seqlen_q = "seqlen_q", seqlen_k = "seqlen_k";
    std::string query = "row";  ///< the query of `row`
  };
  /// The place of rows, without which rows and keys. Kernel parameters are
  /// pointers and strides of Q, K, V and O, and the table's.
  static Place place_of(const Config& resolved, const Names& names);

  /// Of a decode kernel that shares `rows` packed rows of item `s` (query heads by positions, from row `first` on)
  /// among `warps` warps.
  struct Packed {
    std::string first = {};
    int warps = 4, keys = 64;  ///< keys of a tile
    std::string warp = "warp";
  };
  static Place place_of(const Config& resolved, Names names, const Packed& packed);
  /// Of the item `s` of NVIDIA's decode kernels.
  static Names names_of_item() {
    return {"s.batch",
            "",
            "s.kv_head",
            "s.sequence.q_start",
            "s.sequence.k_start",
            "s.sequence.seqlen_q",
            "s.sequence.seqlen_k"};
  }

  HiddenValues(const Shape& shape, const MaskConfig& mask, const ScoreMod& modifier, ScoreDialect dialect)
      : shape_(shape), mask_(mask, one_score()), modifier_(modifier, one_score(), std::move(dialect)) {}

  /// Of a config whose mask may hide a key of a tile from one row and not from another of it, with K and V of 16
  /// bits. `pack` as in Shape.
  static std::optional<HiddenValues> of(const Config& resolved, std::string pack, ScoreDialect dialect = {});
  void use(Prelude& prelude) const;
  /// Pointers and strides of Q, K, V and O, which place_of() names, where a kernel that reads them by tensor map has
  /// none yet.
  static void add_params(std::vector<KernelParam>& params, const Config& resolved);

  /// `odd`, declared or assigned: whether one of `elements` is not finite. These are registers of O before its
  /// division, an even number, each column of the warp's once: a product with such a V is NaN or infinite in all of
  /// its rows.
  static void emit_look(Writer& w, const std::vector<std::string>& elements,
                        const char* odd = "const bool odd");
  /// Of `count` accumulators of mma.sync or wgmma, those of the first of a lane's two rows.
  static std::vector<std::string> first_rows(const char* array, int count);
  /// `odd` becomes true where one of four columns of O, x to w of `four`, is not finite.
  static void emit_look_at(Writer& w, const std::string& four);
  /// Where the rows of an item were stored by all warps of a block. `flag`: an int in shared memory, 0 when the
  /// kernel begins and in between; `sync`: a barrier of the warps, a statement.
  void emit_block_repair(Writer& w, const Place& place, const std::string& flag,
                         const std::string& sync) const;

  /// After O was stored, and `when` (of all lanes alike) somebody's O was odd: the rows over again. `before`: what
  /// makes that store visible, a statement.
  void emit_repair(Writer& w, const Place& place, const std::string& when, const std::string& before) const;

 private:
  static ScoreLayout one_score();

  Shape shape_;
  Mask mask_;
  ScoreModifier modifier_;
};

}  // namespace kiln
