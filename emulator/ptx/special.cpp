// Special registers: rows fixed per warp, filled when the block starts.
#include <array>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator {
namespace {

// In the order of lane_values and block_values.
constexpr std::string_view kNames[] = {
    "%tid.x", "%tid.y", "%tid.z", "%laneid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge",
    "%lanemask_gt",
    // the same for all lanes
    "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y",
    "%nctaid.z", "%warpid", "%nwarpid", "%smid", "%nsmid", "%clusterid.x", "%clusterid.y", "%clusterid.z",
    "%nclusterid.x", "%nclusterid.y", "%nclusterid.z", "%cluster_ctaid.x", "%cluster_ctaid.y",
    "%cluster_ctaid.z", "%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z", "%cluster_ctarank",
    "%cluster_nctarank", "%is_explicit_cluster", "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size",
    "%envreg1", "%envreg2", "%reserved_smem_offset_1", "%reserved_smem_offset_end",
    "%reserved_smem_offset_cap", "shared_base",
    // zero
    "%gridid", "%envreg0", "%reserved_smem_offset_0", "%reserved_smem_offset_begin", "%current_graph_exec",
    "%pm0", "%tid.w", "%ntid.w", "%ctaid.w", "%nctaid.w", "%clusterid.w", "%nclusterid.w", "%cluster_ctaid.w",
    "%cluster_nctaid.w"};
constexpr std::size_t kZeros = 14, kWide = 32 * 4, kNarrow = kWide + 32 * 8;
constexpr std::size_t kRow = kNarrow + 32 * 2;  // the 32-bit row, then the 64-bit one, then the 16-bit one

std::array<std::uint32_t, 9> lane_values(const Warp& w, std::uint32_t lane) {
  const Dim3& n = w.block->cluster->launch->launch->block;
  const std::uint32_t t = static_cast<std::uint32_t>(w.index) * 32 + lane, le = (2u << lane) - 1u,
                      lt = (1u << lane) - 1u;
  return {t % n.x, t / n.x % n.y, t / n.x / n.y, lane, 1u << lane, le, lt, ~lt, ~le};
}

auto block_values(const Warp& w) {
  const Block& b = *w.block;
  const Cluster& c = *b.cluster;
  const Launch& l = *c.launch->launch;
  const Dim3 &n = l.block, &at = b.id, &grid = l.grid, &cl = l.cluster;
  const std::uint64_t linear = at.x + std::uint64_t{grid.x} * (at.y + std::uint64_t{grid.y} * at.z);
  const auto warps = static_cast<std::uint32_t>(b.warps.size()), index = static_cast<std::uint32_t>(w.index),
             sm = static_cast<std::uint32_t>(linear % l.num_sms),
             blocks = static_cast<std::uint32_t>(cl.count());
  const std::uint32_t dynamic = l.dynamic_smem_bytes, total = dynamic + c.program->static_smem;
  const auto high = static_cast<std::uint32_t>(c.launch->grid_workspace >> 32),
             low = static_cast<std::uint32_t>(c.launch->grid_workspace);
  return std::array{n.x,
                    n.y,
                    n.z,
                    at.x,
                    at.y,
                    at.z,
                    grid.x,
                    grid.y,
                    grid.z,
                    index,
                    warps,
                    sm,
                    l.num_sms,
                    at.x / cl.x,
                    at.y / cl.y,
                    at.z / cl.z,
                    grid.x / cl.x,
                    grid.y / cl.y,
                    grid.z / cl.z,
                    b.rank % cl.x,
                    b.rank / cl.x % cl.y,
                    b.rank / cl.x / cl.y,
                    cl.x,
                    cl.y,
                    cl.z,
                    b.rank,
                    blocks,
                    blocks > 1 ? 1u : 0u,
                    dynamic,
                    total,
                    total,
                    high,
                    low,
                    kReservedOffset,
                    kSharedBase,
                    kSharedBase,
                    b.shared_address()};
}

}  // namespace

void fill_specials(Warp& w) {
  const auto shared = block_values(w);
  static_assert(std::tuple_size_v<decltype(lane_values(w, 0))> + shared.size() + kZeros == std::size(kNames));
  w.specials.assign(std::size(kNames) * kRow + 256, 0);
  const auto set = [&](std::size_t row, std::uint32_t lane, std::uint32_t value) {
    std::uint8_t* const at = w.specials.data() + row * kRow;
    const std::uint64_t wide = value;
    const auto narrow = static_cast<std::uint16_t>(value);
    std::memcpy(at + std::size_t{lane} * 4, &value, 4);
    std::memcpy(at + kWide + std::size_t{lane} * 8, &wide, 8);
    std::memcpy(at + kNarrow + std::size_t{lane} * 2, &narrow, 2);
  };
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const auto own = lane_values(w, lane);
    for (std::size_t i = 0; i < own.size(); ++i) set(i, lane, own[i]);
    for (std::size_t i = 0; i < shared.size(); ++i) set(own.size() + i, lane, shared[i]);
  }
}

Ref ptx::Decoder::special(std::string_view name, int size) {
  // The driver's. Two hold the address of the grid's workspace, the others are zero.
  const bool workspace = name == "%envreg1" || name == "%envreg2";
  program.uses_grid_workspace |= workspace;
  program.uses_reserved_smem |= name == "%reserved_smem_offset_1";
  if (name.starts_with("%envreg") && !workspace) name = "%envreg0";
  if (name.starts_with("%pm")) name = "%pm0";  // performance monitors that nobody has set up
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) {
      if (size == 4) return static_cast<Ref>(i * kRow) | kSpecial;
      if (size == 8) return static_cast<Ref>(i * kRow + kWide) | kSpecial;
      if (size == 2) return static_cast<Ref>(i * kRow + kNarrow) | kSpecial;
      fail("special register of the wrong size in");
    }
  fail("unknown special register " + std::string(name) + " in");
}

}  // namespace kiln::emulator
