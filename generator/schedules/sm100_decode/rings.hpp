// How K and V come to the products of sm100_decode: tiles by tensor copies, bytes that four warps turn into FP16, or
// latent rows whose first columns are V. The plan's config chooses one (rings_of).
#pragma once

#include <memory>
#include <string>

#include "generator/emit/prelude.hpp"
#include "generator/schedules/sm100_decode/parts.hpp"

namespace kiln::sm100 {

/// Tiles, a ring for K and one for V.
class Rings {
 public:
  explicit Rings(const DecodePlan& plan) : p_(plan) {}
  virtual ~Rings() = default;
  Rings(const Rings&) = delete;
  Rings& operator=(const Rings&) = delete;

  virtual void use(Prelude& prelude) const { prelude.use("copy_async_16"); }
  virtual void emit_addresses(Writer& w) const;
  virtual void emit_init(Writer& w) const;
  virtual void emit_producer_states(Writer& w) const;
  // Of the warps that convert.
  virtual void emit_converter_states(Writer&) const {}
  virtual void emit_convert(Writer&, bool) const {}
  /// K of tile n, or V, into the next slot.
  virtual void emit_load_k(Writer& w) const { emit_load(w, *p_.k, "k"); }
  virtual void emit_load_v(Writer& w) const { emit_load(w, *p_.v, "v"); }
  // Products: S' of a tile as its chunks come, and V's side of its ring.
  virtual void emit_scores_by_chunk(Writer&) const {}
  virtual void emit_v_state(Writer& w) const { p_.v->ring().emit_state(w, false); }
  virtual void emit_wait_v(Writer& w) const { p_.v->emit_wait(w, 0); }
  virtual void emit_step_v(Writer& w) const { p_.v->ring().emit_step(w); }
  /// Behind the products of block `j` of O: chunks that nobody reads any more.
  virtual void emit_release_chunks(Writer&, int) const {}
  /// Low descriptor words of K's and V's slots in use, and of P.
  virtual std::string k_get() const { return p_.k->get(); }
  virtual std::string v_get() const { return p_.v->get(); }
  virtual std::string p_get() const { return "p_desc"; }
  virtual const char* p_address() const { return "p_at"; }
  /// Waits for the launch before.
  virtual int launch_waits() const { return 4; }

 protected:
  int first_barrier() const { return p_.smem_barriers + 5 * 8; }
  void emit_load(Writer& w, const TMAConsumerPipeline& pipeline, const char* name) const;

  const DecodePlan& p_;
};

std::unique_ptr<const Rings> rings_of(const DecodePlan& plan);

}  // namespace kiln::sm100
