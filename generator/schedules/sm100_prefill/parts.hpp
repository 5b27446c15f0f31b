// What an sm100_prefill kernel is made of: one object for each thing that varies from kernel to kernel, chosen once by
// the plan. The roles of its warps (copies.cpp, products.cpp, softmax.cpp, correction.cpp) are straight text over them:
// sections of templates/sm100_prefill.cuh whose holes they fill.
//
//   QueryTiles    two tiles of queries that share K and V, or one with two places of S      tiles.cpp
//   Blocks        one block an item, or a pair that shares K and V                       blocks.cpp
//   WorkItems     where work items come from, and rows of the sequences they are of      items.cpp
//   KeyCopies     who copies K and V, and from where                                     copies.cpp
//   Elements      the type of Q, K, V and P                                              elements.cpp
//   KeyScales     scales of Q, K and V                                                   scales.cpp
//   ScoreRows     how S reaches the registers, and who finds its largest score           softmax.cpp
//   Pieces        P is handed over whole or in two pieces                                softmax.cpp
//   RowEnd        the denominator of a row: with a sink or without                       softmax.cpp
//   HiddenColumns columns of O that V of hidden keys has made NaN or infinite            correction.cpp
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/emit/text_template.hpp"
#include "generator/schedules/sm100_prefill/plan.hpp"

namespace kiln::sm100::prefill {

// L2 policies: K and V are read again by the other query tiles of the head, Q is not.
inline constexpr const char* kEvictLast = "0x14F0000000000000ull";
inline constexpr const char* kEvictFirst = "0x12F0000000000000ull";

struct Parts;

class Part {
 public:
  explicit Part(const Parts& parts);
  virtual ~Part() = default;
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

 protected:
  const Parts& parts_;
  const PrefillPlan& p_;
};

/// What is unlike where a block has two tiles of queries, and one.
class QueryTiles : public Part {
 public:
  using Part::Part;
  // In words: the tiles, the columns of tensor memory, whose Q and O there are.
  virtual std::string title() const = 0;
  virtual std::string columns() const = 0;
  virtual const char* whose_q() const = 0;
  virtual const char* whose_o() const = 0;
  /// Variable that tells the two barriers of one kind apart: a tile of queries, or a place of S.
  virtual const char* barrier() const = 0;
  /// Column of O of the tile `tile`.
  virtual std::string o_of_tile() const = 0;
  // Set-up: what the barriers are of, and their beginning.
  virtual Lines barriers(const Holes& holes) const = 0;
  virtual Lines init(const Holes& holes) const = 0;
  // Softmax: the addresses of a thread, those that a tile of keys has, and the step to the next.
  virtual Lines addresses(const Holes& holes) const = 0;
  virtual std::string place_of_s(const Holes&) const { return ""; }
  virtual const char* step() const = 0;
  /// Correction and products: the variable that says whose turn it is.
  virtual const char* turn() const { return ""; }
  // Correction: O follows the maxima of a tile of keys; rows that are computed again, those of `place` where `tile` is.
  virtual Lines follow(const Holes& holes) const = 0;
  virtual void emit_repair(Writer& w, const HiddenValues::Place& place, const char* before) const = 0;
  /// Name of the function that issues the products with chunk `qk` of K.
  std::string issue_name(int qk) const {
    return p_.fa4.num_qk_stages > 1 ? fmt::format("issue_scores_{}", qk) : "issue_scores";
  }
  /// The products of an item, and how often each is issued in the text.
  virtual Lines products(Holes holes) const = 0;
  virtual int issues() const = 0;
};

/// The blocks that take an item together.
class Blocks : public Part {
 public:
  using Part::Part;
  virtual void use(Prelude& prelude) const = 0;
  /// The products' instruction, as the machine code names it.
  virtual std::string instruction() const = 0;
  virtual std::string attribute() const { return ""; }  ///< of the kernel
  /// All threads meet, before the first hand-over and after the last.
  virtual const char* sync() const = 0;
  virtual const char* issuer() const = 0;  ///< condition of the thread that issues products
  /// Emitted: an arrival where products wait.
  virtual std::string arrive(const std::string& barrier) const = 0;
  /// Q of a tile, by a thread of the copies.
  virtual void emit_load_q(Writer& w, int tile) const = 0;

