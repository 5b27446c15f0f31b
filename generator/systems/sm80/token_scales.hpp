// TokenScales on sm_80: the scales of each key of a tile, one or several for the groups of columns of its
// row, on their way from global memory to the lanes that hold its scores and probabilities.
//
// Every thread loads some of the next tile's into registers, where they wait for the tile to be theirs. In
// shared memory they lie as [K, V][group][key], so that a lane's two neighbouring keys are one read, without
// bank conflicts.
#pragma once

#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/source.hpp>
#include "generator/emit/writer.hpp"
#include "generator/systems/mha_operand.hpp"

namespace kiln::sm80 {

class TokenScales {
 public:
  /// `resolved`: has operand, depth and ov_depth. Without scales by row there is nothing to do.
  TokenScales(const Config& resolved, int BN, int num_threads);

  bool any() const { return columns_ > 0; }
  /// Scales of a row of K, and of V.
  int k_groups() const { return any() ? k_groups_ : 1; }
  int v_groups() const { return any() ? v_groups_ : 1; }
  /// Columns of a row that share a scale.
  int columns() const { return columns_; }
  int tile_bytes() const { return any() ? 4 * BN_ * (k_groups_ + v_groups_) : 0; }

  /// Strides of the tensors of scales.
  void add_params(std::vector<KernelParam>& params) const;
  /// Where this thread's scales lie; `tile`: byte offset in shared memory. `first_key`: of the first tile;
  /// `length`: of the sequence, 0 where it has no rows at all.
  void emit_construct(Writer& w, int tile, const std::string& first_key, const std::string& length) const;
  /// Loads this thread's scales of the next tile.
  void emit_load(Writer& w) const;
  /// Stores them for the block to read.
  void emit_store(Writer& w) const;
  /// float2 expression: the scales of this lane's two keys of the eight from `8 * eight` on.
  std::string k_scale(int group, int eight) const { return scale(group, eight); }
  std::string v_scale(int group, int eight) const { return scale(k_groups_ + group, eight); }

 private:
  int rows() const { return BN_ > num_threads_ ? BN_ / num_threads_ : 1; }  ///< of a thread
  /// Groups that the threads copy at once, a row each.
  int groups_at_once() const { return num_threads_ > BN_ ? num_threads_ / BN_ : 1; }
  std::string row(int i) const;
  std::string scale(int group, int eight) const;
  void emit_populate(Writer& w) const;
  void emit_loads(Writer& w, const std::string& name, int groups) const;
  void emit_stores(Writer& w, const std::string& name, int groups, int first) const;
  int loads(int groups) const { return (groups * BN_ + num_threads_ - 1) / num_threads_; }
  std::string guard(int groups, int load) const;

  OperandConfig config_;
  OperandKind kind_;
  int page_size_ = 0;
  MHAOperand operand_;
  int BN_, num_threads_, columns_ = 0, k_groups_ = 0, v_groups_ = 0;
};

}  // namespace kiln::sm80
