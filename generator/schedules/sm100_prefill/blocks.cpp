// The blocks that take an item of sm100_prefill together: one, or a pair that shares every tile of K and V. Of a pair each
// block has 128 query rows, half of a tile's rows of K and half of V's columns; the first issues the products of both.
#include "generator/emit/terms.hpp"
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

class OneBlock final : public Blocks {
 public:
  using Blocks::Blocks;
  void use(Prelude& prelude) const override {
    for (const char* section : {"tmem_alloc", "tcgen05_commit"}) prelude.use(section);
    prelude.use(parts_.elements->mma());
  }
  std::string instruction() const override {
    return fmt::format("tcgen05.mma.cta_group::1.{}", parts_.elements->kind());
  }
  const char* sync() const override { return "__syncthreads();"; }
  const char* issuer() const override { return "elect_one()"; }
  std::string arrive(const std::string& barrier) const override {
    return fmt::format("mbarrier_arrive({})", barrier);
  }
  void emit_load_q(Writer& w, int tile) const override {
    w.line("mbarrier_arrive_expect_tx({}, {});", plus("mbar_q_full", 8 * tile), p_.q_bytes());
    emit_boxes_of_q(w, tile, "tma_load");
  }
};

class PairOfBlocks final : public Blocks {
 public:
  using Blocks::Blocks;
  void use(Prelude& prelude) const override {
    for (const char* section : {"tmem_alloc_pair", "tcgen05_commit_pair", "tma_load_pair", "cluster_rank",
                                "cluster_sync", "mbarrier_arrive_cluster"})
      prelude.use(section);
    prelude.use(std::string(parts_.elements->mma()) + "_pair");
  }
  std::string instruction() const override {
    return fmt::format("tcgen05.mma.cta_group::2.{}", parts_.elements->kind());
  }
  std::string attribute() const override { return "__cluster_dims__(2, 1, 1) "; }
  const char* sync() const override { return "cluster_arrive(); cluster_wait();  // of both blocks"; }
  const char* issuer() const override { return "cluster_rank() == 0 && elect_one()"; }
  std::string arrive(const std::string& barrier) const override {
    return fmt::format("mbarrier_arrive_cluster({}, 0)", barrier);
  }
  void emit_load_q(Writer& w, int tile) const override {
    w.line("if (rank == 0) mbarrier_arrive_expect_tx({}, {});", plus("mbar_q_full", 8 * tile),
           2 * p_.q_bytes());
    emit_boxes_of_q(w, tile, "tma_load_pair");
  }
};

}  // namespace

void Blocks::emit_boxes_of_q(Writer& w, int tile, const char* load) const {
  for (int panel = 0; panel < p_.q_panels(); ++panel)
    w.line("{}({}, &q_map, {}, {}, {});", load,
           plus("smem_q", tile * p_.q_stride() + panel * p_.q_tile().panel_bytes()),
           plus("mbar_q_full", 8 * tile),
           parts_.items->coordinates(panel * p_.fa4.gran, plus("work.m_start", tile * PrefillPlan::kRows)),
           kEvictFirst);
}

std::unique_ptr<const Blocks> blocks_of(const Parts& parts) {
  if (parts.plan.blocks() == 2) return std::make_unique<PairOfBlocks>(parts);
  return std::make_unique<OneBlock>(parts);
}

}  // namespace kiln::sm100::prefill