 protected:
  void emit_boxes_of_q(Writer& w, int tile, const char* load) const;
};

/// Who goes through the work items: all lanes of a warp, or one thread.
enum class ItemReader { warp, thread };

class WorkItems : public Part {
 public:
  using Part::Part;
  virtual void use(Prelude&) const {}
  virtual GridRule::Kind grid() const { return GridRule::Kind::persistent; }
  // Kernel parameters: pointers before and behind those of the operand, and integers.
  virtual void add_lengths(std::vector<KernelParam>&) const {}
  virtual void add_counter(std::vector<KernelParam>&) const {}
  virtual void add_counts(std::vector<KernelParam>& params) const = 0;

  virtual void emit_addresses(Writer&) const {}
  virtual void emit_init(Writer&) const {}
  /// The loop over work items, `work` being each in turn: its head.
  virtual Lines head(ItemReader reader) const = 0;
  /// Of the warp that finds the items: its branch.
  virtual Lines finder() const { return {}; }

  /// Coordinates of the box of rows of Q or O from `row` of the item's sequence.
  virtual std::string coordinates(int column, const std::string& row) const = 0;
  virtual std::string lse_row() const = 0;

  // Correction: rows of V past a sequence become zeros, with the state of V's ring that this takes; and the rows that a
  // warp has of O leave, by a thread.
  virtual void emit_tail_state(Writer&) const {}
  virtual Lines zero_tail() const { return {}; }
  virtual void emit_tail_step(Writer&) const {}
  virtual Lines store() const = 0;
  virtual void emit_stored(Writer&) const {}
};

class KeyCopies : public Part {
 public:
  using Part::Part;
  virtual void set_maps(KernelParam& /*k*/, KernelParam& /*v*/) const {}
  virtual void add_capacity(std::vector<KernelParam>&) const {}
  // Where the lengths of the keys come from, of operands whose sequences differ: a parameter, the function that finds a
  // sequence, the most keys.
  virtual const char* lengths() const { return "cu_seqlens_k"; }
  virtual const char* sequence() const { return "sequence_of_offsets"; }
  virtual const char* capacity() const { return "0"; }

