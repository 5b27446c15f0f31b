// What the rest of the machine asks of the tensor cores.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln::emulator {
struct Cluster;
struct Wait;
struct Warp;
struct Block;
}  // namespace kiln::emulator

namespace kiln::emulator::tcgen05 {

/// Tensor memory and pipes of a cluster whose program uses them.
void attach(Cluster& c);
/// A register that tcgen05.ld still writes is about to be used: the load is complete then.
void complete_load_of(Warp& w, std::uint32_t state);
/// The lanes that are left of a warp exit; the last warp of a block does.
void warp_ended(Warp& w);
void block_ended(Warp& last);
/// Whether a warp that waits for tensor memory may try again.
bool may_allocate(const Wait& wait);

bool anything_pending(const Cluster& c);
/// The newest commit whose mbarrier `awaited(offset, block)` says somebody waits for: its number; 0: none.
std::uint64_t newest_awaited(const Cluster& c, const std::vector<const Wait*>& waits);
/// Runs the pipe of the commit with that number up to it.
void complete_up_to(Cluster& c, std::uint64_t issued);
/// Runs some instruction under way: the oldest of a pipe, or (at random) one that nothing before it touches.
bool complete_one(Cluster& c, bool at_random);

}  // namespace kiln::emulator::tcgen05
