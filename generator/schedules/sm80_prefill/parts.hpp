// What an sm80_prefill kernel is made of besides its main path: each variation is a class, and the plan picks one of
// each kind (make_parts). emit.cpp puts them in order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/emit/writer.hpp"
#include "generator/schedules/sm80_prefill/plan.hpp"

namespace kiln::sm80 {

class KeyPipeline;
struct Parts;

class Part {
 public:
  explicit Part(const PrefillPlan& plan) : p_(plan) {}
  virtual ~Part() = default;

 protected:
  const PrefillPlan& p_;
};

/// Where a sequence's rows of Q, K, V, O and LSE are (sequences.cpp): at equal distances, between offsets, of keys that
/// are a part of a sequence, in pages or in one block of a pool.
class Sequences : public Part {
 public:
  using Part::Part;
  /// Pointers, lengths and strides of the kernel.
  virtual void add_offsets(std::vector<KernelParam>& params) const = 0;
  virtual void add_lengths(std::vector<KernelParam>&) const {}
  virtual std::vector<const char*> axes() const = 0;
  virtual bool ragged() const { return true; }
  /// seqlen_q and seqlen_k of the sequence `batch`, and an end to blocks without rows.
  virtual void emit_lengths(Writer& w) const = 0;
  /// What is added to the pointer of Q or O, of K or V.
  virtual std::string query_start(const char* tensor) const = 0;
  virtual std::string key_start(const char* tensor) const = 0;
  /// Keys that are there to read, of `rows` keys of the sequence.
  virtual std::string readable(const std::string& rows) const { return rows; }
  /// The first of the block's rows of LSE.
  virtual std::string lse_row() const = 0;
};

/// Whether fragments of Q stay in registers or are read from shared memory for every tile (queries.cpp).
class Queries : public Part {
 public:
  using Part::Part;
  virtual void emit_declare(Writer&) const {}
  /// Before the loop.
  virtual void emit_read(Writer&, const KeyPipeline&) const {}
  /// At the beginning of S, and before the products of step j.
  virtual void emit_tile(Writer&) const {}
  virtual void emit_step(Writer&, int) const {}
  virtual bool read_in_loop() const = 0;
};

/// How tiles of K and V come (pipelines.cpp): through one stage, through several, or as bytes that are widened.
class KeyPipeline : public Part {
 public:
  using Part::Part;
  virtual void emit_addresses(Writer&) const {}
  /// Loads before the loop: the first tile's, and how many tiles are loaded in all.
  virtual void emit_first_load(Writer& w) const;
  virtual int tiles_before() const = 0;
  /// Waits for the first tile, or for Q alone.
  virtual void emit_wait_first(Writer&) const {}
  virtual void emit_wait_for_queries(Writer&) const {}
  /// The loop's body for the tile in `stage`.
  virtual void emit_tile(Writer& w, const Parts& parts, int stage) const = 0;
  /// Whether a lane may still read Q when another of its warp is past the loop.
  virtual bool may_read_late(const Queries&) const { return false; }
  /// Lines of the head comment about shared memory.
  virtual std::string regions() const;

  /// Starts the copies of a tile into a stage.
  void emit_load(Writer& w, int stage) const;
};

/// One scale of a head of K and of V, or none (queries.cpp).
class HeadScales : public Part {
 public:
  using Part::Part;
  virtual void emit_construct(Writer&) const {}
  virtual void emit_scores(Writer&) const {}
  /// Declares what O is multiplied by; its name before `_0` and `_1`.
  virtual const char* emit_output(Writer&) const { return "inv_sum"; }
};

struct Parts {
  const PrefillPlan& plan;
  std::unique_ptr<Sequences> sequences;
  std::unique_ptr<Queries> queries;
  std::unique_ptr<KeyPipeline> pipeline;
  std::unique_ptr<HeadScales> scales;
};

Parts make_parts(const PrefillPlan& plan);
std::unique_ptr<Sequences> make_sequences(const PrefillPlan& plan);
std::unique_ptr<KeyPipeline> make_pipeline(const PrefillPlan& plan);

/// `cp_async` groups but for `pending` have landed, for the whole block.
void emit_wait(Writer& w, int pending);
/// A line of the head comment: what shared memory holds between two offsets; nothing where they are equal.
std::string region(int begin, int end, const char* what);

/// S = Q K(n)' from the tile in `stage`, P from S, and O += P V(n) (products.cpp).
void emit_qk(Writer& w, const Parts& parts, int stage);
void emit_p(Writer& w, const PrefillPlan& plan);
void emit_pv(Writer& w, const PrefillPlan& plan, int stage);
/// Mask, softmax and P of a tile's scores (emit.cpp).
void emit_softmax(Writer& w, const PrefillPlan& plan);

}  // namespace kiln::sm80