  // The role: who has it, in words and as a condition; what one thread of it does alone, and where it begins otherwise.
  virtual const char* title() const = 0;
  virtual std::string condition() const = 0;
  virtual ItemReader reader() const = 0;
  virtual void emit_state(Writer&) const {}
  virtual void open_one(Writer&) const {}
  virtual void close_one(Writer&) const {}
  virtual const char* one() const { return ""; }
  /// K or V of tile n into the next slot.
  virtual void emit_tile(Writer& w, const TMAConsumerPipeline& pipeline, const char* name) const = 0;
};

class Elements : public Part {
 public:
  using Part::Part;
  virtual const char* mma() const = 0;           ///< section of its instructions
  virtual const char* kind() const = 0;          ///< of it
  virtual const char* pack() const = 0;          ///< P's elements
  virtual const char* exponentials() const = 0;  ///< section of the functions that make P
  virtual int l2_promotion() const = 0;          ///< bytes that the L2 cache fetches at once
  /// P is up to a power of two above 1: that on its way into the exponent, and what it adds to a row's sum, in natural
  /// units.
  virtual void emit_shift(Writer&) const {}
  virtual std::string top() const { return ""; }
};

class KeyScales : public Part {
 public:
  using Part::Part;
  virtual void add_params(std::vector<KernelParam>&) const {}
  /// What an item's head has, and scores times what the factor does not hold of it.
  virtual void emit_head(Writer&) const {}
  virtual void emit_tile(Writer&) const {}
  /// Factor of O beside the sums.
  virtual std::string value_scale() const { return ""; }
};

class ScoreRows : public Part {
 public:
  using Part::Part;
  virtual void use(Prelude& prelude) const = 0;
  /// Emitted: S into registers, the head of a call.
  virtual std::string load() const = 0;
  /// The largest score of a tile; and again where that was there before the scores changed.
  virtual void emit_max(Writer&) const {}
  virtual void emit_max_again(Writer&) const {}
};

class Pieces : public Part {
 public:
  using Part::Part;
  /// The second piece: its barriers, a thread's name of one, P of its keys, and their products with V.
  virtual void emit_init(Writer&) const {}
  virtual void emit_address(Writer&) const {}
  virtual void emit_rest(Writer&) const {}
  virtual void emit_rest_products(Writer&) const {}
};

class RowEnd : public Part {
 public:
  using Part::Part;
  /// inv_sum, what a row of O is multiplied by.
  virtual Lines inverse() const = 0;
  /// The row's maximum in natural units, as its log-sum-exp has it.
  virtual std::string natural_max() const = 0;
};

class HiddenColumns : public Part {
 public:
  using Part::Part;
  virtual void use(Prelude&) const {}
  // Of the function that stages O: a comment, what it returns, its state, its look at some columns, its answer.
  virtual const char* note() const { return ""; }
  virtual const char* type() const { return "void"; }
  virtual const char* state() const { return ""; }
  virtual std::string look() const { return ""; }
  virtual const char* answer() const { return ""; }
  // Its caller: over both tiles, what it takes of the answer, and rows that are computed again.
  virtual void emit_state(Writer&) const {}
  virtual const char* taken() const { return ""; }
  virtual void emit_repair(Writer&) const {}
};

struct Parts {
  explicit Parts(const PrefillPlan& plan);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  const PrefillPlan& plan;
  std::unique_ptr<const QueryTiles> tiles;
  std::unique_ptr<const Blocks> blocks;
  std::unique_ptr<const WorkItems> items;
  std::unique_ptr<const KeyCopies> copies;
  std::unique_ptr<const Elements> elements;
  std::unique_ptr<const KeyScales> scales;
  std::unique_ptr<const ScoreRows> scores;
  std::unique_ptr<const Pieces> pieces;
  std::unique_ptr<const RowEnd> row_end;
  std::unique_ptr<const HiddenColumns> hidden;
};

std::unique_ptr<const QueryTiles> tiles_of(const Parts& parts);
std::unique_ptr<const Blocks> blocks_of(const Parts& parts);
std::unique_ptr<const WorkItems> items_of(const Parts& parts);
std::unique_ptr<const KeyCopies> copies_of(const Parts& parts);
std::unique_ptr<const Elements> elements_of(const Parts& parts);
std::unique_ptr<const KeyScales> scales_of(const Parts& parts);
std::unique_ptr<const ScoreRows> scores_of(const Parts& parts);
std::unique_ptr<const Pieces> pieces_of(const Parts& parts);
std::unique_ptr<const RowEnd> row_end_of(const Parts& parts);
std::unique_ptr<const HiddenColumns> hidden_of(const Parts& parts);

/// A section of the kernel's template.
Lines section(const char* name, const Holes& holes);

// The roles, each the branch of its warps. `holes` has the numbers and addresses of the kernel.
void emit_softmax(Writer& w, const Parts& parts, Holes holes);
void emit_correction(Writer& w, const Parts& parts, Holes holes);
void emit_products(Writer& w, const Parts& parts, Holes holes);
void emit_copies(Writer& w, const Parts& parts, Holes holes);
/// O (+)= P V for keys [begin, end).
void emit_pv(Writer& w, const PrefillPlan& p, int begin, int end);
/// Holes of the functions that correction and products call.
void add_output_functions(Holes& holes, const Parts& parts);
void add_product_functions(Holes& holes, const Parts& parts);

}  // namespace kiln::sm100::prefill
