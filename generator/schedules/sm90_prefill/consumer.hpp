// What the main loop of an sm90_prefill consumer is made of, beside the parts of its kernel: turns of the warpgroups,
// which tiles there are, and the softmax of a tile. The plan chooses one of each (turns.cpp, ranges.cpp, passes.cpp).
#pragma once

#include <memory>

#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {

/// Warpgroups multiply as they come, or take turns.
class Turns : public Part {
 public:
  using Part::Part;
  virtual void emit_first(Writer&) const {}
  virtual void emit_take(Writer&) const {}
  /// The turn passes: outside tiles; in a tile when its products have started, or when S is there.
  virtual void emit_pass(Writer&) const {}
  virtual void emit_pass_early(Writer&) const {}
  virtual void emit_pass_late(Writer&) const {}
};
std::unique_ptr<const Turns> turns_of(const Parts& parts);

/// Last tiles that later warpgroups see and this one does not: every tile is visited, or these are released.
class SkippedTiles : public Part {
 public:
  using Part::Part;
  virtual void emit(Writer&, const Turns&) const {}
};
std::unique_ptr<const SkippedTiles> skipped_tiles_of(const Parts& parts);

/// The softmax of a tile after the first: P of S, packed.
class TilePass : public Part {
 public:
  using Part::Part;
  /// P, while P(n+1) V(n+1) runs; and as the A operand, when that has ended.
  virtual void emit(Writer& w) const = 0;
  virtual void emit_take(Writer& w) const = 0;
};
/// Of tiles that every row sees whole, and of those in which some row's keys begin or end.
std::unique_ptr<const TilePass> inside_pass_of(const Parts& parts);
std::unique_ptr<const TilePass> edge_pass_of(const Parts& parts);

class Consumer;

/// The tiles after the peeled first one: those with an upper end of some row's keys, clean ones, those with a lower
/// end.
class TileRange : public Part {
 public:
  using Part::Part;
  /// The first row's place among the keys, where tiles depend on it.
  virtual void emit_position(Writer&) const {}
  virtual void emit(Writer& w, const Consumer& consumer) const = 0;
};
std::unique_ptr<const TileRange> tile_range_of(const Parts& parts);

class Consumer : public Part {
 public:
  explicit Consumer(const Parts& parts)
      : Part(parts),
        turns_(turns_of(parts)),
        skipped_(skipped_tiles_of(parts)),
        range_(tile_range_of(parts)),
        inside_(inside_pass_of(parts)),
        edge_(edge_pass_of(parts)) {}

  void emit(Writer& w) const;
  /// Tile n. `sides`: ends of the rows' key ranges that may be in it.
  void emit_tile(Writer& w, Mask::Sides sides) const;

 private:
  void emit_state(Writer& w) const;
  void emit_item(Writer& w) const;
  void emit_first_tile(Writer& w) const;
  void emit_last_product(Writer& w) const;
  void emit_qk_chunk(Writer& w, int qk) const;
  void emit_await_qk(Writer& w, int later) const;
  void emit_pv(Writer& w) const;
  void emit_visible(Writer& w, Mask::Sides sides) const;
  std::string first_key() const { return fmt::format("n * {}", p_.BN); }

  const std::unique_ptr<const Turns> turns_;
  const std::unique_ptr<const SkippedTiles> skipped_;
  const std::unique_ptr<const TileRange> range_;
  const std::unique_ptr<const TilePass> inside_, edge_;
};

}  // namespace kiln::sm90::prefill
