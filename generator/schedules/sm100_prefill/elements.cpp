// The type of Q, K, V and P of sm100_prefill: 16 bits, or E4M3.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

class HalfElements final : public Elements {
 public:
  using Elements::Elements;
  const char* mma() const override { return "tcgen05_mma"; }
  const char* kind() const override { return "kind::f16"; }
  const char* pack() const override { return pack_name(p_.config.dtype); }
  const char* exponentials() const override { return "exponentials"; }
  int l2_promotion() const override { return 256; }
};

class ByteElements final : public Elements {
 public:
  using Elements::Elements;
  const char* mma() const override { return "tcgen05_mma_e4m3"; }
  const char* kind() const override { return "kind::f8f6f4"; }
  const char* pack() const override { return "pack_e4m3"; }
  const char* exponentials() const override { return "exponentials_e4m3"; }
  int l2_promotion() const override { return 128; }
  void emit_shift(Writer& w) const override { w.line("shift -= {}.0f;", RowSoftmax::kTop); }
  std::string top() const override { return fmt::format(" - {:.9g}f", RowSoftmax::kTop * 0.693147180559945); }
};

}  // namespace

std::unique_ptr<const Elements> elements_of(const Parts& parts) {
  if (parts.plan.fp8) return std::make_unique<ByteElements>(parts);
  return std::make_unique<HalfElements>(parts);
}

}  // namespace kiln::sm100::prefill
