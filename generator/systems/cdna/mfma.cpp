#include "generator/systems/cdna/mfma.hpp"

#include <fmt/format.h>

namespace kiln::cdna {

std::string Mfma::wrapper() const {
  // The encoding of FP8 is the target's.
  return fmt::format("mfma_{}x{}x{}_{}", shape.m, shape.n, shape.k, is_fp8(type) ? "fp8" : to_string(type));
}

ScoreLayout Mfma::score_layout(int tiles) const {
  ScoreLayout layout;
  layout.registers = tiles * accum();
  layout.rows = 1;
  layout.columns = tiles * shape.m;
  layout.lane_column = fmt::format("lane / {} * 4", shape.m);
  layout.row = [](int) { return 0; };
  layout.column = [self = *this](int i) {
    return i / self.accum() * self.shape.m + self.row(i % self.accum());
  };
  layout.vector = accum();
  return layout;
}

std::string Mfma::mnemonic() const {
  // CDNA2 writes types without a separator, and the BF16 instructions of four elements with a suffix.
  const bool old = target == Target::gfx90a;
  const std::string size = fmt::format("v_mfma_f32_{}x{}x{}", shape.m, shape.n, shape.k);
  if (is_fp8(type)) return size + (frag() == 32 ? "_f8f6f4" : "_fp8_fp8");
  if (type == DType::bf16) return size + (old ? "bf16_1k" : "_bf16");
  return size + (old ? "f16" : "_f16");
}

}  // namespace kiln::cdna
