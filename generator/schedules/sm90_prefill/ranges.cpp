// Which tiles a consumer of sm90_prefill goes through, from the last keys to the first.
#include "generator/schedules/sm90_prefill/consumer.hpp"

namespace kiln::sm90::prefill {
namespace {

/// Every row sees all tiles.
class AllTiles final : public TileRange {
 public:
  using TileRange::TileRange;
  void emit(Writer& w, const Consumer& consumer) const override {
    w.banner("KV tiles");
    w.open("for (--n; n >= {}; --n)", p_.first_block());
    consumer.emit_tile(w, {false, false});
    w.close();
  }
};

/// Rows' keys end somewhere.
class TilesToEnds : public TileRange {
 public:
  using TileRange::TileRange;
  void emit_position(Writer& w) const override {
    if (!p_.mask->by_place()) return;
    w.line("const int position = work.m_start + 64 * consumer + work.seqlen_k - {};  // of the first row",
           p_.aligned_rows());
  }
  void emit(Writer& w, const Consumer& consumer) const override {
    w.line("const int clean_end = max({}, 0) / {};  // tiles that the first row sees to their end",
           p_.mask->end_key("position", "work.seqlen_k", "work.batch"), p_.BN);
    emit_clean_begin(w);
    w.banner("KV tiles in which the keys of some row of this warpgroup end");
    w.open("for (--n; n >= {}; --n)", last_of_ends());
    consumer.emit_tile(w, {true, true});
    w.close();
    emit_whole_tiles(w, consumer);
    emit_begins(w, consumer);
  }

 protected:
  virtual void emit_clean_begin(Writer&) const {}
  virtual const char* last_of_ends() const { return "clean_end"; }
  virtual const char* last_whole() const { return "0"; }
  virtual void emit_whole_tiles(Writer& w, const Consumer& consumer) const {
    w.banner("KV tiles that every row sees whole");
    w.open("for (; n >= {}; --n)", last_whole());
    consumer.emit_tile(w, {false, false});
    w.close();
  }
  virtual void emit_begins(Writer&, const Consumer&) const {}
};

/// And begin somewhere.
class TilesOfWindow : public TilesToEnds {
 public:
  using TilesToEnds::TilesToEnds;

 protected:
  void emit_clean_begin(Writer& w) const override {
    w.line("const int clean_begin = ({} + {}) / {};  // tiles that the last row sees from their start",
           p_.mask->first_key("(position + 63)", "work.batch"), p_.BN - 1, p_.BN);
  }
  const char* last_of_ends() const override { return "max(clean_end, work.first_block)"; }
  const char* last_whole() const override { return "clean_begin"; }
  void emit_begins(Writer& w, const Consumer& consumer) const override {
    w.banner("KV tiles in which the keys of some row begin");
    w.open("for (; n >= {}; --n)", p_.first_block());
    consumer.emit_tile(w, {false, true});
    w.close();
  }
};

/// So near that no tile is seen whole.
class TilesOfShortWindow final : public TilesOfWindow {
 public:
  using TilesOfWindow::TilesOfWindow;

 protected:
  void emit_clean_begin(Writer&) const override {}
  void emit_whole_tiles(Writer&, const Consumer&) const override {}
};

// Tiles from n down that are behind the keys of all rows of this warpgroup, but not of a later one. At least
// one tile stays, the peeled one.
//
// K and V are waited for all the same: a wait tells a tile only from the one before it in its slot, and would take
// the coming of a skipped tile for that of the next one there. In turns the last warpgroup, which skips nothing,
// has seen K before the next turn, and waits for V in the turn before that in which the next V in its place is
// waited for. Where rows of V are zeroed, that is before any turn.
// That may complete the phase of an earlier tile too soon, but the producer goes on to these tiles only once
// it has Q's rows of every warpgroup back, and by then each of them has released all V, but the last, of the
// item before.
class ReleasedTiles : public SkippedTiles {
 public:
  using SkippedTiles::SkippedTiles;
  void emit(Writer& w, const Turns& turns) const override {
    w.comment("tiles that only later warpgroups see");
    const std::string end = p_.mask->end_key("(position + 63)", "work.seqlen_k", "work.batch");
    if (p_.mask->left_padding())  // rows before a sequence's first key may end before the first tile
      w.line("const int own_blocks = max(({} + {}) / {}, work.first_block + 1);", end, p_.BN - 1, p_.BN);
    else
      w.line("const int own_blocks = (max({}, 1) + {}) / {};", end, p_.BN - 1, p_.BN);
    w.line("#pragma unroll 1");
    w.open("for (; n >= own_blocks; --n)");
    emit_waits(w);
    p_.k->emit_release_all(w);
    p_.v->emit_release_all(w);
    turns.emit_take(w);
    turns.emit_pass(w);
    w.close();
  }

 protected:
  /// In turns that is all.
  virtual void emit_waits(Writer&) const {}
};

class TilesReleasedAfterBoth final : public ReleasedTiles {
 public:
  using ReleasedTiles::ReleasedTiles;

 protected:
  void emit_waits(Writer& w) const override {
    for (int qk = 0; qk < p_.num_qk_stages; ++qk) p_.k->emit_wait(w, qk);
    p_.v->emit_wait(w, 0);
    w.line("__syncwarp();  // no lane waits for a tile after its slot has gone back");
  }
};

}  // namespace

std::unique_ptr<const TileRange> tile_range_of(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  if (!p.mask->bounded_above()) return std::make_unique<AllTiles>(parts);
  if (!p.mask->bounded_below()) return std::make_unique<TilesToEnds>(parts);
  if (p.whole_tiles()) return std::make_unique<TilesOfWindow>(parts);
  return std::make_unique<TilesOfShortWindow>(parts);
}

std::unique_ptr<const SkippedTiles> skipped_tiles_of(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  if (!p.skips_tiles) return std::make_unique<SkippedTiles>(parts);
  const int most = (p.BM - 64 + p.BN - 1) / p.BN;
  // Converters may be behind the producer and not have asked for the slots yet.
  if (!p.ping_pong || p.ragged || p.shared_ring || p.narrow || most >= p.num_kv_stages)
    return std::make_unique<TilesReleasedAfterBoth>(parts);
  return std::make_unique<ReleasedTiles>(parts);
}

}  // namespace kiln::sm90::prefill
