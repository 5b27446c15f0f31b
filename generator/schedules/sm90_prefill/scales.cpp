// The scales of 8-bit keys and values in sm90_prefill: none, one of a head, or one of each key. Those of keys travel
// with the tiles: of K and V that are widened in slots of their own, which converters move beside K and V; in FP8
// both in K's slot, since P takes V's before it is rounded.
#include "generator/emit/output_elements.hpp"
#include "generator/emit/terms.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm90::prefill {
namespace {

void add_pointer(std::vector<KernelParam>& params, const char* role) {
  params.push_back({KernelParam::Kind::pointer, role, {}});
}

/// Scores are multiplied by scales: rotary columns apart have none, so their products add to what has been multiplied.
class ScoreScales : public KeyScales {
 public:
  using KeyScales::KeyScales;
  void emit_scores(Writer& w) const override {
    if (!p_.rope_apart()) emit_scaled(w);
  }

 protected:
  /// S of all columns that are scaled, or of the last group of them, times the scales.
  virtual void emit_scaled(Writer& w) const = 0;
  bool changes_unit(int step) const override { return p_.begins_rope(step); }
  void emit_change(Writer& w, int /*step*/) const override { emit_scaled(w); }
};

/// One scale for a head, or for all.
class HeadScales : public ScoreScales {
 public:
  /// `query`: the index of Q's scale, empty where it has none.
  HeadScales(const Parts& parts, std::string query) : ScoreScales(parts), query_(std::move(query)) {}
  void add_params(std::vector<KernelParam>& params) const override {
    if (!query_.empty()) add_pointer(params, "q_scale");
    add_scale_pointers(params);
  }
  void emit_item(Writer& w) const override {
    w.line("const float key_scale = {}k_scale[{}];", query_.empty() ? "" : "q_scale[" + query_ + "] * ",
           p_.head_of_scales());
  }
  void emit_output_scale(Writer& w) const override {
    w.line("const float value_scale = v_scale[{}];", p_.head_of_scales());
    w.line("const float out_scale_0 = inv_sum_0 * value_scale, out_scale_1 = inv_sum_1 * value_scale;");
  }
  const char* output_scale() const override { return "out_scale"; }

 protected:
  void emit_scaled(Writer& w) const override {
    for (int i = 0; i < p_.BN / 2; i += 4)
      w.line(
          "s_acc[{}] *= key_scale; s_acc[{}] *= key_scale; s_acc[{}] *= key_scale; s_acc[{}] *= key_scale;",
          i, i + 1, i + 2, i + 3);
  }

