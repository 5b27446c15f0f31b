#include "generator/systems/sm90/wgmma.hpp"

#include <fmt/format.h>

#include "generator/emit/writer.hpp"

namespace kiln::sm90 {
namespace {

// Layout field of the descriptor, bits 62-63.
unsigned layout_bits(int span_bytes) {
  return (span_bytes == 128 ? 1u : span_bytes == 64 ? 2u : 3u) << 30;
}

std::string ptx_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "f16";
    default:
      return "e4m3";
  }
}

}  // namespace

DescriptorFields k_major_descriptor(const SmemTile& tile) {
  const unsigned sbo = static_cast<unsigned>(8 * tile.span_bytes) >> 4;  // next group of 8 rows
  return {1u << 16, layout_bits(tile.span_bytes) | sbo};  // LBO is ignored in swizzled K-major modes
}

DescriptorFields mn_major_descriptor(const SmemTile& tile) {
  const unsigned lbo = static_cast<unsigned>(tile.panel_bytes()) >> 4;  // next panel along N
  const unsigned sbo =
      static_cast<unsigned>(8 * tile.span_bytes) >> 4;  // next group of 8 rows of the contraction
  return {lbo << 16, layout_bits(tile.span_bytes) | sbo};
}

int k_major_step(const SmemTile& tile, int step) {
  const int steps_per_panel = tile.span_bytes / 32;  // one step is 32 bytes of the contraction
  return (step % steps_per_panel) * 2 + (step / steps_per_panel) * (tile.panel_bytes() >> 4);
}

int mn_major_step(const SmemTile& tile, int step) {
  return step * ((16 * tile.span_bytes) >> 4);
}

Wgmma::Wgmma(DType dtype, int n, A a, bool b_mn_major)
    : dtype_(dtype), n_(n), a_(a), b_mn_major_(b_mn_major) {}

std::string Wgmma::name(bool first) const {
  return fmt::format("wgmma_m64n{}k{}_{}{}", n_, k(), a_ == A::smem ? "ss" : "rs", first ? "_first" : "");
}

void Wgmma::add_to(Prelude& prelude, bool first) const {
  prelude.use("wgmma_sync");
  prelude.use("descriptor");
  const int d_regs = n_ / 2;
  const int a_operands = a_ == A::smem ? 1 : 4;
  Writer w;
  const std::string type = ptx_type(dtype_);
  w.comment("d {}= A (64 x {}, {}) * B ({} x {}, {}) in {}.", first ? "" : "+", k(),
            a_ == A::smem ? "shared memory" : "registers", k(), n_,
            b_mn_major_ ? "N contiguous" : "K contiguous", type);
  w.open("__device__ __forceinline__ void {}(float (&d)[{}], {}, u64 b)", name(first), d_regs,
         a_ == A::smem ? "u64 a" : "u32 a0, u32 a1, u32 a2, u32 a3");
  w.line("asm volatile(");
  w.line("    \"wgmma.mma_async.sync.aligned.m64n{}k{}.f32.{}.{} {{\"", n_, k(), type, type);
  for (int i = 0; i < d_regs; i += 16) {
    std::string list;
    for (int j = i; j < std::min(i + 16, d_regs); ++j)
      list += fmt::format("%{}{}", j, j + 1 < d_regs ? ", " : "");
    w.line("    \"{}\"", list);
  }
  std::string a_text, tail;
  if (a_ == A::smem) {
    a_text = fmt::format("%{}", d_regs);
  } else {
    a_text = fmt::format("{{%{}, %{}, %{}, %{}}}", d_regs, d_regs + 1, d_regs + 2, d_regs + 3);
  }
  // Immediates: accumulate, scale A, scale B, then the transpose bits (16-bit types): A's only when it is in
  // SMEM.
  if (!is_fp8(dtype_))
    tail = a_ == A::smem ? fmt::format(", 0, {}", b_mn_major_ ? 1 : 0)
                         : fmt::format(", {}", b_mn_major_ ? 1 : 0);
  w.line("    \"}}, {}, %{}, {}, 1, 1{};\\n\"", a_text, d_regs + a_operands, first ? 0 : 1, tail);
  for (int i = 0; i < d_regs; i += 8) {
    std::string list;
    for (int j = i; j < std::min(i + 8, d_regs); ++j)
      list += fmt::format("\"+f\"(d[{}]){}", j, j + 1 < d_regs ? ", " : "");
    w.line("    {}{}", i == 0 ? ": " : "  ", list);
  }
  w.line("    : {}, \"l\"(b));", a_ == A::smem ? "\"l\"(a)" : "\"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3)");
  w.close();
  prelude.add(name(first), w.take());
}

}  // namespace kiln::sm90
