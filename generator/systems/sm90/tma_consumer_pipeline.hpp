// TMAConsumerPipeline on sm_90a: the consumer side of the K or V ring. It waits for a
// stage, hands out its wgmma descriptor and releases it; K may be split into `num_qk_stages` depth chunks
// with their own barriers. V of one byte is transposed: its rows are columns of V, since
// 8-bit wgmma takes no other.
//
// Constants keep the documented names. One ring slot holds `full_kv_bytes`; chunk qk of a K slot starts at
// qk * staged_k_bytes. K is k-major (rows = keys, contraction along depth), V mn-major (contraction along
// keys).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "generator/systems/sm90/wgmma.hpp"
#include "generator/systems/staged_pipeline.hpp"

namespace kiln::sm90 {

class TMAConsumerPipeline {
 public:
  struct Shape {
    bool is_k = true;
    int BN = 0;            ///< keys of a tile
    int padded_depth = 0;  ///< columns of the tile: Q/K depth for K, V/O depth for V
    int num_kv_stages = 2;
    int num_qk_stages = 1;  ///< depth chunks of K; V always has one, but in K's slots K's barriers
    int span_bytes = 128;   ///< swizzle span
    int element_bytes = 2;
    int consumer_warps = 8;  ///< arrivals that empty a slot: one elected lane per math warp
    int cluster = 1;         ///< blocks that fill each other's slots (multicast) and so release to each other
    /// The launch says how many of the stages are in use: the emitted parameter num_kv_stages.
    bool stages_at_launch = false;
    /// K and V in turns in one ring of `num_kv_stages` slots, each as long as the longer tile (`slot_bytes`).
    bool shared_ring = false;
    bool in_k_slots = false;  ///< V lies in K's slots, whose empty barriers its release counts at
    int slot_bytes = 0;  ///< from one slot to the next; 0: as many as the tile has (V in K's slots: more)
    int rope_bytes = 0;  ///< of a key's rotary columns, panels of 128 bytes behind K's own
    bool transposed = false;  ///< of V: a row is a column of V, its elements those of the keys
    int fold = 1;             ///< panels whose eights of rows lie side by side
  };
  explicit TMAConsumerPipeline(const Shape& shape);

  // Derived constants.
  bool is_k_major() const { return shape_.is_k || shape_.transposed; }
  int num_qk_stages_effective() const { return shape_.is_k ? shape_.num_qk_stages : 1; }
  int BMN() const { return shape_.is_k ? shape_.BN : shape_.padded_depth; }
  int BK() const { return shape_.is_k ? shape_.padded_depth / shape_.num_qk_stages : shape_.BN; }
  int staged_k_bytes() const {
    return shape_.BN * (shape_.padded_depth / num_qk_stages_effective()) * shape_.element_bytes;
  }
  int full_kv_bytes() const { return rope_offset() + shape_.BN * shape_.rope_bytes; }
  /// Bytes of a slot before the rotary columns.
  int rope_offset() const { return shape_.BN * shape_.padded_depth * shape_.element_bytes; }
  /// Columns of one panel, panels of a slot and of a chunk: one TMA box each.
  int panel_columns() const { return tile().panel_columns(); }
  int num_panels() const { return shape_.padded_depth / panel_columns(); }
  int panels_per_chunk() const { return num_panels() / num_qk_stages_effective(); }
  SmemTile tile() const {
    return {shape_.transposed ? shape_.padded_depth : shape_.BN, shape_.span_bytes, shape_.element_bytes,
            shape_.fold};
  }
  const StagedPipeline& ring() const { return ring_; }
  int slot_bytes() const { return shape_.slot_bytes > 0 ? shape_.slot_bytes : full_kv_bytes(); }
  int ring_bytes() const { return slot_bytes() * shape_.num_kv_stages; }
  /// Arrivals that empty a slot.
  int empty_arrivals() const { return shape_.consumer_warps * shape_.cluster; }
  /// Rows of one box: each block of the cluster loads its share of the tile for all.
  int box_rows() const { return shape_.BN / shape_.cluster; }

  /// construct(): `const u32 NAME_desc`, the low descriptor word of slot 0.
  void emit_construct(Writer& w) const;
  /// get(): expression of the low descriptor word of the current slot.
  std::string get() const;
  /// Address of the current slot.
  std::string slot() const;
  /// What contraction step `step` adds to it.
  int step(int step) const { return is_k_major() ? k_major_step(tile(), step) : mn_major_step(tile(), step); }
  /// And what a panel, and row `row`, a multiple of 8.
  int panel_step(int panel) const { return tile().panel_offset(panel) >> 4; }
  int row_step(int row) const { return tile().row_offset(row) >> 4; }
  /// Zeros in place of the rows of the current slot from `v_rows` on, by `threads` threads from `first` on.
  void emit_zero_rows(Writer& w, const std::string& first, int threads) const;
  /// Upper descriptor word, a literal.
  std::string descriptor_high() const;
  /// wait<qk>(): until chunk qk of the current slot is in shared memory.
  void emit_wait(Writer& w, int qk) const { ring_.emit_wait_full(w, qk); }
  /// release<qk>(): one arrival per warp; steps the state after the last chunk.
  void emit_release(Writer& w, int qk) const;
  void emit_release_all(Writer& w) const;
  /// The arrivals of release_all alone.
  void emit_arrivals(Writer& w, const std::string& comment = "") const;

  nlohmann::ordered_json constants() const;

 private:
  std::string name() const { return shape_.is_k ? "k" : "v"; }

  Shape shape_;
  StagedPipeline ring_;
};

}  // namespace kiln::sm90
