// Norms are accumulated in double over rows of the reference; rows not in the reference are only looked at
// for NaNs.
#include "workbench/reference/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace kiln {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sums from which the relative errors of a set of rows follow.
struct Sums {
  double error = 0, norm = 0;
  Errors errors;

  void add(const Sums& row) {
    error += row.error;
    norm += row.norm;
    errors.rows += row.errors.rows;
    // NaN must win every comparison, or a kernel that yields nothing but NaN passes.
    const auto worse = [](double a, double b) { return std::isnan(b) || b > a ? b : a; };
    errors.max_abs_err = std::isnan(errors.max_abs_err) ? errors.max_abs_err
                                                        : worse(errors.max_abs_err, row.errors.max_abs_err);
    errors.lse_err = std::isnan(errors.lse_err) ? errors.lse_err : worse(errors.lse_err, row.errors.lse_err);
    errors.worst_row =
        std::isnan(errors.worst_row) ? errors.worst_row : worse(errors.worst_row, row.errors.worst_row);
  }
  /// `least`: the norm of a row of the smallest elements that O's type and what leads to it hold in full.
  Errors finish(double least) {
    // Nothing to be relative to (every row empty): any error at all is infinitely large.
    const double scale = std::max(norm, least * static_cast<double>(errors.rows));
    errors.rel_err = norm > 0 ? std::sqrt(error / scale) : (error == 0 ? 0 : kInfinity);
    return errors;
  }
};

/// |got - wanted|, where infinities and NaN are what they are or infinitely wrong.
double distance(float got, double wanted) {
  if (std::isnan(wanted)) return std::isnan(got) ? 0 : kInfinity;
  if (std::isinf(wanted)) return static_cast<double>(got) == wanted ? 0 : kInfinity;
  return std::fabs(static_cast<double>(got) - wanted);
}

double lse_error(float got, double wanted, double slack, const Tolerance& tolerance) {
  // NaN of a wrong result stays; the last bit of a float is no error.
  double error = distance(got, wanted);
  if (std::isfinite(wanted)) error = error <= slack + 0x1p-23 * std::fabs(wanted) ? 0 : error - slack;
  return tolerance.coarse_sums ? error / std::max(1.0, std::fabs(wanted) / 16) : error;
}

std::string number(double value) {
  return fmt::format("{:.3g}", value);
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

/// Where a row of the reference lies in the output.
std::size_t output_row(const ProblemShape& shape, const std::vector<std::int64_t>& first_q, const RowId& id) {
  return static_cast<std::size_t>((first_q[static_cast<std::size_t>(id.request)] + id.row) * shape.heads_q +
                                  id.head);
}

/// Mean square norm of the reference's rows, infinities and NaN left out.
double mean_row_norm(const Reference& reference) {
  double norm = 0;
  for (const double value : reference.o) norm += std::isfinite(value) ? value * value : 0;
  return norm / std::max<double>(1, static_cast<double>(reference.rows.size()));
}

/// Square norm of a row of the smallest elements that O's type and what leads to it hold in full.
double least_norm(std::size_t depth, const Tolerance& tolerance) {
  return static_cast<double>(depth) * tolerance.least * tolerance.least;
}

/// Sums of row `i` of the reference, which is row `row` of the output.
Sums row_sums(const Output& output, const Reference& reference, std::size_t i, std::size_t row,
              std::size_t depth, double mean_norm, const Tolerance& tolerance) {
  Sums sums;
  sums.errors.rows = 1;
  const unsigned overflow = reference.overflow.empty() ? 0 : reference.overflow[i];
  for (std::size_t d = 0; d < depth; ++d) {
    const double wanted = reference.o[i * depth + d];
    // The weight of an infinity may have become 0 in the kernel.
    const float got = output.o[row * depth + d];
    const bool excused = overflow != 0 ? !std::isfinite(got) : std::isinf(wanted) && std::isnan(got);
    const double error = excused ? 0 : distance(got, wanted);
    sums.error += error * error;
    if (std::isfinite(wanted)) sums.norm += wanted * wanted;
    sums.errors.max_abs_err =
        std::isnan(error) || error > sums.errors.max_abs_err ? error : sums.errors.max_abs_err;
  }
  if (!reference.o_slack.empty() && reference.o_slack[i] > 0) {
    const double over = std::sqrt(sums.error) - reference.o_slack[i];
    sums.error = over <= 0 ? 0 : over * over;  // NaN stays
  }
  const double scale = std::max({sums.norm, 0.01 * mean_norm, least_norm(depth, tolerance)});
  sums.errors.worst_row = sums.error == 0 ? 0 : std::sqrt(sums.error / scale);
  if (!output.lse.empty() && (overflow & Reference::kOfScores) == 0)
    sums.errors.lse_err = lse_error(output.lse[row], reference.lse[i],
                                    reference.lse_slack.empty() ? 0 : reference.lse_slack[i], tolerance);
  return sums;
}

/// Adds what is over the tolerance. Written as "not below" so that NaN fails.
void add_failures(CheckReport& report, const Tolerance& tolerance) {
  const auto fail = [&report](std::string what, double value, double limit) {
    report.failures.push_back(std::move(what) + " " + number(value) + " is over " + number(limit));
  };
  if (!(report.all.rel_err <= tolerance.rel)) fail("relative error", report.all.rel_err, tolerance.rel);
  for (std::size_t b = 0; b < report.requests.size(); ++b) {
    const Errors& errors = report.requests[b];
    const std::string request = "request " + std::to_string(b) + ": ";
    if (!(errors.rel_err <= 2 * tolerance.rel)) {
      fail(request + "relative error", errors.rel_err, 2 * tolerance.rel);
    } else if (!(errors.worst_row <= 10 * tolerance.rel)) {
      fail(request + "relative error of one row", errors.worst_row, 10 * tolerance.rel);
    }
    if (!(errors.lse_err <= tolerance.lse)) fail(request + "LSE error", errors.lse_err, tolerance.lse);
  }
}

}  // namespace

