#include "workbench/problem/heads.hpp"

namespace kiln {

HeadCounts head_counts(const Config& resolved, const std::optional<std::int64_t>& asked_q,
                       const std::optional<std::int64_t>& asked_kv, const HeadCounts& usual) {
  std::optional<std::int64_t> q = asked_q, kv = asked_kv;
  if (!q && resolved.num_q_heads) q = *resolved.num_q_heads;
  if (!kv && resolved.kv_num_heads) kv = *resolved.kv_num_heads;
  const std::int64_t group = usual.q / usual.kv;
  if (q && kv) return {*q, *kv};
  if (kv) return {*kv * group, *kv};
  if (q) return {*q, *q % group == 0 ? *q / group : *q};
  return usual;
}

}  // namespace kiln
