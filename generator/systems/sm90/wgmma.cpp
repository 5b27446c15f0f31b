#include "generator/systems/sm90/wgmma.hpp"

#include <fmt/format.h>

#include "generator/emit/writer.hpp"
#include "generator/layout/tma.hpp"
#include "generator/layout/wgmma.hpp"

namespace kiln::sm90 {
namespace {

DescriptorFields fields_of(const layout::SmemDescriptor& descriptor) {
  const auto bits = descriptor.encode();
  return {static_cast<unsigned>(bits), static_cast<unsigned>(bits >> 32)};
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

/// The accumulators' places in the instruction's text, sixteen a line.
void emit_accumulators(Writer& w, int count) {
  for (int i = 0; i < count; i += 16) {
    std::string list;
    for (int j = i; j < std::min(i + 16, count); ++j)
      list += fmt::format("%{}{}", j, j + 1 < count ? ", " : "");
    w.line("    \"{}\"", list);
  }
}

/// The output operands of the assembly, eight a line: `access` is '=' for written, '+' for read and written.
void emit_outputs(Writer& w, int count, char access) {
  for (int i = 0; i < count; i += 8) {
    std::string list;
    for (int j = i; j < std::min(i + 8, count); ++j)
      list += fmt::format("{}\"{}f\"(d[{}])", j > i ? ", " : "", access, j);
    w.line("    {}{}{}", i == 0 ? ": " : "  ", list, i + 8 < count ? "," : "");
  }
}

}  // namespace

DescriptorFields k_major_descriptor(const SmemTile& tile) {
  return fields_of(layout::k_major_descriptor(tile.mode(), 0, tile.rows, tile.fold));
}

DescriptorFields mn_major_descriptor(const SmemTile& tile) {
  return fields_of(*layout::mn_major_descriptor(tile.mode(), 0, tile.rows, tile.fold));
}

std::string descriptor_base(const std::string& address, int cluster) {
  if (cluster > 1) return fmt::format("((({}) & 0x3ffff) >> 4)", address);
  const bool sum = address.find(' ') != std::string::npos;
  return sum ? fmt::format("(({}) >> 4)", address) : fmt::format("({} >> 4)", address);
}

int k_major_step(const SmemTile& tile, int step) {
  return layout::k_major_step_bytes(tile.mode(), step, tile.rows, tile.fold) >> 4;
}

int mn_major_step(const SmemTile& tile, int step) {
  return layout::mn_major_step_bytes(tile.mode(), step, tile.fold) >> 4;
}

std::vector<layout::Proof> operand_proofs(const std::string& name, const SmemTile& tile, int columns,
                                          bool mn_major) {
  const auto swizzle = layout::byte_swizzle(tile.mode());
  const auto map = [&](int row, int column) {
    return layout::panel_tile_byte(row, column, tile.rows, tile.element_bytes, tile.span_bytes, swizzle,
                                   tile.fold);
  };
  // The copy engine fills every byte of the tile once.
  std::vector<bool> written(static_cast<std::size_t>(tile.rows * columns));
  bool bijective = true;
  for (int row = 0; row < tile.rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      const auto element = map(row, column) / static_cast<unsigned>(tile.element_bytes);
      if (element >= written.size() || written[element])
        bijective = false;
      else
        written[element] = true;
    }
  }
  // Every contraction step's descriptor finds the elements where the copy engine put them.
  const int step_elements = 32 / tile.element_bytes;
  const int steps = (mn_major ? tile.rows : columns) / step_elements;
  bool agree = true;
  for (int step = 0; step < steps; ++step) {
    for (int mn = 0; mn < (mn_major ? columns : tile.rows); ++mn) {
      for (int k = 0; k < step_elements; ++k) {
        const int contraction = step * step_elements + k;
        if (mn_major) {
          const auto d = *layout::mn_major_descriptor(
              tile.mode(), static_cast<unsigned>(layout::mn_major_step_bytes(tile.mode(), step, tile.fold)),
              tile.rows, tile.fold);
          agree &= layout::mn_major_address(d, mn, k, tile.element_bytes) == map(contraction, mn);
        } else {
          const auto d = layout::k_major_descriptor(
              tile.mode(),
              static_cast<unsigned>(layout::k_major_step_bytes(tile.mode(), step, tile.rows, tile.fold)),
              tile.rows, tile.fold);
          agree &= layout::k_major_address(d, mn, k, tile.element_bytes) == map(mn, contraction);
        }
      }
    }
  }
  return {{name + ": tensor copy fills every byte once", bijective, 0},
          {name + ": wgmma descriptors read what the tensor copy wrote", agree, 0}};
}

Wgmma::Wgmma(DType dtype, int n, A a, bool b_mn_major, bool a_mn_major)
    : dtype_(dtype), n_(n), a_(a), b_mn_major_(b_mn_major), a_mn_major_(a_mn_major) {}

std::string Wgmma::name(bool first) const {
  return fmt::format("wgmma_m64n{}k{}{}_{}{}{}", n_, k(), names_type_ ? "_" + ptx_type(dtype_) : "",
                     a_ == A::smem ? "ss" : "rs", a_mn_major_ ? "_ta" : "", first ? "_first" : "");
}

void Wgmma::add_to(Prelude& prelude, bool first) const {
  prelude.use("wgmma_sync");
  prelude.use("descriptor");
  const int d_regs = n_ / 2;
  const int a_operands = a_ == A::smem ? 1 : 4;
  Writer w;
  const std::string type = ptx_type(dtype_);
  w.comment("d {}= A (64 x {}, {}) * B ({} x {}, {}) in {}.", first ? "" : "+", k(),
            a_ != A::smem ? "registers"
            : a_mn_major_ ? "shared memory, M contiguous"
                          : "shared memory",
            k(), n_, b_mn_major_ ? "N contiguous" : "K contiguous", type);
  w.open("__device__ __forceinline__ void {}(float (&d)[{}], {}, u64 b)", name(first), d_regs,
         a_ == A::smem ? "u64 a" : "u32 a0, u32 a1, u32 a2, u32 a3");
  w.line("asm volatile(");
  w.line("    \"wgmma.mma_async.sync.aligned.m64n{}k{}.f32.{}.{} {{\"", n_, k(), type, type);
  emit_accumulators(w, d_regs);
  std::string a_text, tail;
  if (a_ == A::smem) {
    a_text = fmt::format("%{}", d_regs);
  } else {
    a_text = fmt::format("{{%{}, %{}, %{}, %{}}}", d_regs, d_regs + 1, d_regs + 2, d_regs + 3);
  }
  // Immediates: accumulate, scale A, scale B, then the transpose bits (16-bit types): A's only when it is in
  // SMEM.
  if (!is_fp8(dtype_))
    tail = a_ == A::smem ? fmt::format(", {}, {}", a_mn_major_ ? 1 : 0, b_mn_major_ ? 1 : 0)
                         : fmt::format(", {}", b_mn_major_ ? 1 : 0);
  w.line("    \"}}, {}, %{}, {}, 1, 1{};\\n\"", a_text, d_regs + a_operands, first ? 0 : 1, tail);
  // The first step only writes d: what it held before need not live until then.
  emit_outputs(w, d_regs, first ? '=' : '+');
  w.line("    : {}, \"l\"(b));", a_ == A::smem ? "\"l\"(a)" : "\"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3)");
  w.close();
  prelude.add(name(first), w.take());
}

}  // namespace kiln::sm90
