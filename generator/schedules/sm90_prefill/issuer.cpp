// Who issues the copies of K and V in sm90_prefill, the blocks that share them, and registers.
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {
namespace {

class OneThread final : public Issuer {
 public:
  using Issuer::Issuer;
  const char* title() const override { return "one thread issues every copy"; }
  const char* condition() const override { return "threadIdx.x / 32 == 0 && elect_one()"; }
  void emit_wait_empty(Writer& w, const StagedPipeline& ring, int qk) const override {
    ring.emit_wait_empty(w, qk);
  }
  void emit_fetch(Writer& w) const override {
    w.line("const int fetched = atomicAdd(tile_counter, 1);");
    w.line("if (fetched == num_tiles - 1) atomicExch(tile_counter, 0);");
  }
  void emit_item_read(Writer& w, const std::string& empty) const override {
    w.line("mbarrier_arrive({});", empty);
    w.line("if (place.x < 0) break;");
  }
};

/// A whole warp: a lane for each page or scale, or for each sequence where it finds items.
class OneWarp : public Issuer {
 public:
  using Issuer::Issuer;
  const char* title() const override {
    return "one thread issues every copy of a tile, a lane each that of a scale";
  }
  const char* condition() const override { return "threadIdx.x < 32"; }
  void emit_lane(Writer& w) const override { w.line("const int lane = threadIdx.x;"); }
  void open_one(Writer& w) const override { w.open("if (lane == 0)"); }
  void close_one(Writer& w) const override { w.close(); }
  void emit_wait_empty(Writer& w, const StagedPipeline& ring, int qk) const override {
    ring.emit_wait_empty_by_warp(w, qk);
  }
  void emit_fetch(Writer& w) const override { emit_fetch_by_warp(w, "num_tiles"); }
  void emit_item_read(Writer& w, const std::string& empty) const override {
    emit_item_read_by_warp(w, empty);
  }
};

class WarpOfPages final : public OneWarp {
 public:
  using OneWarp::OneWarp;
  const char* title() const override { return "a lane for each page of a tile"; }
};

/// Blocks of a cluster fill each other's slots.
class ClusterBlocks final : public Blocks {
 public:
  using Blocks::Blocks;
  void use(Prelude& prelude) const override {
    for (const char* section :
         {"cluster_rank", "cluster_sync", "mbarrier_arrive_cluster", "tma_load_multicast"})
      prelude.use(section);
  }
  std::string attribute() const override { return fmt::format("__cluster_dims__({}, 1, 1) ", p_.cluster); }
  void emit_rank(Writer& w) const override { w.line("const u32 rank = cluster_rank();"); }
  void emit_sync(Writer& w) const override {
    w.comment("every block of the cluster must see the others' barriers before it fills their slots");
    w.line("cluster_arrive(); cluster_wait();");
  }
  void emit_end(Writer& w) const override {
    w.comment("no block leaves while another may still arrive on its barriers");
    w.line("__syncwarp();");
    w.line("cluster_arrive(); cluster_wait();");
  }
};

/// With one consumer warpgroup every thread may have 255 registers anyway.
class LentRegisters final : public Registers {
 public:
  using Registers::Registers;
  void emit_lend(Writer& w) const override { w.line("SETMAXNREG_DEC({});", p_.producer_registers); }
  void emit_borrow(Writer& w) const override { w.line("SETMAXNREG_INC({});", p_.math_registers); }
};

}  // namespace

void Issuer::emit_fetch_by_warp(Writer& w, const char* total) {
  w.line("int fetched = lane == 0 ? atomicAdd(tile_counter, 1) : 0;");
  w.line("fetched = __shfl_sync(0xffffffffu, fetched, 0);");
  w.line("if (lane == 0 && fetched == {} - 1) atomicExch(tile_counter, 0);", total);
}

void Issuer::emit_item_read_by_warp(Writer& w, const std::string& empty) {
  w.line("__syncwarp();");
  w.line("if (lane == 0) mbarrier_arrive({});", empty);
  w.comment("of a value that shared memory gave, the compiler does not know that it is the warp's");
  w.line("if (__shfl_sync(0xffffffffu, place.x, 0) < 0) break;");
}

std::unique_ptr<const Issuer> issuer_of(const Parts& parts) {
  if (parts.plan.operand->table()) return std::make_unique<WarpOfPages>(parts);
  if (parts.plan.warp_produces()) return std::make_unique<OneWarp>(parts);
  return std::make_unique<OneThread>(parts);
}

std::unique_ptr<const Blocks> blocks_of(const Parts& parts) {
  if (parts.plan.cluster > 1) return std::make_unique<ClusterBlocks>(parts);
  return std::make_unique<Blocks>(parts);
}

std::unique_ptr<const Registers> registers_of(const Parts& parts) {
  if (parts.plan.num_math_warpgroups > 1) return std::make_unique<LentRegisters>(parts);
  return std::make_unique<Registers>(parts);
}

}  // namespace kiln::sm90::prefill
