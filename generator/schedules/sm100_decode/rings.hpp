// How K and V come to the products of sm100_decode: tiles by tensor copies, in several slots or in one of each, bytes
// that four warps turn into 16 bits, latent rows whose first columns are V, or such rows of bytes (latent_bytes.cpp). The
// plan's config chooses one (rings_of).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/schedules/common/sm100_elements.hpp"
#include "generator/schedules/common/sm100_packed_rows.hpp"
#include "generator/schedules/sm100_decode/key_scales.hpp"
#include "generator/schedules/sm100_decode/parts.hpp"

namespace kiln::sm100 {

/// Tiles, a ring for K and one for V.
class Rings {
 public:
  Rings(const DecodePlan& plan, const KeyScales& scales) : p_(plan), scales_(scales) {}
  virtual ~Rings() = default;
  Rings(const Rings&) = delete;
  Rings& operator=(const Rings&) = delete;

  virtual void use(Prelude& prelude) const { prelude.use("copy_async_16"); }
  /// Addresses of tiles beside those of all kernels.
  virtual void emit_places(Writer&) const {}
  virtual const char* prefetch_v() const { return "prefetch_tensor_map(&v_map);"; }
  virtual void emit_addresses(Writer& w) const;
  virtual void emit_init(Writer& w) const;
  virtual void emit_producer_states(Writer& w) const;
  // Of the warps that convert.
  virtual void emit_converter_states(Writer&) const {}
  virtual void emit_convert_k(Writer&) const {}
  virtual void emit_convert_v(Writer&) const {}
  /// K of tile n, or V, into the next slot.
  virtual void emit_load_k(Writer& w) const { emit_load(w, *p_.k, "k"); }
  virtual void emit_load_v(Writer& w) const { emit_load(w, *p_.v, "v"); }
  /// Copies: until chunk `chunk` of a slot is free. The lanes meet there, as it may come free again before they are done
  /// with the others.
  virtual void emit_await_slot(Writer& w, const TMAConsumerPipeline& pipeline, int chunk) const;
  // Products: S' of a tile, as its chunks come where it has them; V's side of its ring.
  virtual void emit_scores(Writer& w) const;
  virtual void emit_v_state(Writer& w) const { p_.v->ring().emit_state(w, false); }
  virtual void emit_wait_v(Writer& w) const;
  virtual void emit_step_v(Writer& w) const { p_.v->ring().emit_step(w); }
  /// Behind the products with chunk `chunk` of K, where nobody else reads it.
  virtual void emit_release_k(Writer& w, int chunk) const;
  /// Before and behind the products of block `j` of O: what it waits for, and chunks that nobody reads any more.
  virtual void emit_await_block(Writer&, int) const {}
  virtual void emit_release_chunks(Writer&, int) const {}
  /// Sections of the template: of Q's copies, the wait for O before P, rows of V past a sequence, products, and the
  /// warps that convert; empty where there is none.
  virtual const char* query() const { return "copied_q"; }
  virtual const char* query_copied() const { return "copy_async_wait();"; }
  virtual const char* await_output() const { return "await_output"; }
  virtual const char* zero_tail() const { return "zero_tail"; }
  virtual const char* products() const { return "tile_products"; }
  virtual const char* converters() const { return ""; }
  virtual const char* converters_note() const { return ""; }
  /// The section of a function that they share, and what else stands before the kernel.
  virtual const char* convert_function() const { return ""; }
  virtual void emit_functions(Writer&) const {}
  // Softmax's side of V's ring, and where it puts P.
  virtual void emit_softmax_state(Writer& w) const { emit_v_state(w); }
  virtual void emit_softmax_step(Writer& w) const { emit_step_v(w); }
  virtual void emit_p_place(Writer&) const {}
  // The function that issues the products with V: what it also does, parameters for that, and their arguments.
  virtual const char* output_note() const { return ""; }
  virtual const char* output_more() const { return ""; }
  virtual std::string output_arguments() const { return ""; }
  /// Low descriptor word of P.
  virtual std::string p_get() const { return "p_desc"; }
  virtual const char* p_address() const { return "p_at"; }
  /// Whether the warps that convert read what the launch before may have written.
  virtual bool converters_wait() const { return false; }
  /// Waits for the launch before.
  virtual int launch_waits() const { return 4; }

 protected:
  int first_barrier() const { return p_.smem_barriers + 5 * 8; }
  void emit_load(Writer& w, const TMAConsumerPipeline& pipeline, const char* name) const;
  /// Of a chunk of K that has come, into S' of this tile.
  std::string issue_scores(int chunk) const;
  static constexpr int kConverters = 4;  ///< warps

  const DecodePlan& p_;
  const KeyScales& scales_;
};

/// Bytes that four warps turn into 16 bits, the type of the products.
class WidenedRings : public Rings {
 public:
  using Rings::Rings;
  void use(Prelude& prelude) const override {
    prelude.use("shared_words");
    if (p_.config.dtype != p_.math) prelude.use("bf16_to_fp16");
  }
  const char* query() const override { return "widened_q"; }
  const char* query_copied() const override { return ""; }
  const char* zero_tail() const override { return ""; }  // where it is converted
  const char* converters() const override { return "converters"; }
  void emit_softmax_state(Writer&) const override {}
  void emit_softmax_step(Writer&) const override {}
  bool converters_wait() const override {
    return scales_.read_by_converters() || !p_.stream->range_reads_lengths();
  }
  int launch_waits() const override { return converters_wait() ? 5 : 4; }
};

/// L2 policy of K and V: evict first.
constexpr const char* kEvictFirst = "0x12F0000000000000ull";

std::unique_ptr<const Rings> latent_byte_rings(const DecodePlan& plan, const KeyScales& scales);
std::unique_ptr<const Rings> rings_of(const DecodePlan& plan, const KeyScales& scales);

/// O' (+)= V' P', a block of columns of V after the other.
void emit_issue_output(Writer& w, const DecodePlan& p, const Rings& rings);
PackedRows packed_rows(const DecodePlan& p, const KeyScales& scales, const Elements& elements);
/// Every hole of the kernel's text.
Holes holes_of(const DecodePlan& p, const Rings& rings, const KeyScales& scales, const Elements& elements);

}  // namespace kiln::sm100
