// The main loops of cdna_prefill and cdna_prefill_pingpong: how K and V pass through LDS, one class for each way. The
// plan's config chooses one (loop_of).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/schedules/cdna_prefill/parts.hpp"

namespace kiln::cdna {

class KvLoop {
 public:
  explicit KvLoop(const PrefillPlan& plan) : p_(plan) {}
  virtual ~KvLoop() = default;
  KvLoop(const KvLoop&) = delete;
  KvLoop& operator=(const KvLoop&) = delete;

  /// Sections of the loop's own text.
  virtual void use(Prelude&) const {}
  /// A line of the kernel's head.
  virtual std::string fact() const = 0;
  struct Region {
    int begin = 0, end = 0;
    std::string what;
    int stages = 0;
  };
  /// What of LDS whole tiles take, a shared tile, blocks.
  std::vector<Region> regions() const;
  /// K and V: `rows` rows of them, from key `first` on.
  void emit_buffers(Writer& w, const std::string& rows, const std::string& first) const;
  /// What is on its way before the first tile.
  virtual void emit_first_loads(Writer& w) const = 0;
  /// All tiles, once that has started.
  virtual void emit(Writer& w) const;
  /// Matrix instructions before the loop.
  virtual int products_before() const { return 0; }

 protected:
  virtual void emit_values(Writer& w, const std::string& rows, const std::string& first) const;
  virtual void emit_before_loop(Writer&) const {}
  /// Tile `n`, the `tile`-th in the text of the loop body.
  virtual void emit_tile(Writer& w, int tile) const = 0;
  /// The products of K(n) and what makes P of them, for waves that see the tile.
  void emit_scores(Writer& w, int stage) const;
  void emit_products(Writer& w, int lds_offset) const;
  void emit_break(Writer& w) const { w.line("if (++n == num_tiles) break;"); }

  const PrefillPlan& p_;
};

/// K and V tiles in stages of their own, straight to LDS (tiles.cpp).
std::unique_ptr<const KvLoop> tile_loop(const PrefillPlan& plan);
/// V in the columns of K's tile.
std::unique_ptr<const KvLoop> v_in_k_loop(const PrefillPlan& plan);
/// Blocks of K, then of V, through one ring (blocks.cpp).
std::unique_ptr<const KvLoop> block_loop(const PrefillPlan& plan);
/// The same three by way of registers (staged.cpp).
std::unique_ptr<const KvLoop> staged_loop(const PrefillPlan& plan);
/// Waves in two groups, half a tile apart (pingpong.cpp).
std::unique_ptr<const KvLoop> pingpong_loop(const PrefillPlan& plan);

std::unique_ptr<const KvLoop> loop_of(const PrefillPlan& plan);

}  // namespace kiln::cdna
