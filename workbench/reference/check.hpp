// Is a kernel's result right? Errors against the float64 reference, per request and in all, and whether every
// element was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "workbench/reference/reference.hpp"

namespace kiln {

/// Outputs are filled with this byte before a launch: a NaN in every type that no instruction produces by
/// itself.
constexpr std::byte kPoison{0xff};

/// Elements of `size` bytes that still are all poison.
std::uint64_t count_unwritten(std::span<const std::byte> bytes, std::size_t size);

/// How far a right kernel of these types may be off.
struct Tolerance {
  double rel = 0;  ///< ||O - ref|| / ||ref|| of the whole problem (Frobenius); a request may have twice, a
                   ///< row ten times that
  double lse = 0;  ///< largest |LSE - ref|
  /// FP8 matrix instructions of sm_90a keep about 14 bits of a sum, so a log-sum-exp beyond 16 may be off in
  /// proportion: |LSE - ref| counts divided by |ref| / 16 there.
  bool coarse_sums = false;
  /// Elements of O below this are subnormal, or factors of them were flushed: errors of requests of nothing
  /// else are relative to it. A sink far above every score makes such rows.
  double least = 0;
};
Tolerance tolerance_of(const Config& resolved);

struct Errors {
  double rel_err = 0, max_abs_err = 0;
  double lse_err = 0;  ///< infinity when only one of the two is -inf, or on NaN
  double worst_row =
      0;  ///< largest relative error of one row (against at least a tenth of the mean row norm)
  std::int64_t rows = 0;  ///< compared
};

/// A kernel's output on the host: O as [total_q, heads_q, ov_depth], LSE as [total_q, heads_q] or empty.
struct Output {
  std::vector<float> o, lse;
  std::uint64_t unwritten = 0;  ///< elements of O and LSE that the kernel never wrote
};

struct CheckReport {
  Errors all;
  std::vector<Errors> requests;  ///< one per request
  std::int64_t rows_total = 0;
  std::uint64_t not_finite =
      0;  ///< elements of O, compared or not, that are NaN or infinite though the inputs are not
  std::vector<std::string> failures;  ///< one line each; empty: the check passed
  bool passed() const { return failures.empty(); }
};

CheckReport check_output(const Workload& work, const Output& output, const Reference& reference,
                         const Tolerance& tolerance);

}  // namespace kiln
