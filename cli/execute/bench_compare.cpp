#include "cli/execute/bench_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <kiln/error.hpp>
#include <random>

#include "cli/output.hpp"
#include "generator/config/json_text.hpp"
#include "runtime/support/files.hpp"

namespace kiln::cli {
namespace {

constexpr int kResamples = 10000;
constexpr std::size_t kFewest = 5;  // samples of a row

double resampled_median(const std::vector<double>& values, std::mt19937_64& random) {
  std::vector<double> drawn(values.size());
  for (double& value : drawn) value = values[random() % values.size()];
  return median(std::move(drawn));
}

Json rows_of(const std::string& path) {
  Json document = json_of(read_text(path));
  const auto right = [](const Json& row) {
    return row.is_object() && row.contains("name") && row.contains("problem") && row.contains("samples") &&
           row["samples"].is_array() && row["samples"].size() >= kFewest &&
           std::all_of(row["samples"].begin(), row["samples"].end(),
                       [](const Json& x) { return x.is_number() && x.get<double>() > 0; });
  };
  if (!document.is_array() || document.empty() || !std::all_of(document.begin(), document.end(), right)) {
    throw Error(
        ErrorCode::bad_input,
        fmt::format("--compare: '{}' is no document of `kiln bench --json` with at least {} samples a row",
                    path, kFewest));
  }
  return document;
}

Json::const_iterator same_row(const Json& rows, const Json& wanted) {
  return std::find_if(rows.begin(), rows.end(), [&](const Json& each) {
    return each["name"] == wanted["name"] && each["problem"] == wanted["problem"];
  });
}

/// The rows of `mine`, of the file at `path`, that `others` lack.
void print_missing(const Json& mine, const Json& others, const std::string& path) {
  for (const Json& row : mine) {
    if (same_row(others, row) != others.end()) continue;
    fmt::print("only in {}: {}, {}\n", path, row["name"].get<std::string>(),
               row["problem"].get<std::string>());
  }
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Comparison compare_samples(const std::vector<double>& before, const std::vector<double>& after) {
  std::mt19937_64 random(20261124);
  std::vector<double> ratios(kResamples);
  for (double& ratio : ratios) ratio = resampled_median(after, random) / resampled_median(before, random);
  std::sort(ratios.begin(), ratios.end());
  return {median(after) / median(before), ratios[kResamples / 40], ratios[kResamples - kResamples / 40 - 1]};
}

int bench_compare(const std::string& before, const std::string& after, bool json) {
  const Json old_rows = rows_of(before), new_rows = rows_of(after);
  Json document = Json::array();
  std::vector<std::vector<std::string>> rows{{"config", "old", "new", "new / old", "95 % interval", ""}};
  bool slower = false;
  for (const Json& row : new_rows) {
    const auto match = same_row(old_rows, row);
    if (match == old_rows.end()) continue;
    const auto was = (*match)["samples"].get<std::vector<double>>(),
               is = row["samples"].get<std::vector<double>>();
    const Comparison c = compare_samples(was, is);
    slower = slower || c.low > 1;
    document.push_back({{"name", row["name"]},
                        {"problem", row["problem"]},
                        {"old_us", median(was)},
                        {"new_us", median(is)},
                        {"ratio", c.ratio},
                        {"interval", {c.low, c.high}},
                        {"verdict", c.verdict()}});
    rows.push_back({row["name"].get<std::string>(), time_text(median(was)), time_text(median(is)),
                    fmt::format("{:.3f}", c.ratio), fmt::format("{:.3f} .. {:.3f}", c.low, c.high),
                    c.verdict()});
  }
  if (document.empty())
    throw Error(ErrorCode::bad_input, "--compare: the files have no row of the same config and problem");
  if (json) {
    print_json(document);
  } else {
    fmt::print("{}", table(rows));
    print_missing(old_rows, new_rows, before);
    print_missing(new_rows, old_rows, after);
  }
  return slower ? 1 : 0;
}

}  // namespace kiln::cli
