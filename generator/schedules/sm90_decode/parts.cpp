// The objects of a plan.
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {
namespace {

/// V is the first columns of K's rows: there once K is, and its release is that of the slot.
class ValuesInKeys final : public ValueSlots {
 public:
  using ValueSlots::ValueSlots;
  bool in_k() const override { return true; }
  void emit_wait(Writer&) const override {}
  void emit_release_k(Writer&, int) const override {}
  void emit_k_read(Writer&) const override {}
  void emit_before_zeros(Writer& w) const override {
    w.line("named_barrier_sync(1, {});  // all products with K are done", p_.consumer_threads());
  }
};

/// Scales of groups of columns, which products are multiplied by as they are added up (grouped.cpp).
class GroupedProducts final : public KeyProducts {
 public:
  using KeyProducts::KeyProducts;
  void emit_scores(Writer&, const KeyScales&) const override {}
};

/// Parts of a fixed split, of which some may be without tiles.
class FixedSegments final : public Segments {
 public:
  void open_if_tiles(Writer& w) const override { w.open("if (s.tile_begin < s.tile_end)"); }
  void close_if_tiles(Writer& w) const override { w.close(); }
};

std::unique_ptr<const ValueSlots> values_of(const DecodePlan& p) {
  if (p.v_in_k) return std::make_unique<ValuesInKeys>(p);
  return std::make_unique<ValueSlots>(p);
}

std::unique_ptr<const KeyProducts> products_of(const DecodePlan& p) {
  if (p.grouped()) return std::make_unique<GroupedProducts>(p);
  if (p.rope_apart()) return products_with_rotary(p);
  return std::make_unique<KeyProducts>(p);
}

std::unique_ptr<const Segments> segments_of(const DecodePlan& p) {
  if (p.separate) return std::make_unique<FixedSegments>();
  return std::make_unique<Segments>();
}

std::vector<std::vector<Tensor>> producers_of(const DecodePlan& p, const Tensor& k, const Tensor& v) {
  if (p.v_in_k) return {{k}};
  if (p.producer_warps == 1) return {{k, v}};
  return {{k}, {v}};
}

}  // namespace

void ValueSlots::emit_release_k(Writer& w, int qk) const {
  w.line("if (lane == 0) mbarrier_arrive({});", p_.k->ring().empty(qk));
}

Parts::Parts(const DecodePlan& p)
    : plan(p),
      values(values_of(p)),
      scales(scales_of(p, *values)),
      products(products_of(p)),
      segments(segments_of(p)),
      k{"k", "K", true, *p.k, p.k_fold, p.k_groups, p.rope_panels()},
      v{"v", "V", false, *p.v, p.v_fold, p.v_groups, 0},
      producers(producers_of(p, k, v)) {}

}  // namespace kiln::sm90
