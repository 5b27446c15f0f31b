#include "generator/schedules/cdna_prefill/loops.hpp"
#include "generator/emit/terms.hpp"

namespace kiln::cdna {

std::unique_ptr<const KvLoop> loop_of(const PrefillPlan& p) {
  if (p.loop == PrefillLoop::pingpong) return pingpong_loop(p);
  if (p.staged) return staged_loop(p);
  if (p.loop == PrefillLoop::blocks) return block_loop(p);
  return p.loop == PrefillLoop::v_in_k ? v_in_k_loop(p) : tile_loop(p);
}

std::vector<KvLoop::Region> KvLoop::regions() const {
  if (p_.loop == PrefillLoop::blocks)
    return {
        {0, p_.smem_bytes, fmt::format("blocks of {} columns of K and V", *p_.config.bk_smem), p_.k_stages}};
  if (p_.v_in_k()) return {{0, p_.smem_bytes, "K and, in its columns, V", p_.k_stages}};
  return {{0, p_.smem_v, "K", p_.k_stages}, {p_.smem_v, p_.smem_bytes, "V", p_.v_stages}};
}

void KvLoop::emit_buffers(Writer& w, const std::string& rows, const std::string& first) const {
  const int size = static_cast<int>(size_of(*p_.config.kv_dtype));
  p_.k->emit_construct(w, 0, "k_head", times("k_stride_seq", size), rows, first);
  if (p_.k_rope)
    p_.k_rope->emit_construct(w, p_.smem_rope, "k_rope_head", "k_rope_stride_seq * 2", rows, first);
  emit_values(w, rows, first);
}

void KvLoop::emit_values(Writer& w, const std::string& rows, const std::string& first) const {
  const int size = static_cast<int>(size_of(*p_.config.kv_dtype));
  p_.v->emit_construct(w, p_.smem_v, "v_head", times("v_stride_seq", size), rows, first);
}

void KvLoop::emit(Writer& w) const {
  emit_before_loop(w);
  w.open("for (int n = {};;)", p_.first_tile());
  for (int i = 0; i < p_.loop_tiles(); ++i) emit_tile(w, i);
  w.close();
}

void KvLoop::emit_scores(Writer& w, int stage) const {
  open_if_visible(w, *p_.mask, p_.BN);
  emit_qk(w, p_, stage);
  emit_softmax(w, p_);
  w.close();
}

void KvLoop::emit_products(Writer& w, int lds_offset) const {
  open_if_visible(w, *p_.mask, p_.BN);
  emit_pv(w, p_, lds_offset);
  w.close();
}

}  // namespace kiln::cdna