 private:
  std::string query_;
};

/// The same, of K as part of softmax's factor: scores are not modified before it.
class HeadScalesInFactor final : public HeadScales {
 public:
  using HeadScales::HeadScales;
  void emit_item(Writer& w) const override {
    HeadScales::emit_item(w);
    w.line("const float factor = key_scale == 0.0f ? scale_log2 : scale_log2 * fabsf(key_scale);");
  }
  void emit_scores(Writer&) const override {}
  void emit_sign(Writer& w) const override {
    w.comment("the factor stays positive: Q takes the sign of the scale, and a scale of 0");
    w.line("const u32 sign = key_scale < 0.0f ? {} : 0u, keep = key_scale == 0.0f ? 0u : ~0u;",
           p_.element_bytes == 1 ? "0x80808080u" : "0x80008000u");
  }
  void emit_signed(Writer& w) const override {
    for (const char* member : {"x", "y", "z", "w"}) w.line("x.{0} = (x.{0} ^ sign) & keep;", member);
  }
};

/// Where scales of a tile go.
struct Slots {
  const char* tensor;
  const char* base;  ///< emitted
  int offset;        ///< of that, in shared memory
  const StagedPipeline& ring;
  int groups = 1, slot_bytes = 0;  ///< of ScaleSlot
};

/// How scales of keys come to shared memory.
class ScaleCopies : public Part {
 public:
  using Part::Part;
  virtual void add_params(std::vector<KernelParam>& params) const = 0;
  virtual const char* section() const = 0;
  virtual void emit_prefetch_maps(Writer&) const {}
  virtual int full_arrivals() const { return 1; }
  /// By every lane, beside a tile's bytes; as a part of them.
  virtual void emit_load(Writer&, const std::vector<Slots>&, const std::string& /*block*/) const {}
  virtual int tile_bytes(const std::vector<Slots>&) const { return 0; }
  virtual void emit_copy(Writer&, const std::vector<Slots>&, const std::string& /*block*/) const {}
  /// What stands for V's scale of key `i` of tile `block` past the sequence, a condition and a number before the scale.
  virtual std::string past_end(const std::string& /*block*/) const { return ""; }
  virtual void emit_first_weights(Writer&) const {}
};

class CopiesByLane final : public ScaleCopies {
 public:
  using ScaleCopies::ScaleCopies;
  void add_params(std::vector<KernelParam>& params) const override {
    add_scale_pointers(params);
    add_scale_strides(params, *p_.config.operand, true);
  }
  const char* section() const override { return "copy_async_4"; }
  int full_arrivals() const override { return 33; }
  void emit_load(Writer& w, const std::vector<Slots>& to, const std::string& block) const override {
    const bool by_head = scales_by_head(p_.config.operand->quantization);
    for (const Slots& s : to)
      p_.operand->emit_load_scales(
          w, factor(block),
          {s.tensor, s.groups, s.offset, s.ring.stage(), by_head, s.slot_bytes, s.groups > 1});
    if (!to.empty()) w.line("copy_async_arrive({});", to[0].ring.full(0));
  }
};

/// By tensor copies on the barriers of what they belong to.
class CopiesOfTiles final : public ScaleCopies {
 public:
  using ScaleCopies::ScaleCopies;
  void add_params(std::vector<KernelParam>& params) const override {
    for (const char* role : {"k_scale", "v_scale"})
      params.push_back({KernelParam::Kind::tensor_map, role, p_.operand->scale_map()});
  }
  const char* section() const override { return "tma_load_3d"; }
  void emit_prefetch_maps(Writer& w) const override {
    w.line("prefetch_tensor_map(&k_scale_map); prefetch_tensor_map(&v_scale_map);");
  }
  int tile_bytes(const std::vector<Slots>& to) const override {
    return static_cast<int>(to.size()) * p_.scale_bytes();
  }
  void emit_copy(Writer& w, const std::vector<Slots>& to, const std::string& block) const override {
    for (const Slots& s : to) {
      const std::string at = fmt::format("{} + {} * {}", s.base, s.ring.stage(), p_.scale_bytes());
      p_.operand->emit_copy_scales(w, factor(block), {s.tensor, at, s.ring.full(0), kEvictLast});
    }
  }
  // What is copied as a tile has anything past the sequence, and 0 * NaN is NaN.
  std::string past_end(const std::string& block) const override {
    return fmt::format("{} * {} + i >= work.seqlen_k ? 0u : ", factor(block), p_.BN);
  }
  void emit_first_weights(Writer& w) const override {
    w.comment("keys that have a scale of V, from this lane's first on: others have anything");
    w.line("const int scaled_keys = work.seqlen_k - n * {} - 2 * (lane & 3);", p_.BN);
  }
};

std::unique_ptr<const ScaleCopies> scale_copies_of(const Parts& parts) {
  if (parts.plan.scale_tiles()) return std::make_unique<CopiesOfTiles>(parts);
  return std::make_unique<CopiesByLane>(parts);
}

/// One for each key.
class TokenScales : public ScoreScales {
 public:
  explicit TokenScales(const Parts& parts) : ScoreScales(parts), copies_(scale_copies_of(parts)) {}
  void add_params(std::vector<KernelParam>& params) const override { copies_->add_params(params); }
  void use(Prelude& prelude) const override {
    prelude.use(copies_->section());
    prelude.use("load_shared_float2");
  }
  void emit_prefetch_maps(Writer& w) const override { copies_->emit_prefetch_maps(w); }
  void emit_addresses(Writer& w) const override {
    w.line("const u32 smem_k_scales = smem + {}, smem_v_scales = smem + {};", p_.smem_scales,
           p_.smem_scales + p_.num_kv_stages * p_.k_scale_bytes());
  }
  int full_arrivals() const override { return copies_->full_arrivals(); }
  void emit_load(Writer& w, const Tensor& of, const std::string& block) const override {
    copies_->emit_load(w, slots(of), block);
  }
  int tile_bytes(const Tensor& of) const override { return copies_->tile_bytes(slots(of)); }
  void emit_copy(Writer& w, const Tensor& of, const std::string& block) const override {
    copies_->emit_copy(w, slots(of), block);
  }

