#include "generator/schedules/common/sm100_elements.hpp"

#include <fmt/format.h>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/systems/sm100/row_softmax.hpp"

namespace kiln::sm100 {
namespace {

class HalfElements final : public Elements {
 public:
  using Elements::Elements;
  const char* kind() const override { return "kind::f16"; }
  void use(Prelude& prelude, bool pair) const override {
    prelude.use(pair ? "tcgen05_mma_pair" : "tcgen05_mma");
    prelude.use(pack());
  }
  const char* store() const override { return "store_two_rows"; }
  std::string stored() const override { return fmt::format("{}(s_acc[r], s_acc[r + 1])", pack()); }
  const char* exponentials() const override { return "exponentials"; }
  const char* probabilities() const override { return "probabilities"; }
  const char* pack() const override { return pack_name(type_); }
};

class ByteElements final : public Elements {
 public:
  using Elements::Elements;
  const char* kind() const override { return "kind::f8f6f4"; }
  void use(Prelude& prelude, bool pair) const override {
    for (const char* section : {"byte_type", pair ? "tcgen05_mma_e4m3_pair" : "tcgen05_mma_e4m3"})
      prelude.use(section);
    if (pair) prelude.use(pack());
  }
  const char* store() const override { return "store_two_rows_e4m3"; }
  std::string stored() const override { return "s_acc[r], s_acc[r + 1]"; }
  const char* exponentials() const override { return "exponentials_e4m3"; }
  const char* probabilities() const override { return "probabilities_e4m3"; }
  const char* pack() const override { return "pack_e4m3"; }
  int top() const override { return RowSoftmax::kTop; }
  int threshold() const override { return RowSoftmax::kBytesThreshold; }
};

}  // namespace

void resolve_spans(Config& c, const MultipliedType& type, std::string_view schedule, const Refusals& refuse) {
  if (c.swizzle && swizzle_bytes(c) != type.span_bytes())
    refuse("V20", {"/swizzle"},
           fmt::format("{} tiles rows into swizzle spans of {} columns", schedule, kSpanColumns),
           fmt::format("{}B", type.span_bytes()));
  c.swizzle = type.fp8 ? SwizzleMode::b64 : SwizzleMode::b128;
}

std::string Elements::top_shift() const {
  return top() > 0 ? fmt::format(" - {:.9g}f", top() * 0.693147180559945) : "";
}

void Elements::add_holes(Holes& holes, int rows, int depth, int padded_depth) const {
  const int chunks = span_bytes() / 16, of_row = padded_depth * bytes() / 16;
  const int pieces = rows * of_row, rounds = ceil_div(pieces, 128);
  // Chunk c of row r lies at chunk c ^ its swap.
  const auto swap = [&](const char* row) {
    return fmt::format(fmt::runtime(chunks == 8 ? "{} % 8" : "{} / 2 % 4"), row);
  };
  holes.text("swap", swap("r")).text("next_swap", swap("(r + 1)")).text("row_swap", swap("row"));
  holes.number("row_bytes", span_bytes()).number("row_chunks", chunks);
  holes.number("q_chunks", of_row).number("q_rounds", rounds);
  holes.text("q_end", rounds * 128 > pieces ? fmt::format("if (i >= {}) break;\n", pieces) : "");
  holes.text("q_real", padded_depth == depth ? "" : fmt::format(" && c < {}", depth * bytes() / 16));
  holes.text("p_value", stored()).text("pack", pack()).number("threshold", threshold());
  holes.number("top", top());
  holes.text("base_note",
             top() > 0
                 ? fmt::format("// P is up to 2^{}: what is small stays far above the least E4M3.\n", top())
                 : "");
  holes.text("base_shift", top() > 0 ? fmt::format(" - {}.0f", top()) : "");
}

std::unique_ptr<const Elements> elements_of(DType math) {
  if (size_of(math) == 1) return std::make_unique<ByteElements>(math);
  return std::make_unique<HalfElements>(math);
}

}  // namespace kiln::sm100
