// Special registers: rows fixed per warp, filled when the block starts.
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decoder.hpp"

namespace kiln::emulator {
namespace {

constexpr std::string_view kNames[] = {"%tid.x",
                                       "%tid.y",
                                       "%tid.z",
                                       "%ntid.x",
                                       "%ntid.y",
                                       "%ntid.z",
                                       "%ctaid.x",
                                       "%ctaid.y",
                                       "%ctaid.z",
                                       "%nctaid.x",
                                       "%nctaid.y",
                                       "%nctaid.z",
                                       "%laneid",
                                       "%warpid",
                                       "%nwarpid",
                                       "%smid",
                                       "%nsmid",
                                       "%gridid",
                                       "%clusterid.x",
                                       "%clusterid.y",
                                       "%clusterid.z",
                                       "%nclusterid.x",
                                       "%nclusterid.y",
                                       "%nclusterid.z",
                                       "%cluster_ctaid.x",
                                       "%cluster_ctaid.y",
                                       "%cluster_ctaid.z",
                                       "%cluster_nctaid.x",
                                       "%cluster_nctaid.y",
                                       "%cluster_nctaid.z",
                                       "%cluster_ctarank",
                                       "%cluster_nctarank",
                                       "%is_explicit_cluster",
                                       "%lanemask_eq",
                                       "%lanemask_le",
                                       "%lanemask_lt",
                                       "%lanemask_ge",
                                       "%lanemask_gt",
                                       "%dynamic_smem_size",
                                       "%total_smem_size",
                                       "%aggr_smem_size",
                                       "%envreg0",
                                       "%reserved_smem_offset_begin",
                                       "%reserved_smem_offset_end",
                                       "%reserved_smem_offset_cap",
                                       "shared_base"};
constexpr std::size_t kRow = 32 * 4 + 32 * 8;  // the 32-bit row, then the 64-bit one

}  // namespace

void fill_specials(Warp& w) {
  const Block& b = *w.block;
  const Cluster& c = *b.cluster;
  const Launch& l = *c.launch->launch;
  w.specials.assign(std::size(kNames) * kRow + 256, 0);
  const std::uint32_t cx = b.rank % l.cluster.x, cy = b.rank / l.cluster.x % l.cluster.y,
                      cz = b.rank / l.cluster.x / l.cluster.y;
  const std::uint64_t linear = b.id.x + std::uint64_t{l.grid.x} * (b.id.y + std::uint64_t{l.grid.y} * b.id.z);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t t = static_cast<std::uint32_t>(w.index) * 32 + lane;
    const std::uint32_t warps = static_cast<std::uint32_t>(b.warps.size());
    const std::uint32_t values[] = {t % l.block.x,
                                    t / l.block.x % l.block.y,
                                    t / l.block.x / l.block.y,
                                    l.block.x,
                                    l.block.y,
                                    l.block.z,
                                    b.id.x,
                                    b.id.y,
                                    b.id.z,
                                    l.grid.x,
                                    l.grid.y,
                                    l.grid.z,
                                    lane,
                                    static_cast<std::uint32_t>(w.index),
                                    warps,
                                    static_cast<std::uint32_t>(linear % l.num_sms),
                                    l.num_sms,
                                    0,
                                    b.id.x / l.cluster.x,
                                    b.id.y / l.cluster.y,
                                    b.id.z / l.cluster.z,
                                    l.grid.x / l.cluster.x,
                                    l.grid.y / l.cluster.y,
                                    l.grid.z / l.cluster.z,
                                    cx,
                                    cy,
                                    cz,
                                    l.cluster.x,
                                    l.cluster.y,
                                    l.cluster.z,
                                    b.rank,
                                    static_cast<std::uint32_t>(l.cluster.count()),
                                    l.cluster.count() > 1 ? 1u : 0u,
                                    1u << lane,
                                    (2u << lane) - 1u,
                                    (1u << lane) - 1u,
                                    ~((1u << lane) - 1u),
                                    ~((2u << lane) - 1u),
                                    l.dynamic_smem_bytes,
                                    l.dynamic_smem_bytes + c.program->static_smem,
                                    l.dynamic_smem_bytes + c.program->static_smem,
                                    0,
                                    0,
                                    kSharedBase,
                                    kSharedBase,
                                    b.shared_address()};
    static_assert(std::size(values) == std::size(kNames));
    for (std::size_t i = 0; i < std::size(values); ++i) {
      const std::uint64_t wide = values[i];
      std::memcpy(w.specials.data() + i * kRow + std::size_t{lane} * 4, &values[i], 4);
      std::memcpy(w.specials.data() + i * kRow + 128 + std::size_t{lane} * 8, &wide, 8);
    }
  }
}

Ref ptx::Decoder::special(std::string_view name, int size) {
  if (name.starts_with("%envreg")) name = "%envreg0";  // the driver's; all are zero
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) {
      if (size == 4) return static_cast<Ref>(i * kRow) | kSpecial;
      if (size == 8) return static_cast<Ref>(i * kRow + 128) | kSpecial;
      if (size == 2) fail("special register of the wrong size in");
    }
  fail("unknown special register " + std::string(name) + " in");
}

}  // namespace kiln::emulator
