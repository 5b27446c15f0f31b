// What an sm90_decode kernel is made of beside its consumer (consumer.hpp): one object for each thing that varies in the
// loops over tiles, chosen once by the plan (parts.cpp); and the parts of its body, one file each.
#pragma once

#include <array>

#include "generator/emit/writer.hpp"
#include "generator/schedules/sm90_decode/key_scales.hpp"
#include "generator/schedules/sm90_decode/plan.hpp"
#include "generator/systems/online_softmax.hpp"

namespace kiln::sm90 {

/// L2 policy: tiles are read once.
inline constexpr const char* kEvictFirst = "0x12F0000000000000ull";

/// K (`of_k`) or V as the producers copy it.
struct Tensor {
  const char* name;
  const char* title;
  bool of_k;
  const TMAConsumerPipeline& pipeline;
  int fold, groups;  ///< panels of one tensor copy; scales of a row
  int rope_panels;   ///< of K: rotary columns that another map brings, with the last chunk
};

/// Where V's tiles lie: in slots of their own.
class ValueSlots {
 public:
  explicit ValueSlots(const DecodePlan& plan) : p_(plan) {}
  virtual ~ValueSlots() = default;
  ValueSlots(const ValueSlots&) = delete;
  ValueSlots& operator=(const ValueSlots&) = delete;

  /// V has K's slots and scales.
  virtual bool in_k() const { return false; }
  /// Until V is there.
  virtual void emit_wait(Writer& w) const { p_.v->emit_wait(w, 0); }
  /// Products with chunk `qk` of K are done: it goes back. `emit_k_read`: all lanes of a warp have read K.
  virtual void emit_release_k(Writer& w, int qk) const;
  virtual void emit_k_read(Writer& w) const { w.line("__syncwarp();  // every lane has read its part of K"); }
  /// Before V's rows are changed where products may still read them as K.
  virtual void emit_before_zeros(Writer&) const {}

 protected:
  const DecodePlan& p_;
};

/// From products of Q and K to scores, scales included.
class KeyProducts {
 public:
  explicit KeyProducts(const DecodePlan& plan) : p_(plan) {}
  virtual ~KeyProducts() = default;
  KeyProducts(const KeyProducts&) = delete;
  KeyProducts& operator=(const KeyProducts&) = delete;

  virtual void use(Prelude&) const {}
  /// Rotary columns that have products of their own: sums, Q's columns, products with the slot's, from their fence to
  /// their commit.
  virtual void emit_state(Writer&) const {}
  virtual void emit_store_q(Writer&) const {}
  virtual void emit_products(Writer&) const {}
  virtual void emit_scores(Writer& w, const KeyScales& scales) const { scales.emit_scores(w); }

