// The consumers of sm90_decode, one class for each way from K and V to O. The plan's config chooses one
// (consumer_of); the main loop of consumer.cpp is the same for all.
//
//   KeysOnM          keys on the M side of wgmma, 16-bit K and V as they lie in shared memory
//     WidenedKeys    K and V of one byte, through registers, turned into FP16
//       BytesOfQ     K beside a Q of FP8 as it is, V widened
//       GroupedKeys  several scales a row: mma.sync, a product for each group of columns
//   RowsOnM          64 query rows on the M side
//     TwoWarpgroups  V's columns shared by two, each with all scores
//       Seesaw       latent rows, each with the scores of every other tile
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {

class Consumer {
 public:
  explicit Consumer(const Parts& parts) : parts_(parts), p_(parts.plan), scales_(*parts.scales) {}
  virtual ~Consumer() = default;
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  /// The body of its warps.
  void emit(Writer& w) const;
  /// What the kernel begins with, before warps part: addresses; the block's range, unless roles find it.
  virtual void emit_addresses(Writer&) const {}
  virtual void emit_range(Writer& w) const { p_.stream->emit_range(w); }
  /// The first thing that producers do.
  virtual void emit_producer_head(Writer&) const {}
  /// Sections of its text.
  virtual void use(Prelude& prelude) const = 0;
  /// Whether it stores rows of O one after the other, a chunk of each a thread.
  bool stores_by_chunks() const { return !p_.o_floats() && rows_at_once() < p_.BM; }
  /// Matrix instructions of a tile.
  virtual void expect(Manifest& manifest) const = 0;

 protected:
  // A tile, in the order of the main loop.
  /// Products of S with the slot's K, waited for; but for what V needs of it, the slot goes back.
  virtual void emit_qk(Writer& w) const = 0;
  /// P of the tile, and V's rows past the sequence zeroed.
  virtual void emit_probabilities(Writer& w) const = 0;
  /// Products with V, committed, or waited for and the slot released.
  virtual void emit_pv(Writer& w) const = 0;
  /// All tiles of a segment.
  virtual void emit_tiles(Writer& w) const;
  /// Products with the last V are done, and its slot goes back.
  virtual void emit_last_release(Writer& w) const = 0;

  // What is around it.
  virtual void emit_head(Writer& w) const;
  virtual void emit_names(Writer& w) const = 0;
  virtual void emit_state(Writer& w) const = 0;
  /// Q to shared memory, up to the barrier.
  virtual void emit_store_q(Writer& w) const = 0;
  virtual void emit_reset(Writer& w) const = 0;

  // The end of a segment (epilogue.cpp).
  /// Registers of O, each column once.
  virtual std::vector<std::string> first_rows() const = 0;
  virtual void emit_row_sums(Writer& w) const = 0;
  /// inv_sum of the lane's rows, and log-sum-exps.
  virtual void emit_finish_rows(Writer& w) const = 0;
  /// Rows of floats leave as the accumulators hold them.
  virtual void emit_floats(Writer& w) const = 0;
  /// Rounded, to the staging rows; and the barriers around that.
  virtual void emit_staged(Writer& w) const = 0;
  virtual void emit_staging_free(Writer&) const {}
  /// O, maxima and sums to `part`.
  virtual void emit_part(Writer& w) const = 0;
  /// All parts are added up, by one block or several (row_sums.cpp).
  virtual void emit_sum_of_parts(Writer& w) const;

  // Pieces of the above.
  void emit_item(Writer& w) const;
  void emit_epilogue(Writer& w) const;
  void emit_whole(Writer& w) const;
  void emit_store_rows(Writer& w) const;
  /// Chunks of 16 bytes of the staged rows, `from` where chunk `c` of row `r` lies: with the addresses of rows walked, or
  /// worked out for every chunk.
  void emit_store_by_chunks(Writer& w, const std::string& from) const;
  void emit_store_any(Writer& w, const std::string& from) const;
  /// Rows of O whose 16-byte chunks all threads have at once; all of them where threads share no row evenly.
  int rows_at_once() const;
  void emit_split(Writer& w) const;
  void emit_repair(Writer& w) const;
  /// K of the tile is in its slot; its descriptor.
  void emit_k(Writer& w, const char* title) const;
  /// Products of a tile's chunks of K as they come, from descriptors: of the first, and all, waited for.
  void emit_chunks(Writer& w) const;
  void emit_wait_chunks(Writer& w) const;
  virtual void emit_chunk(Writer&, int) const {}
  /// V of the tile before goes back.
  void emit_release_before(Writer& w) const;
  void emit_release_v(Writer& w) const;
  /// Rows of V past this sequence belong to others: zeros.
  void emit_zero_tail(Writer& w) const;
  virtual void emit_before_zeros(Writer&) const {}
  virtual void emit_after_zeros(Writer&) const {}
  void sync(Writer& w) const { w.line("named_barrier_sync(1, {});", p_.consumer_threads()); }
  void expect_wgmma(Manifest& manifest, int n, int k, int count) const;

  const Parts& parts_;
  const DecodePlan& p_;
  const KeyScales& scales_;
};

class KeysOnM : public Consumer {
 public:
  using Consumer::Consumer;
  void emit_addresses(Writer& w) const override;
  void use(Prelude& prelude) const override;
  void expect(Manifest& manifest) const override;

 protected:
  void emit_qk(Writer& w) const override;
  void emit_probabilities(Writer& w) const override;
  void emit_pv(Writer& w) const override;
  void emit_last_release(Writer& w) const override { emit_release_v(w); }
  void emit_names(Writer& w) const override;
  void emit_state(Writer& w) const override;
  void emit_store_q(Writer& w) const override;
  void emit_reset(Writer& w) const override;
  std::vector<std::string> first_rows() const override;
  void emit_row_sums(Writer& w) const override;
  void emit_finish_rows(Writer& w) const override;
  void emit_floats(Writer& w) const override;
  void emit_staged(Writer& w) const override;
  void emit_part(Writer& w) const override;
  void emit_chunk(Writer& w, int qk) const override;

  /// Descriptors of Q and P, pipelines, what else has a name.
  virtual void emit_descriptors(Writer& w) const;
  /// P of a block of 64 keys to shared memory, and the fence behind all blocks.
  virtual void emit_store_p(Writer& w, int block) const;
  virtual void emit_fence(Writer& w) const { w.line("fence_proxy_async();"); }
  /// Two elements of O' of row index `c` in block `j`, registers `a` and `a` + 2: of which columns, as floats of
  /// the output and of a part.
  virtual const char* lane_column() const { return "16 * warp + (lane >> 2)"; }
  virtual void emit_two_floats(Writer& w, int j, int c, int a) const;
  virtual void emit_two_of_part(Writer& w, int j, int a) const;
  /// A condition where `columns` of a lane from `from` on are not all there.
  std::string column_exists(int from, int columns) const;
  virtual int products_of_depth() const { return p_.depth / 16; }
};

class WidenedKeys : public KeysOnM {
 public:
  explicit WidenedKeys(const Parts& parts);
  void use(Prelude& prelude) const override;

 protected:
  void emit_qk(Writer& w) const override;
  void emit_pv(Writer& w) const override;
  void emit_last_release(Writer&) const override {}
  void emit_store_q(Writer& w) const override;
  void emit_descriptors(Writer& w) const override;
  void emit_staged(Writer& w) const override;
  const char* lane_column() const override { return "16 * warp + 2 * (lane >> 2)"; }
  void emit_two_floats(Writer& w, int j, int c, int a) const override;
  void emit_two_of_part(Writer& w, int j, int a) const override;
  virtual void emit_v_products(Writer& w) const;
  int products_of_depth() const override { return (p_.padded_depth() + p_.rope) / 16; }

 private:
  void (*const values_)(Writer&, const DecodePlan&);  ///< the products with V
};

class BytesOfQ final : public WidenedKeys {
 public:
  using WidenedKeys::WidenedKeys;
  void use(Prelude& prelude) const override;
  void expect(Manifest& manifest) const override;

 protected:
  void emit_qk(Writer& w) const override;
  void emit_store_q(Writer& w) const override;
  void emit_descriptors(Writer& w) const override;
};

class GroupedKeys final : public WidenedKeys {
 public:
  using WidenedKeys::WidenedKeys;
  void use(Prelude& prelude) const override;
  void expect(Manifest& manifest) const override;

 protected:
  void emit_qk(Writer& w) const override;
  void emit_store_q(Writer& w) const override;
  void emit_descriptors(Writer& w) const override;
  void emit_store_p(Writer& w, int block) const override;
  void emit_fence(Writer&) const override {}  // ldmatrix needs none
  void emit_after_zeros(Writer& w) const override { w.line("fence_proxy_async();"); }
  void emit_v_products(Writer& w) const override;
};

class RowsOnM : public Consumer {
 public:
  using Consumer::Consumer;
  void use(Prelude& prelude) const override;
  void expect(Manifest& manifest) const override;

 protected:
  void emit_qk(Writer& w) const override;
  void emit_probabilities(Writer& w) const override;
  void emit_pv(Writer& w) const override;
  void emit_last_release(Writer& w) const override { emit_release_v(w); }
  void emit_names(Writer& w) const override;
  void emit_state(Writer& w) const override;
  void emit_store_q(Writer& w) const override;
  void emit_reset(Writer& w) const override;
  std::vector<std::string> first_rows() const override;
  void emit_row_sums(Writer& w) const override;
  void emit_finish_rows(Writer& w) const override;
  void emit_floats(Writer& w) const override;
  void emit_staged(Writer& w) const override;
  void emit_part(Writer& w) const override;
  void emit_chunk(Writer& w, int qk) const override;
  void emit_before_zeros(Writer& w) const override;
  void emit_after_zeros(Writer& w) const override;
  /// Which threads write log-sum-exps, a condition; where a warpgroup's columns begin: of O, of V, of the staging rows.
  virtual std::string writer() const { return "(lane & 3) == 0 && "; }
  virtual std::string first_column() const { return ""; }
  virtual std::string v_columns() const { return ""; }
  virtual std::string staged_columns() const { return ""; }
};

class TwoWarpgroups : public RowsOnM {
 public:
  using RowsOnM::RowsOnM;
  void emit_range(Writer&) const override {}  // before, it would be kept in memory
  void emit_producer_head(Writer& w) const override;
  void use(Prelude& prelude) const override;

 protected:
  void emit_qk(Writer& w) const override;
  void emit_pv(Writer& w) const override;
  void emit_last_release(Writer&) const override {}
  void emit_head(Writer& w) const override;
  /// Who multiplies first.
  virtual void emit_first_turn(Writer& w) const;
  void emit_staged(Writer& w) const override;
  void emit_staging_free(Writer& w) const override;
  void emit_part(Writer& w) const override { emit_unit_part(w, p_); }
  void emit_sum_of_parts(Writer& w) const override { emit_unit_sums(w, parts_); }
  std::string writer() const override { return "half == 0 && (lane & 3) == 0 && "; }
  std::string first_column() const override { return fmt::format("half * {} + ", p_.ov_columns()); }
  std::string v_columns() const override {
    return fmt::format(" + half * {}", p_.v->panel_step(p_.ov_columns() / 64));
  }
  std::string staged_columns() const override {
    return fmt::format("half * {} + ", p_.ov_columns() / 64 * p_.BM * 128);
  }
};

class Seesaw final : public TwoWarpgroups {
 public:
  using TwoWarpgroups::TwoWarpgroups;
  void use(Prelude& prelude) const override;
  void expect(Manifest& manifest) const override;

 protected:
  void emit_tiles(Writer& w) const override { emit_seesaw(w, parts_); }
  void emit_first_turn(Writer&) const override {}
  void emit_state(Writer& w) const override;
  void emit_row_sums(Writer& w) const override;
};

std::unique_ptr<const Consumer> consumer_of(const Parts& parts);

}  // namespace kiln::sm90