std::uint64_t count_unwritten(std::span<const std::byte> bytes, std::size_t size) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i + size <= bytes.size(); i += size) {
    const auto element = bytes.subspan(i, size);
    count += std::all_of(element.begin(), element.end(), [](std::byte b) { return b == kPoison; }) ? 1 : 0;
  }
  return count;
}

Tolerance tolerance_of(const Config& resolved) {
  const DType out = resolved.out_dtype.value_or(resolved.dtype);
  // P is rounded to the input type before P V, O to the output type: about 1.2 units of 2^-mantissa each, and
  // a margin of two. 8-bit K and V under a wider Q are exact in its type: they cost nothing.
  const bool coarse_sums = is_fp8(resolved.dtype) && resolved.target == Target::sm_90a;
  const double least = out == DType::fp16 ? 0x1p-14 : 0x1p-120;
  // Partial sums may be larger than the score that is left: the H200 was off by 0.021 in one of 30,720 rows.
  const double lse = coarse_sums ? 4e-2 : 2e-2;
  if (is_fp8(resolved.dtype) || is_fp8(out)) return {4e-2, lse, coarse_sums, least};
  if (resolved.dtype == DType::bf16 || out == DType::bf16) return {4e-3, 1e-3, false, least};
  return {1e-3, 1e-3, false, least};
}

CheckReport check_output(const Workload& work, const Output& output, const Reference& reference,
                         const Tolerance& tolerance) {
  const ProblemShape& shape = work.shape;
  const auto depth = static_cast<std::size_t>(shape.ov_depth);
  const std::vector<std::int64_t> first_q = shape.offsets_q();
  CheckReport report;
  report.rows_total = shape.total_q() * shape.heads_q;

  const double mean_norm = mean_row_norm(reference);
  Sums all;
  std::vector<Sums> requests(shape.lengths_q.size());
  for (std::size_t i = 0; i < reference.rows.size(); ++i) {
    const RowId& id = reference.rows[i];
    const Sums sums =
        row_sums(output, reference, i, output_row(shape, first_q, id), depth, mean_norm, tolerance);
    all.add(sums);
    requests[static_cast<std::size_t>(id.request)].add(sums);
  }
  const double least = least_norm(depth, tolerance);
  report.all = all.finish(least);
  for (Sums& request : requests) report.requests.push_back(request.finish(least));

  if (output.unwritten > 0)
    report.failures.push_back(std::to_string(output.unwritten) + " output elements were never written");
  add_failures(report, tolerance);
  const bool finite =
      std::all_of(reference.o.begin(), reference.o.end(), [](double x) { return std::isfinite(x); });
  const bool overflow =
      std::any_of(reference.overflow.begin(), reference.overflow.end(), [](auto x) { return x != 0; });
  if (finite && !overflow && all_finite(work.q) && all_finite(work.k) && all_finite(work.v)) {
    report.not_finite = static_cast<std::uint64_t>(
        std::count_if(output.o.begin(), output.o.end(), [](float x) { return !std::isfinite(x); }));
    if (report.not_finite > 0)
      report.failures.push_back(std::to_string(report.not_finite) + " output elements are NaN or infinite");
  }
  return report;
}

}  // namespace kiln