 protected:
  void emit_scaled(Writer& w) const override {
    w.comment("scales of the keys");
    emit_times(w, p_.k_groups() - 1);
  }
  /// S times those of the keys, which of several are the ones of the columns of `group`.
  void emit_times(Writer& w, int group) const {
    w.open("");
    emit_address(w, p_.k->ring(), "k");
    for (int i = 0; i < p_.BN / 2; i += 4) {
      w.line("const float2 k_scale_{} = {};", i / 4, scale_of_k(group * p_.scale_bytes() + 8 * i));
      w.line(
          "s_acc[{0}] *= k_scale_{4}.x; s_acc[{1}] *= k_scale_{4}.y; s_acc[{2}] *= k_scale_{4}.x; "
          "s_acc[{3}] *= k_scale_{4}.y;",
          i, i + 1, i + 2, i + 3, i / 4);
    }
    w.close();
  }
  /// Slots of the scales that come with a tile.
  virtual std::vector<Slots> slots(const Tensor& of) const = 0;
  /// Those of two keys, at byte `offset`.
  virtual std::string scale_of_k(int offset) const {
    return fmt::format("load_shared_float2(k_scale_at + {})", offset);
  }
  // The scales of this lane's two keys of each eight, `NAME.x` and `NAME.y` of every group, of the slot in use.
  void emit_address(Writer& w, const StagedPipeline& ring, const char* name) const {
    w.line("const u32 {0}_scale_at = smem_{0}_scales + {1} * {2} + 8 * (lane & 3);", name, ring.stage(),
           name[0] == 'k' ? p_.k_scale_bytes() : p_.scale_bytes());
  }
  const std::unique_ptr<const ScaleCopies> copies_;
};

/// Of K and V that converters widen.
class WidenedTokenScales : public TokenScales {
 public:
  using TokenScales::TokenScales;
  void emit_addresses(Writer& w) const override {
    TokenScales::emit_addresses(w);
    w.line("const u32 smem_raw_scales = smem + {};", p_.smem_raw_scales);
  }
  void emit_move(Writer& w, const Tensor& of, const std::string& block, int threads) const override {
    w.line("for (int i = thread; i < {}; i += {})", p_.BN, threads);
    w.line(
        "  store_shared(smem_{0}_scales + {1} * {2} + 4 * i, {4}load_shared(smem_raw_scales + {3} * {2} + 4 "
        "* i));",
        of.name, of.pipeline.ring().stage(), 4 * p_.BN, p_.raw->stage(),
        of.k ? std::string() : copies_->past_end(block));
  }
  bool fences_k() const override { return false; }
  // Where P(n+1) took V's scales, V(n+1) had come, which is converted after K(n).
  void emit_wait_k(Writer& w, int qk) const override {
    if (p_.rope_apart()) TokenScales::emit_wait_k(w, qk);  // which come by a copy of their own
  }
  void emit_wait_v(Writer&) const override {}
  void emit_scores(Writer& w) const override {
    TokenScales::emit_scores(w);
    w.line("__syncwarp();  // every lane has read its scales");
  }
  void emit_pack(Writer& w, const char* from) const override {
    const char* pack = pack_name(p_.math);
    w.comment("P times the scales of V");
    p_.v->emit_wait(w, 0);
    emit_address(w, p_.v->ring(), "v");
    for (int i = 0; i < p_.BN / 4; i += 2) {
      w.line("const float2 v_scale_{} = load_shared_float2(v_scale_at + {});", i / 2, 16 * i);
      w.line(
          "p[{0}] = {2}({3}[{4}] * v_scale_{8}.x, {3}[{5}] * v_scale_{8}.y); p[{1}] = {2}({3}[{6}] * "
          "v_scale_{8}.x, {3}[{7}] * v_scale_{8}.y);",
          i, i + 1, pack, from, 2 * i, 2 * i + 1, 2 * i + 2, 2 * i + 3, i / 2);
    }
  }
  // Of the tiles before they have been, before the scales of K.
  void emit_last_read(Writer& w) const override { parts_.output->emit_scales_read(w); }

