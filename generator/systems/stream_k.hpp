// StreamK: the split-KV plan of a decode kernel, computed by the kernel itself from the lengths on the
// device.
//
// An item is one packed query tile (BM rows: query positions x query heads of one KV head) of one sequence;
// its work is num_tiles KV tiles. Blocks form teams of `team_heads` consecutive blocks; block i of a team
// takes the heads congruent to i, so that neighbouring heads of the same keys are read at the same time. All
// tiles of all sequences, laid end to end, are cut into as many equal ranges as there are teams: every block
// gets the same number of tiles whatever the lengths are, and an item is split only where a range ends inside
// it.
//
//   position   0 ............................................................ total
//   sequence   [ b=0, slot 0 | b=0, slot 1 ][ b=1, slot 0 | b=1, slot 1 ][ ...
//   team       |  0   |  1   |  2   |  3   |  4  ...
//
// A block writes at most two partial results: of its first segment (slot 0 of its workspace) and its last
// (slot 1). The last block to finish an item, told by a counter that it leaves at zero, combines the parts in
// order of position, so results do not depend on timing.
#pragma once

#include <vector>

#include <kiln/config.hpp>
#include "generator/emit/writer.hpp"

namespace kiln {

class StreamK {
 public:
  struct Shape {
    OperandKind kind = OperandKind::contiguous;
    int BM = 16;        ///< packed query rows of an item
    int BN = 64;        ///< keys of a tile
    int window = 0;     ///< sliding window in keys, 0: none
    bool split = true;  ///< false: an item is never split (results do not depend on the rest of the batch)
  };
  explicit StreamK(const Shape& shape) : shape_(shape) {}

  bool splits() const { return shape_.split; }
  bool ragged_q() const { return shape_.kind != OperandKind::contiguous; }
  /// Members of the emitted `struct Problem`, which are kernel parameters of the same name and role, in
  /// order.
  struct Member {
    const char* type;
    const char* role;
  };
  std::vector<Member> members() const;

  /// struct Problem, Sequence, Segment and the functions below.
  void emit_functions(Writer& w) const;
  /// `Range range = first_range(problem)`, then `for (Segment s; next_segment(problem, range, s);)`.
  /// All 32 lanes of a warp call them together.
  void emit_loop_open(Writer& w) const;

 private:
  Shape shape_;
};

}  // namespace kiln
