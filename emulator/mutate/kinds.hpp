// The named kinds of mutants: what is changed, and what tells of it on a program that needs the statement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kiln::emulator {

enum class MutationKind : std::uint8_t {
  barrier_removed,
  barrier_id,
  barrier_count,
  warp_barrier_removed,
  member_mask,
  cluster_barrier_removed,
  arrival_count,
  arrival_removed,
  arrival_doubled,
  expected_bytes,
  copy_bytes,
  wait_removed,
  wait_phase,
  fence_removed,
  fence_scope,
  proxy_fence_removed,
  wgmma_fence_removed,
  commit_removed,
  group_wait_removed,
  group_wait_count,
  acquire_relaxed,
  release_relaxed,
  scope_narrowed,
  atomic_split,
  strong_dropped,
  operand_address,
  shared_index,
  global_index,
  guard_dropped,
  bound_off_by_one,
  product_changed,
  tensor_memory,
};

struct MutationKindInfo {
  std::string_view name;
  /// Of synchronisation and operands of matrix instructions: what `kiln verify --mutate` makes, too.
  bool synchronisation = false;
  std::string_view change;  ///< what is done to a program
  std::string_view tells;   ///< the findings that show it, most often first
};

/// In the order of MutationKind.
std::span<const MutationKindInfo> mutation_kinds();
const MutationKindInfo& info(MutationKind kind);

}  // namespace kiln::emulator