 protected:
  std::vector<Slots> slots(const Tensor& of) const override {
    return {{of.name, "smem_raw_scales", p_.smem_raw_scales, *p_.raw}};
  }
};

/// Of n elements of a row each, which converters take apart where the copies left them.
class SplitScales final : public WidenedTokenScales {
 public:
  using WidenedTokenScales::WidenedTokenScales;
  void emit_move(Writer&, const Tensor&, const std::string&, int) const override {}

 protected:
  bool changes_unit(int step) const override {
    const bool group = step > 0 && !p_.is_rope_step(step) && step * p_.step_elements() % block() == 0;
    return group || WidenedTokenScales::changes_unit(step);
  }
  void emit_change(Writer& w, int step) const override {
    if (p_.begins_rope(step)) return emit_scaled(w);
    emit_times(w, step * p_.step_elements() / block() - 1);
  }
  int block() const { return p_.config.operand->quantization->block; }
  std::vector<Slots> slots(const Tensor& of) const override {
    const int groups = PrefillPlan::groups_of(p_.config, of.k ? p_.plain_columns() : p_.ov_depth);
    return {{of.name, "smem_raw_scales", p_.smem_raw_scales, *p_.raw, groups, p_.raw_scale_bytes()}};
  }
};

/// Of FP8 Q, K and V.
class Fp8TokenScales final : public TokenScales {
 public:
  using TokenScales::TokenScales;
  void add_params(std::vector<KernelParam>& params) const override {
    add_pointer(params, "q_scale");
    TokenScales::add_params(params);
  }
  void use(Prelude& prelude) const override {
    TokenScales::use(prelude);
    prelude.use("log2_approx");
    prelude.add("times",
                "__device__ __forceinline__ float2 times(float2 x, float y) { return make_float2(x.x * y, "
                "x.y * y); }\n");
  }
  void emit_item(Writer& w) const override { w.line("const float query_scale = q_scale[0];"); }
  void emit_release_after_scores(Writer&) const override {}
  void emit_release_after_p(Writer& w) const override {
    w.line("__syncwarp();  // every lane has read its scales");
    TokenScales::emit_release_after_scores(w);
  }
  void emit_weights(Writer& w) const override { emit_address(w, p_.k->ring(), "v"); }
  void emit_first_weights(Writer& w) const override { copies_->emit_first_weights(w); }
  void emit_weigh(Writer& w, bool first) const override { p_.softmax->emit_weigh(w, first); }

 protected:
  std::vector<Slots> slots(const Tensor& of) const override {
    if (!of.k) return {};
    const int v = p_.smem_scales + p_.num_kv_stages * p_.scale_bytes();
    return {{"k", "smem_k_scales", p_.smem_scales, p_.k->ring()}, {"v", "smem_v_scales", v, p_.k->ring()}};
  }
  std::string scale_of_k(int offset) const override {
    return fmt::format("times(load_shared_float2(k_scale_at + {}), query_scale)", offset);
  }
};

}  // namespace

void KeyScales::emit_next_unit(Writer& w, int step) const {
  if (!changes_unit(step)) return;
  w.line("wgmma_commit();");
  w.line("WGMMA_WAIT(0);");
  emit_change(w, step);
  w.line("wgmma_fence();");
}

void KeyScales::emit_pack(Writer& w, const char* from) const {
  parts_.tiles->emit_pack(w, from);
}

std::unique_ptr<const KeyScales> scales_of(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  if (!p.scales()) return std::make_unique<KeyScales>(parts);
  if (p.fp8_tokens()) return std::make_unique<Fp8TokenScales>(parts);
  if (p.raw_groups() > 1) return std::make_unique<SplitScales>(parts);
  if (p.narrow_tokens()) return std::make_unique<WidenedTokenScales>(parts);
  const std::string query =
      p.fp8 ? scale_of_query(*p.config.operand->quantization, "work.batch", "work.kv_head") : "";
  if (p.scale_joins_factor()) return std::make_unique<HeadScalesInFactor>(parts, query);
  return std::make_unique<HeadScales>(parts, query);
}

}  // namespace kiln::sm90::prefill