 protected:
  const DecodePlan& p_;
};

/// Segments of an item: each has tiles.
class Segments {
 public:
  Segments() = default;
  virtual ~Segments() = default;
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;
  /// Around what is done where there were tiles.
  virtual void open_if_tiles(Writer&) const {}
  virtual void close_if_tiles(Writer&) const {}
};

struct Parts {
  explicit Parts(const DecodePlan& plan);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  const DecodePlan& plan;
  std::unique_ptr<const ValueSlots> values;
  std::unique_ptr<const KeyScales> scales;
  std::unique_ptr<const KeyProducts> products;
  std::unique_ptr<const Segments> segments;
  Tensor k, v;
  /// What each warp of producers copies; the first also fetches cells.
  std::vector<std::vector<Tensor>> producers;
};

/// Rotary columns beside keys of one byte (rotary.cpp).
std::unique_ptr<const KeyProducts> products_with_rotary(const DecodePlan& plan);

/// Query row (column of S' and O') of index `c` of a lane: a literal plus 2 * (lane & 3).
constexpr int row_of(int c) {
  return 8 * (c / 2) + c % 2;
}
/// Once per item: where the tiles lie that some row sees in part, and what masks and modifiers ask of the
/// rows.
void emit_limits(Writer& w, const DecodePlan& p);
/// Raw products of tile n, s_acc, to modified and masked scores.
void emit_scores(Writer& w, const Parts& parts);
/// One M block of registers, 16-bit, transposed to shared memory (rows are query rows); times
/// `factor`[column] unless that is empty.
void emit_transposed(Writer& w, const DecodePlan& p, const std::string& at, const std::string& acc,
                     const char* pack, const std::string& factor);

/// A loop over the 16-byte chunks of Q: `x` is chunk `c` of packed row `r`, zeros past the last row and past
/// the `real` chunks of a row, which begin at column `first`.
void open_query_chunks(Writer& w, const DecodePlan& p, int chunks, int real, int first = 0);

/// Q of 16 bits as it is, all of it on its way at once.
void emit_copy_q(Writer& w, const DecodePlan& p);
/// Every warp's part of Q is in shared memory.
void emit_query_there(Writer& w, const DecodePlan& p);

// Keys on the M side of wgmma (keys_softmax.cpp).
/// Registers of an M block that hold row index `c`: two keys (or two depths).
inline std::array<int, 2> lane_registers(int c) {
  return {4 * (c / 2) + c % 2, 4 * (c / 2) + c % 2 + 2};
}
/// The rows' maxima with this tile, and O, sums and scores that follow them.
void emit_column_max(Writer& w, const DecodePlan& p);
/// P of block `i`, f32, and the row sums.
void emit_column_exp(Writer& w, const DecodePlan& p, int i);

// Rows on the M side of wgmma (rows_on_m.cpp), where there are 64 of them.
/// The softmax of 64 rows on the M side.
OnlineSoftmax softmax_of(const DecodePlan& p);
/// The products of S with chunk `qk` of K, between fence and commit.
void emit_upright_qk(Writer& w, const DecodePlan& p, int qk);
void emit_upright_pv(Writer& w, const DecodePlan& p);

// Latent rows, scores once (sm90_decode/seesaw.cpp).
void emit_seesaw_state(Writer& w, const DecodePlan& p);
/// All tiles of a segment.
void emit_seesaw(Writer& w, const Parts& parts);
/// After the sums over the lanes of a row: those of both warpgroups.
void emit_seesaw_sums(Writer& w, const DecodePlan& p);

/// Body of warp `number` of the producers, which keeps the rings of its tensors full.
void emit_decode_producer(Writer& w, const Parts& parts, std::size_t number);
/// Maximum `top` and sum of `row` (expressions) in, the inverse sum out; `writer` (a condition) says which
/// threads write the log-sum-exp.
void emit_finish_row(Writer& w, const Parts& parts, const std::string& row, const std::string& top,
                     const std::string& sum, const std::string& inverse, const std::string& writer);
/// Walks packed rows of the item at hand, `step` apart from `first` (an expression) on: `position` of the query and
/// `of_group`, its head among those of the KV head. A step needs no division by the group.
void emit_walk(Writer& w, const DecodePlan& p, const std::string& first, int step);
void emit_walk_on(Writer& w);
/// Where a row of O begins, by default that of the emitted `packed`.
std::string output_address(const DecodePlan& p, const std::string& position = "packed / group",
                           const std::string& of_group = "packed % group");
/// Where part `i` (an expression) of the item at hand begins, after StreamK::emit_parts.
std::string part_of_item(const std::string& i);
/// This block's part is there (row_sums.cpp): `share` of `shares` is what it adds up, -1 nothing; `worth` (a condition and
/// " && ") says where waiting for others pays. It knows of the others; and is done with the item.
void emit_share(Writer& w, const DecodePlan& p, const std::string& worth);
void emit_know(Writer& w);
void emit_leave(Writer& w);
/// Parts as registers hold them (unit_sums.cpp): this one, and their sum by all blocks that have nothing else to do.
void emit_unit_part(Writer& w, const DecodePlan& p);
void emit_unit_sums(Writer& w, const Parts& parts);

}  // namespace kiln::sm90
