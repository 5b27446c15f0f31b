// The type of Q, K, V and P in kernels over packed rows of sm_100a as the tensor cores read them, in swizzle spans of 64
// columns: 16 bits, or E4M3.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <kiln/types.hpp>

#include "generator/config/unsupported.hpp"
#include "generator/emit/prelude.hpp"
#include "generator/emit/text_template.hpp"

namespace kiln::sm100 {

/// Columns of a swizzle span.
inline constexpr int kSpanColumns = 64;

/// What follows from the type in a plan, before its texts are made.
struct MultipliedType {
  bool fp8 = false;  ///< Q, K, V and P are E4M3, as they come
  int element_bytes() const { return fp8 ? 1 : 2; }
  int span_bytes() const { return kSpanColumns * element_bytes(); }
  int step_columns() const { return 32 / element_bytes(); }  ///< of a matrix instruction's contraction
};
/// Refuses a swizzle of other spans, and sets that of these.
void resolve_spans(Config& config, const MultipliedType& type, std::string_view schedule,
                   const Refusals& refuse);

class Elements {
 public:
  explicit Elements(DType type) : type_(type) {}
  virtual ~Elements() = default;
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  virtual const char* kind() const = 0;  ///< of tcgen05.mma
  /// Sections of the prelude: the products of one block (`pair`: of two), and what packs P.
  virtual void use(Prelude& prelude, bool pair) const = 0;
  /// Sections of sm100_decode.cuh with `store_two_rows`, and what that is given of two scores; of sm100_prefill.cuh with
  /// `exponentials`, and of sm100_latent_pair.cuh with a row's scores on their way to P.
  virtual const char* store() const = 0;
  virtual std::string stored() const = 0;
  virtual const char* exponentials() const = 0;
  virtual const char* probabilities() const = 0;
  /// Emitted name that packs scores: two of 16 bits, four of E4M3.
  virtual const char* pack() const = 0;

  int bytes() const { return static_cast<int>(size_of(type_)); }
  int span_bytes() const { return kSpanColumns * bytes(); }
  /// What P is larger by than 2^(S - maximum), and powers of two by which a maximum may grow while the old one stays.
  virtual int top() const { return 0; }
  virtual int threshold() const { return 8; }
  /// Emitted: what the natural logarithm of a row's sum is too large by.
  std::string top_shift() const;

  /// Holes of a tile of Q of `rows` rows, of which `depth` columns of `padded_depth` are there, in rounds of 128 pieces of
  /// 16 bytes (`q_chunks` a row); of P's rows (`row_bytes`, `row_chunks`, `swap`); and of the above.
  void add_holes(Holes& holes, int rows, int depth, int padded_depth) const;

 protected:
  DType type_;
};

/// Of the type that is multiplied.
std::unique_ptr<const Elements> elements_of(DType math);

}  // namespace kiln::sm100
