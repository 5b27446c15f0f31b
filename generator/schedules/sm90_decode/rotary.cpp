// Rotary columns of sm90_decode beside keys of one byte: they stay 16 bits, and their products have sums of their own,
// which are added once the others are scaled.
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {
namespace {

class RotaryProducts final : public KeyProducts {
 public:
  using KeyProducts::KeyProducts;
  void use(Prelude& prelude) const override {
    p_.qk_rope->add_to(prelude, true), p_.qk_rope->add_to(prelude, false);
  }
  void emit_state(Writer& w) const override {
    for (int i = 0; i < p_.key_blocks(); ++i)
      w.line("float rope_acc_{}[{}];  // of S' what the rotary columns add", i, p_.s_regs());
  }
  /// As they are, behind the other columns.
  void emit_store_q(Writer& w) const override {
    w.comment("Q's rotary columns");
    open_query_chunks(w, p_, 8 * p_.rope_panels(), p_.rope / 8, p_.k_depth);
    w.line("store_shared_16(smem_q + {} + c / 8 * {} + r * 128 + (((c % 8) ^ (r % 8)) << 4), x);",
           p_.padded_depth() / 64 * p_.q_tile().panel_bytes(), p_.BM * 128);
    w.close();
  }
  /// While the others are widened.
  void emit_products(Writer& w) const override {
    const SmemTile tile = p_.rope_tile();
    const auto k = k_major_descriptor(tile);
    w.comment("rotary columns, as they are");
    w.line("const u32 rope_low = {} | {:#x}u;",
           descriptor_base(fmt::format("{} + {}", p_.k->slot(), p_.k->rope_offset()), 1), k.low);
    w.line("wgmma_fence();");
    for (int block = 0; block < p_.key_blocks(); ++block) {
      for (int step = 0; step < p_.rope / 16; ++step) {
        w.line("{}(rope_acc_{}, descriptor(rope_low + {}, {:#x}u), descriptor(q_desc + {}, {}));",
               p_.qk_rope->name(step == 0), block, (64 * 128 * block >> 4) + k_major_step(tile, step), k.high,
               k_major_step(p_.q_tile(), p_.padded_depth() / 16 + step), p_.q_high());
      }
    }
    w.line("wgmma_commit();");
  }
  void emit_scores(Writer& w, const KeyScales& scales) const override { scales.emit_scores_with_rotary(w); }
};

}  // namespace

std::unique_ptr<const KeyProducts> products_with_rotary(const DecodePlan& plan) {
  return std::make_unique<RotaryProducts>(plan);
}

}  // namespace kiln::sm90
