// What loads, stores and atomics share.
#pragma once

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {

/// op.a/asize: address row. Frame-relative for the parameters and locals of functions.
std::uint64_t lane_address(const Warp& w, const Op& op, int lane);
/// Elements that each lane loads, stores or updates: 1, those of a vector, or the two halves of 128 bits.
std::size_t element_count(const Decoder& d);
/// .acquire, .release, .acq_rel and the scope as flags of an Op.
std::uint16_t order_flags(Decoder& d);
/// Strong accesses of global memory: before a write, after a read. Within the block each of them orders;
/// between blocks as the memory model says.
/// `old`: of a store the `bytes` that it will overwrite.
void publish_global(Warp& w, const Op& op, int lane, std::uint64_t address, bool continues,
                    const std::uint8_t* old = nullptr, std::uint32_t bytes = 0);
void observe_global(Warp& w, const Op& op, std::uint32_t lanes, std::uint64_t address);
/// The same of shared memory, at once.
void strong_shared(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset, std::uint32_t bytes,
                   bool reads, bool writes);

}  // namespace kiln::emulator::ptx
