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
#include "generator/emit/text_template.hpp"
#include "generator/emit/writer.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/mha_operand.hpp"
#include "generator/systems/score_mod.hpp"

namespace kiln {

class HiddenValues {
 public:
  struct Shape {
    int depth = 0, ov_depth = 0;
    DType type = DType::bf16, out = DType::bf16;  ///< of Q, of O
    std::string pack = {};                        ///< two floats to a register of O's type; unless f32
    DType kv = DType::bf16;                       ///< of K and V
    bool row_scales = false;                      ///< rows of K and V have scales of their own
    int block = 0;                                ///< elements of a row of one of them; 0: all
    DType scale = DType::f32;                     ///< of these scales
    int rope = 0;                                 ///< of depth: columns of Q's type apart from K's others
    bool apart = false;                           ///< in a function that is called
  };
  /// Emitted expressions.
  struct Place {
    std::string first_row, end_row;  ///< the warp's rows
    std::string query, head;         ///< of `row`, a row of these
    std::string visited_begin,
        visited_end;     ///< keys of the tiles of these rows, or of more; at most seqlen_k
    std::string q, o;    ///< pointers to the elements of `row`, of O in its type
    std::string page;    ///< of `key`, negative: a row of zeros; empty: no table
    std::string k, v;    ///< pointers to the elements of `key` on `page`
    std::string k_rope;  ///< pointer to the rotary columns of `key`, if they are apart
    std::string sink;    ///< natural logit of the head; empty: none
    /// Of 8-bit K and V: pointers to the scales of `key`'s row on `page`, or the one scale of the head; empty: none.
    /// Of an 8-bit Q: " * " and its scale; of numbers with a factor beside their scales that of K, and of V.
    std::string k_scale, v_scale, q_scale, v_factor;
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
    std::string warp = "warp", rows = "rows";
  };
  static Place place_of(const Config& resolved, Names names, const Packed& packed);
  /// Of the item `s` of NVIDIA's decode kernels; `aligned_rows` as StreamK has it.
  static Names names_of_item(const char* aligned_rows) {
    return {"s.batch",
            "",
            "s.kv_head",
            "s.sequence.q_start",
            "s.sequence.k_start",
            aligned_rows,
            "s.sequence.seqlen_k"};
  }

  HiddenValues(const Shape& shape, const MaskConfig& mask, const ScoreMod& modifier, ScoreDialect dialect)
      : shape_(shape), mask_(mask, one_score()), modifier_(modifier, one_score(), std::move(dialect)) {}

  /// Of a config whose mask may hide a key of a tile from one row and not from another of it, unless neither V nor
  /// its scales can be anything but finite. `pack` as in Shape.
  static std::optional<HiddenValues> of(const Config& resolved, std::string pack, ScoreDialect dialect = {});
  /// The same where a main loop has no registers left: in a function that is called, with what it needs of the kernel
  /// in memory. Costs a frame, of which nothing is written unless rows are computed again.
  HiddenValues apart() const {
    HiddenValues out = *this;
    out.shape_.apart = true;
    return out;
  }
  void use(Prelude& prelude) const;
  /// Pointers and strides of Q, K, V, O and scales, which place_of() names, where a kernel that reads them by tensor
  /// map has none yet.
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
  /// Reading K and V as the type that they have.
  void add_types(Holes& holes, const Place& place) const;
  void add_scales(Holes& holes, const Place& place) const;

  Shape shape_;
  Mask mask_;
  ScoreModifier modifier_;
};

/// The hidden values of a kernel that may have none to look after: then nothing is emitted.
class HiddenGuard {
 public:
  HiddenGuard() = default;
  HiddenGuard(std::optional<HiddenValues> values) : values_(std::move(values)) {}

  bool on() const { return values_.has_value(); }
  void set_apart() {
    if (values_) values_ = values_->apart();
  }
  /// As of HiddenValues.
  void use(Prelude& prelude) const;
  void add_params(std::vector<KernelParam>& params, const Config& resolved) const;
  /// Functions that find a key's page, of kernels that have none of their own.
  void emit_page_functions(Writer& w, const Config& resolved) const;
  /// `flag` of emit_block_repair, at the kernel's start, by the thread for which `when` holds.
  void emit_flag(Writer& w, const std::string& flag, const std::string& when = "") const;
  /// `odd`, before anything was looked at.
  void emit_odd(Writer& w) const;
  void emit_look(Writer& w, const std::vector<std::string>& elements,
                 const char* odd = "const bool odd") const;
  void emit_look_at(Writer& w, const std::string& four) const;
  void emit_block_repair(Writer& w, const Config& resolved, const HiddenValues::Names& names,
                         const HiddenValues::Packed& packed, const std::string& flag,
                         const std::string& sync) const;
  void emit_repair(Writer& w, const HiddenValues::Place& place, const std::string& when,
                   const std::string& before) const;

 private:
  std::optional<HiddenValues> values_;
};

}  // namespace kiln
