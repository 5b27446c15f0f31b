#include "emulator/ptx/assert.hpp"

#include <bit>
#include <cstring>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator::ptx {
namespace {

std::uint64_t parameter(const Warp& w, int lane, std::uint32_t at, std::size_t bytes) {
  std::uint64_t v = 0;
  const std::size_t frame = static_cast<std::size_t>(lane) * w.local_bytes + w.frame->local;
  std::memcpy(&v, w.local.data() + frame + at, bytes);
  return v;
}

/// A string in global memory, which is where nvcc has them.
std::string string_at(const Warp& w, std::uint64_t address) {
  const GlobalMemory::Impl& m = *w.block->cluster->launch->memory;
  std::string out;
  for (; out.size() < 300 && m.contains(address, 1) && *m.at(address) != 0; ++address)
    out += static_cast<char>(*m.at(address));
  return out;
}

}  // namespace

void run_assertfail(Warp& w, const Op& op) {
  const int l = std::countr_zero(w.exec);
  report(w, op, l, "trap",
         "assertion '" + string_at(w, parameter(w, l, op.a, 8)) + "' failed (" +
             string_at(w, parameter(w, l, op.b, 8)) + ":" + std::to_string(parameter(w, l, op.c, 4)) + ")");
  abort_cluster(*w.block->cluster);
}

}  // namespace kiln::emulator::ptx
