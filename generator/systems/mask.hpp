// Which keys a query row sees, as emitted code: `causal`, `sliding_window`, `chunked`, `window` (both sides, chunks and
// left padding, which launches may give), `custom` (a bitmask operand) and the end of the sequence, which every kernel
// has.
//
// Query row i stands at key position i + seqlen_k - seqlen_q (bottom-right alignment). All bounded masks are
// one range of keys per row, [first_key(position), end_key(position)), and both ends grow with the position.
// So the tiles of a block of rows go from the first key of its first row to the last key of its last row, and
// a tile between the first key of the *last* row and the end of the *first* row needs no mask at all.
#pragma once

#include <functional>

#include "generator/config/masks.hpp"
#include "generator/emit/writer.hpp"
#include "generator/systems/score_layout.hpp"

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

class Mask {
 public:
  /// Which ends of the rows' ranges may fall into a tile. `upper` includes the end of the sequence.
  struct Sides {
    bool upper = true, lower = true;
  };

  Mask(const MaskConfig& config, ScoreLayout layout) : config_(config), layout_(std::move(layout)) {}

  bool bounded_above() const { return is_bounded(config_); }
  bool bounded_below() const { return bounded_above() && config_.kind != MaskConfig::Kind::causal; }
  /// What a row sees depends on its place in the sequence; not so under left padding alone.
  bool by_place() const {
    return bounded_above() && (config_.kind != MaskConfig::Kind::window || has_sides(config_));
  }
  bool left_padding() const { return config_.left_padding; }
  bool has_bits() const { return config_.kind == MaskConfig::Kind::custom; }
  /// True when a row may see no key of a tile that it is not past: softmax must expect rows without a
  /// maximum.
  bool may_hide_all() const { return bounded_above() || has_bits(); }

  /// Emitted int expressions for a row (or a block's outermost row) of sequence `batch` at key position `position`,
  /// which may be negative or past the end: the first key it sees (0 or more; with left padding it may be past the
  /// end), and one past the last (<= the first: none). `scope` comes before the names of kernel parameters.
  std::string first_key(const std::string& position, const std::string& batch,
                        const std::string& scope = "") const;
  std::string end_key(const std::string& position, const std::string& seqlen_k, const std::string& batch,
                      const std::string& scope = "") const;
  /// first_key() for the first tile that is read: no more than the last key, whatever the padding.
  std::string first_read(const std::string& position, const std::string& seqlen_k, const std::string& batch,
                         const std::string& scope = "") const;

  /// Keys that `rows` rows in sequence have in common at most; of masks bounded below.
  int most_common_keys(int rows) const;
  /// Tiles of `keys` that a block of `rows` rows visits at most; 0: no bound.
  int most_tiles(int rows, int keys) const {
    const int window = window_keys(config_);
    return window > 0 ? (window + rows - 3) / keys + 2 : 0;
  }

  /// Sides that are known at launch: int kernel parameters.
  std::vector<const char*> launch_sides() const;
  /// They and `first_keys` as parameters of an emitted function, and as arguments of its calls; each begins with a
  /// comma, nothing where there are none.
  std::string function_parameters() const;
  std::string function_arguments() const;

  /// Registers that emitted code keeps through a tile, an estimate for planners.
  int live_registers() const { return has_bits() ? 6 + layout_.columns / 16 : bounded_below() ? 4 : 0; }

  /// Kernel parameters beside those every kernel has, and their text in the parameter list.
  std::vector<KernelParam> params() const;

  /// Once per work item: row pointers into the bitmask (nothing for other masks).
  void emit_rows(Writer& w, const ScoreContext& context) const;
  /// Words of the bitmask for the tile at `first_key`, so that they are on their way early; `upper`: the tile
  /// may reach past the end of the sequence. Nothing for other masks.
  void emit_load(Writer& w, const ScoreContext& context, const std::string& first_key, bool upper) const;
  /// Scores of keys that are not visible become -inf. `first_key`: expression of the tile's first key. With a
  /// bitmask, emit_load of the same tile comes before, in the same block.
  void emit_apply(Writer& w, const ScoreContext& context, const std::string& first_key, Sides sides) const;
  /// The same for tile `n` of `keys` in a loop over all of a block's tiles, most of which every row sees
  /// whole: in a branch on the emitted `clean_begin` and `clean_end`, or `seqlen_k` (the load, where there is
  /// a bitmask). `then` follows in the branch.
  void emit_apply_where_cut(Writer& w, const ScoreContext& context, int keys,
                            const std::function<void(Writer&)>& then = {}) const;

 private:
  void emit_bits(Writer& w) const;
  /// Scores outside the rows' ranges by branches, or by hide_from().
  void emit_branches(Writer& w, bool upper, bool lower) const;
  void emit_choices(Writer& w) const;
  /// Emitted first valid key of a sequence; empty without left padding.
  std::string padding(const std::string& batch, const std::string& scope) const;
  /// Where the chunk of a position begins.
  std::string chunk_start(const std::string& position, const std::string& pad,
                          const std::string& scope) const;

  MaskConfig config_;
  ScoreLayout layout_;
};

}  // namespace kiln
