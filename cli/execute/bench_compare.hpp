// bench --compare: two documents of `kiln bench --json`, row by row, with confidence intervals.
#pragma once

#include <string>
#include <vector>

namespace kiln::cli {

double median(std::vector<double> values);

/// Ratio of the medians of two lists of samples, new over old, and its 95 % interval by the bootstrap (10,000
/// resamples, a fixed seed).
struct Comparison {
  double ratio = 1, low = 1, high = 1;
  /// "faster" and "slower" where the whole interval is on one side of 1, else "same".
  const char* verdict() const { return high < 1 ? "faster" : low > 1 ? "slower" : "same"; }
};
Comparison compare_samples(const std::vector<double>& before, const std::vector<double>& after);

/// Prints the comparison of the rows that both files have by name and problem. Returns 1 when one became slower. Throws
/// Error (bad_input) for files that are no such documents or have no row in common.
int bench_compare(const std::string& before, const std::string& after, bool json);

}  // namespace kiln::cli
