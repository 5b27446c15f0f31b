// StreamK: the split-KV plan of a decode kernel, computed by the kernel itself from the lengths on the
// device.
//
// An item is one packed query tile (BM rows: query positions x query heads of one KV head) of one sequence;
// its work is num_tiles KV tiles. Blocks form teams of `team_heads` consecutive blocks; block i of a team
// takes the items congruent to i, so that those of one head, and neighbouring heads, read their keys at the
// same time. All tiles of all sequences, laid end to end, are cut into as many equal ranges as there are
// teams: every block gets the same number of tiles whatever the lengths are, and an item is split only where
// a range ends inside it.
//
//   position   0 ............................................................ total
//   sequence   [ b=0, slot 0 | b=0, slot 1 ][ b=1, slot 0 | b=1, slot 1 ][ ...
//   team       |  0   |  1   |  2   |  3   |  4  ...
//
// Blocks do not get equal shares of the memory's bandwidth, so with `dynamic` the last eighth of long work is
// cut into shorter cells that go to whoever is done first. Where cells begin depends on the lengths alone.
//
// A cell leaves at most two partial results: of its first segment (slot 0 of its workspace) and its last
// (slot 1). The last block to finish an item, told by a counter that it leaves at zero, combines the parts in
// order of position, so results do not depend on timing.
//
// With a fixed number of parts positions count parts instead of tiles: every item is cut the same way
// whatever else is in the batch, and its parts are contiguous in the workspace.
//
// Prefill has items enough for all blocks (`by_rows`): nothing is split, and nothing added up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <kiln/config.hpp>
#include "generator/emit/prelude.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/emit/writer.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/staged_pipeline.hpp"

namespace kiln {

class StreamK {
 public:
  struct Shape {
    OperandKind kind = OperandKind::contiguous;
    int BM = 16;        ///< packed query rows of an item
    int BN = 64;        ///< keys of a tile
    MaskConfig mask;    ///< keys before the first query's first are not read
    bool split = true;  ///< where ranges end; false: as `parts` says
    int parts = 1;      ///< parts of every item without `split`: results depend on its own length alone
    /// Emitted before the first length is read, if any is, unless the launch promises (`launch_before`) that
    /// the one before it leaves the lengths alone. Empty: launches follow each other, and there is no
    /// promise.
    std::string_view before_lengths = {};
    bool dynamic = false;  ///< the end of the work goes to the blocks that are done first
    /// Of a fixed number of parts: each is an item of its own, written whole, those without keys, too.
    bool separate = false;
    /// Many query rows, as in prefill: items are whole and assigned to the blocks in turn, and each reads the
    /// tiles that some row of it sees.
    bool by_rows = false;
    /// Emitted function that shows the compiler a value to be the same in all lanes, where it cannot see
    /// that.
    std::string_view uniform = {};
    /// Blocks that take an item together, a cluster: all of them walk the same segments.
    int cluster = 1;
  };
  explicit StreamK(const Shape& shape) : shape_(shape) {}

  bool splits() const { return (shape_.split || fixed()) && !shape_.separate; }
  bool dynamic() const { return shape_.dynamic; }
  bool by_rows() const { return shape_.by_rows; }
  /// A block waits for the launch before where it first needs lengths, not only in its roles.
  bool range_reads_lengths() const { return by_rows() ? ragged_q() : shape_.split; }
  /// Tiles a block from which `dynamic` leaves some for the end.
  static constexpr int kDynamicFrom = 128;
  /// Tiles of a cell, but of the last one: a sixteenth of those.
  static constexpr int kLeastCell = kDynamicFrom / 16;
  bool ragged_q() const { return operand_form(shape_.kind).ragged_q; }
  /// Keys are a part of the sequence, and the position of its rows among them comes with the launch (`query_ends`). Items
  /// are split over their keys (not by_rows).
  void take_positions() { positions_ = true; }
  bool takes_positions() const { return positions_; }
  /// Emitted, of the item `s`: row i has key position i + seqlen_k less this.
  const char* aligned_rows() const { return positions_ ? "s.sequence.aligned_rows" : "s.sequence.seqlen_q"; }
  /// Members of the emitted `struct Problem`, which are kernel parameters of the same name and role, in
  /// order.
  struct Member {
    const char* type;
    const char* role;
  };
  std::vector<Member> members() const;

  /// The prelude's sections that the emitted text needs.
  static void use(Prelude& prelude);
  /// struct Problem, Sequence, Segment and the functions below: the text of templates/stream_k.cuh.
  void emit_functions(Writer& w) const;
  /// `range`, this block's part of the work; all 32 lanes of a warp together. First, since it waits for the
  /// lengths from memory.
  void emit_range(Writer& w) const { w.line("Range range = first_range(problem);"); }
  /// Members of `range` and `s` that no tile of a segment asks for, but what comes after them.
  std::vector<Member> of_segments() const;
  /// Opens the loop over the segments `s` of `range`; all 32 lanes of a warp walk it together.
  void emit_loop_open(Writer& w) const;
  /// How a part's slot of the workspace is counted. What of the number depends on no item is computed before the
  /// items and kept while the products run: in two registers, or in one.
  enum class SlotNumber { bits_64, bits_32 };
  /// Emitted address of this block's part of an item, of `floats` floats.
  std::string part(int floats, SlotNumber number = SlotNumber::bits_64) const;
  /// After split_of: `parts`, the item's first part, `stride` from one to the next, and `shift` more floats
  /// of the first.
  void emit_parts(Writer& w, int floats) const;
  /// Bytes of workspace for each block of the grid, and for each item of the problem.
  int workspace_per_block(int floats) const { return shape_.split ? cells_per_block() * 2 * 4 * floats : 0; }
  int workspace_per_item(int floats) const {
    return fixed() && !shape_.separate ? shape_.parts * 4 * floats : 0;
  }
  /// Closes it. With `dynamic`, one warp (`fetches`) takes further cells and hands them to the others through
  /// `cell_slots`, guarded by `ring`; `slots_free`: whoever fetches a cell knows that the others have read
  /// the slot it goes to, and `ring` has no empty side.
  void emit_loop_close(Writer& w, const StagedPipeline& ring, bool fetches, bool slots_free) const;

 private:
  /// Every item in the same number of parts.
  bool fixed() const { return !shape_.split && shape_.parts > 1; }
  bool has_pages() const { return operand_form(shape_.kind).table(); }
  std::string times_parts() const;
  /// Emitted: number of this block among all, or of its cluster.
  std::string block() const { return of_clusters("block_id()"); }
  std::string of_clusters(const char* blocks) const {
    return shape_.cluster == 1 ? blocks : fmt::format("({} / {})", blocks, shape_.cluster);
  }
  /// Emitted wait before the first length is read; nothing where none is needed.
  std::string wait_for_lengths() const;
  Holes holes() const;  ///< of templates/stream_k.cuh
  /// Most parts of the work that blocks leave results for, in blocks.
  int cells_per_block() const { return shape_.dynamic ? 4 : 1; }
  Shape shape_;
  bool positions_ = false;
};

}  // namespace kiln
