// Loads and stores of a warp as a whole: the common case, in which every lane's memory is there, written and without
// an mbarrier, takes no detour through the places of single lanes. And the counters of memory accesses.
#pragma once

#include "emulator/machine/machine.hpp"

namespace kiln::emulator::ptx {

/// The addresses of the executing lanes, the offset counted in.
void lane_addresses(const Warp& w, const Op& op, std::uint64_t* address);
/// Finds the memory of all lanes of a weak load or store of shared or global memory and tells the race trackers.
/// False, with nothing done, when some lane needs a closer look (or the space is another).
bool plain_places(Warp& w, const Op& op, std::uint32_t bytes, bool write, const std::uint64_t* address,
                  std::uint8_t** data, std::uint8_t** shadow);
/// The same of relaxed atomics on shared memory.
bool plain_atomics(Warp& w, const Op& op, std::uint32_t bytes, const std::uint64_t* address,
                   std::uint8_t** data);
/// Whether a store would leave the bytes as they are; whether two lanes store the same.
bool stores_the_same(const Warp& w, const Op& op, int lane, const std::uint8_t* data);
bool stores_alike(const Warp& w, const Op& op, int a, int b);

/// Bank conflicts of `mask` lanes, and sectors of global memory.
void count_shared(Cluster& c, const std::uint64_t* address, std::uint32_t mask, std::uint32_t bytes);
/// The same of `matrices` of 8 rows of 16 bytes: eight rows make one pass when they meet all 32 banks.
void count_rows(Cluster& c, const std::uint64_t* address, int matrices);
void count_global(Cluster& c, const std::uint64_t* address, std::uint32_t mask, std::uint32_t bytes,
                  bool store);

/// Whether bytes were written, by their shadow.
bool all_written(const std::uint8_t* shadow, std::uint32_t bytes);
/// `rows` (at most 32, lane by lane) of 16 bytes of the block's own shared memory, read by ldmatrix and the like: the
/// same as plain_places.
bool plain_rows(Warp& w, const Op& op, int rows, const std::uint64_t* address, const std::uint8_t** data);

}  // namespace kiln::emulator::ptx
