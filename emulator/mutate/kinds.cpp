#include "emulator/mutate/kinds.hpp"

#include <array>

namespace kiln::emulator {
namespace {

constexpr std::size_t kKinds = static_cast<std::size_t>(MutationKind::tensor_memory) + 1;

constexpr std::array<MutationKindInfo, kKinds> kTable = {{
    {"barrier-removed", true, "bar, barrier, s_barrier removed",
     "shared-race, global-race, async-memory, deadlock"},
    {"barrier-id", false, "the barrier's number changed", "deadlock, barrier-count, shared-race"},
    {"barrier-count", false, "32 threads more or fewer at a barrier", "deadlock, barrier-count, shared-race"},
    {"warp-barrier-removed", true, "bar.warp.sync removed", "warp-race"},
    {"member-mask", false, "lane 0 taken out of the mask of shfl, vote, match, redux, elect, bar.warp.sync",
     "warp-mask, wrong result"},
    {"cluster-barrier-removed", true, "barrier.cluster.arrive or wait removed",
     "shared-race, ended-block, missing-mbarrier-fence"},
    {"arrival-count", true, "mbarrier.init with one arrival more or fewer",
     "deadlock, mbarrier-overrun, shared-race"},
    {"arrival-removed", true, "mbarrier.arrive, complete_tx or clusterlaunchcontrol.try_cancel removed",
     "deadlock, transaction-count"},
    {"arrival-doubled", true, "mbarrier.arrive done twice", "mbarrier-overrun, shared-race"},
    {"expected-bytes", true, "expect_tx removed, or 16 bytes more or fewer", "transaction-count, deadlock"},
    {"copy-bytes", false, "a bulk copy 16 bytes shorter, st.bulk 8 bytes",
     "transaction-count, uninitialized-read, deadlock"},
    {"wait-removed", true,
     "a wait on an mbarrier, griddepcontrol.wait, tcgen05.wait, s_waitcnt not waited for",
     "async-memory, shared-race, early-access"},
    {"wait-phase", true, "the parity of a wait flipped", "deadlock, async-memory, shared-race"},
    {"fence-removed", true, "fence or membar removed", "global-race, shared-race"},
    {"fence-scope", false, "fence or membar of gpu, sys or cluster scope made one of cta scope",
     "global-race, shared-race"},
    {"proxy-fence-removed", true, "fence.proxy or fence.mbarrier_init removed",
     "missing-proxy-fence, missing-mbarrier-fence"},
    {"wgmma-fence-removed", true, "wgmma.fence removed", "missing-wgmma-fence"},
    {"commit-removed", true, "commit_group or tcgen05.commit removed",
     "async-memory, async-register, deadlock"},
    {"group-wait-removed", true, "wait_group or wait_all removed", "async-memory, async-register"},
    {"group-wait-count", true, "one group or one access more left under way (wait_group, s_waitcnt)",
     "async-memory, async-register"},
    {"acquire-relaxed", true, "acquire made relaxed", "global-race, shared-race"},
    {"release-relaxed", true, "release or acq_rel made relaxed", "global-race, shared-race"},
    {"scope-narrowed", false,
     "an atomic, a strong load or store of gpu, sys or cluster scope made one of cta scope",
     "global-race, shared-race"},
    {"atomic-split", false, "an atomic done as a plain load, an operation and a plain store",
     "global-race, shared-race, warp-race"},
    {"strong-dropped", false, "volatile or relaxed taken off a load or store", "global-race, shared-race"},
    {"operand-address", true,
     "an operand of a matrix instruction or copy elsewhere: swizzle bit, 16 or 32 bytes on, M0",
     "wrong result, shared-race, uninitialized-read"},
    {"shared-index", false, "a load or store of shared memory one element on",
     "wrong result, shared-race, uninitialized-read, out-of-bounds"},
    {"global-index", false, "a load or store of global memory one element on",
     "out-of-bounds, wrong result, global-race"},
    {"guard-dropped", false, "a load, store or atomic done by lanes that its predicate excludes",
     "out-of-bounds, wrong result, global-race"},
    {"bound-off-by-one", false, "< made <=, <= made <, > made >=, >= made > in a comparison of integers",
     "out-of-bounds, wrong result, deadlock"},
    {"product-changed", true,
     "tcgen05.mma with another sign, type, major, shape, accumulation, scale or mask", "wrong result"},
    {"tensor-memory", true,
     "tcgen05.dealloc, cp or shift removed, half the columns allocated, another multicast mask",
     "tmem-leak, tmem-access, tmem-uninitialized, deadlock"},
}};

}  // namespace

std::span<const MutationKindInfo> mutation_kinds() {
  return kTable;
}

const MutationKindInfo& info(MutationKind kind) {
  return kTable[static_cast<std::size_t>(kind)];
}

}  // namespace kiln::emulator
