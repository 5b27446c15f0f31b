// How tiles of K and V come to the warps of sm80_prefill, and the body of the loop over them.
#include "generator/schedules/common/kv_loop_text.hpp"
#include "generator/schedules/sm80_prefill/parts.hpp"

namespace kiln::sm80 {
namespace {

/// Two or more stages: tile n + stages - 1 is copied while tile n is computed.
class Staged final : public KeyPipeline {
 public:
  using KeyPipeline::KeyPipeline;
  int tiles_before() const override { return p_.num_stages - 1; }
  void emit_wait_first(Writer& w) const override { emit_wait(w, p_.num_stages - 2); }
  void emit_tile(Writer& w, const Parts& parts, int stage) const override {
    const int ahead = p_.num_stages - 1;
    w.banner("KV tile n in stage {}", stage);
    w.open("if (n + {} < num_tiles)", ahead);
    emit_load(w, (stage + ahead) % p_.num_stages);
    w.close();
    w.line("cp_async_commit();");
    open_if_visible(w, *p_.mask, p_.BN);
    emit_qk(w, parts, stage);
    emit_softmax(w, p_);
    emit_pv(w, p_, stage);
    w.close();
    w.line("if (++n == num_tiles) break;");
    w.comment("the next tile has landed, and every warp has finished this one");
    emit_wait(w, p_.num_stages - 2);
  }
  bool may_read_late(const Queries&) const override { return true; }
};

/// One stage: V(n) is copied during S, K(n + 1) during P V.
class OneStage final : public KeyPipeline {
 public:
  using KeyPipeline::KeyPipeline;
  void emit_first_load(Writer& w) const override { p_.k->emit_load_from_dram(w, 0); }
  int tiles_before() const override { return 1; }
  void emit_wait_first(Writer& w) const override { emit_wait(w, 0); }
  void emit_tile(Writer& w, const Parts& parts, int) const override {
    w.banner("KV tile n");
    p_.v->emit_load_from_dram(w, 0);
    w.line("cp_async_commit();");
    open_if_visible(w, *p_.mask, p_.BN);
    emit_qk(w, parts, 0);
    emit_softmax(w, p_);
    w.close();
    w.comment("V(n) has landed, and every warp has finished K(n)");
    emit_wait(w, 0);
    w.open("if (n + 1 < num_tiles)");
    p_.k->emit_load_from_dram(w, 0);
    w.line("cp_async_commit();");
    w.close();
    open_if_visible(w, *p_.mask, p_.BN);
    emit_pv(w, p_, 0);
    w.close();
    w.line("if (++n == num_tiles) break;");
    w.comment("K(n + 1) has landed, and every warp has finished V(n)");
    emit_wait(w, 0);
  }
};

/// Bytes: tile n is widened where tile n - 1 was, from a stage that then takes the copies of tile n + stages.
class Widened final : public KeyPipeline {
 public:
  using KeyPipeline::KeyPipeline;
  void emit_addresses(Writer& w) const override {
    w.line("const u32 smem_k_bytes = smem_q + {}, smem_v_bytes = smem_q + {};", p_.smem_k_bytes,
           p_.smem_v_bytes);
  }
  int tiles_before() const override { return p_.num_stages; }
  // Bytes are waited for where they are widened, and Q with them unless it is read before.
  void emit_wait_for_queries(Writer& w) const override { emit_wait(w, p_.num_stages - 1); }
  void emit_tile(Writer& w, const Parts& parts, int stage) const override {
    w.banner("KV tile n, from stage {}", stage);
    w.comment("it has landed: each thread widens the bytes that it copied, and no other");
    w.line("CP_ASYNC_WAIT({});", p_.num_stages - 1);
    p_.k->emit_widen(w, stage);
    p_.v->emit_widen(w, stage);
    p_.scales->emit_store(w);
    p_.scales->emit_load(w);
    w.open("if (n + {} < num_tiles)", p_.num_stages);
    emit_load(w, stage);
    w.close();
    w.line("cp_async_commit();");
    w.comment("every thread has widened its part");
    w.line("__syncthreads();");
    open_if_visible(w, *p_.mask, p_.BN);
    emit_qk(w, parts, 0);
    emit_softmax(w, p_);
    emit_pv(w, p_, 0);
    w.close();
    w.line("if (++n == num_tiles) break;");
    w.comment("every warp has finished this tile");
    w.line("__syncthreads();");
  }
  // Otherwise the block has met since Q was read, before the first K.
  bool may_read_late(const Queries& queries) const override { return queries.read_in_loop(); }
  std::string regions() const override {
    return region(p_.smem_k, p_.smem_v, "K") + region(p_.smem_v, p_.smem_scales, "V") +
           region(p_.smem_scales, p_.smem_k_bytes, "scales of the keys") +
           region(p_.smem_k_bytes, p_.smem_v_bytes, "K stages, as bytes") +
           region(p_.smem_v_bytes, p_.smem_bytes, "V stages, as bytes");
  }
};

}  // namespace

void KeyPipeline::emit_first_load(Writer& w) const {
  emit_load(w, 0);
}

std::string KeyPipeline::regions() const {
  return region(p_.smem_k, p_.smem_v, "K stages") + region(p_.smem_v, p_.smem_bytes, "V stages");
}

void KeyPipeline::emit_load(Writer& w, int stage) const {
  p_.k->emit_load_from_dram(w, stage);
  p_.v->emit_load_from_dram(w, stage);
}

void emit_wait(Writer& w, int pending) {
  w.line("CP_ASYNC_WAIT({});", pending);
  w.line("__syncthreads();");
}

std::string region(int begin, int end, const char* what) {
  return begin < end ? fmt::format("\n  {:>7} .. {:>7}  {}", begin, end, what) : "";
}

std::unique_ptr<KeyPipeline> make_pipeline(const PrefillPlan& p) {
  if (p.narrow()) return std::make_unique<Widened>(p);
  if (p.num_stages == 1) return std::make_unique<OneStage>(p);
  return std::make_unique<Staged>(p);
}

}  // namespace kiln::sm80
