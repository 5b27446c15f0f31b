// What the cycle model's word is worth: its predictions beside times that were measured on hardware.
//
//   kiln_cycle_check [TABLE.csv ...]
//
// A table has a row a launch: shipped config, batch, heads, length, measured microseconds and the clock of the
// multiprocessors meanwhile (MHz; 0: not known, the model's own); of decode the length is that of the keys. Without arguments
// it takes the tables beside this file. Prints every row, the error and the rank correlation of the speeds (TFLOP/s, of
// decode TB/s: times alone rank by size).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include <kiln/kiln.hpp>

#include "workbench/analysis/cycle_model.hpp"

namespace {

using namespace kiln;

struct Row {
  std::string config;
  std::int64_t batch = 0, heads_q = 0, heads_kv = 0, seqlen = 0;
  double us = 0, mhz = 0;
};

struct Modelled {
  Config resolved;
  CycleModel model;
};

std::vector<Row> read_table(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorCode::bad_input, path + ": cannot be read");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.starts_with("config,")) continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream in(line);
    Row r;
    if (!(in >> r.config >> r.batch >> r.heads_q >> r.heads_kv >> r.seqlen >> r.us >> r.mhz))
      throw Error(ErrorCode::bad_input, path + ": not a row: " + line);
    rows.push_back(r);
  }
  return rows;
}

Modelled model_of(Runtime& runtime, const std::string& name) {
  const std::string path = std::string(KILN_SOURCE_DIR "/configs/sm_90a/") + name + ".json";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const Plan plan = make_plan(parse_config(text.str(), path));
  return {plan.resolved(), model_cycles(runtime, plan, generate(plan))};
}

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) out[order[i]] = static_cast<double>(i);
  return out;
}

/// Spearman's, of values without ties.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  const auto n = static_cast<double>(x.size());
  return 1 - 6 * sum / (n * (n * n - 1));
}

void check_table(Runtime& runtime, const std::string& path, std::map<std::string, Modelled>& models) {
  std::vector<double> measured, predicted;
  double squares = 0, worst = 0, sum = 0;
  for (const Row& r : read_table(path)) {
    if (!models.contains(r.config)) models.emplace(r.config, model_of(runtime, r.config));
    const Modelled& m = models.at(r.config);
    ProblemShape shape;
    shape.heads_q = r.heads_q, shape.heads_kv = r.heads_kv;
    shape.depth = m.resolved.depth, shape.ov_depth = m.resolved.ov_depth.value_or(m.resolved.depth);
    shape.lengths_q.assign(static_cast<std::size_t>(r.batch), r.seqlen);
    shape.lengths_k = shape.lengths_q;
    const bool decode = m.resolved.operation == Operation::decode;
    if (decode) shape.lengths_q.assign(shape.lengths_k.size(), 1);
    const double us = predicted_us(m.model, m.resolved, shape, r.mhz * 1e-3), error = us / r.us - 1;
    const double work =
        decode ? counted_bytes(m.resolved, shape) * 1e-6 : counted_flop(m.resolved, shape) * 1e-6;
    fmt::print("{:<42} {:>3} x {:>5}  {:>7.1f} us {:>6.2f} {}, predicted {:>7.1f} us {:>6.2f}  {:+.1f} %\n",
               r.config, r.batch, r.seqlen, r.us, work / r.us, decode ? "TB/s" : "TFLOP/s", us, work / us,
               100 * error);
    measured.push_back(work / r.us), predicted.push_back(work / us);
    squares += error * error, sum += error, worst = std::max(worst, std::abs(error));
  }
  const auto n = static_cast<double>(measured.size());
  fmt::print(
      "{}: {} launches, mean error {:+.1f} %, root mean square {:.1f} %, largest {:.1f} %, rank correlation of speeds "
      "{:.3f}\n",
      path, measured.size(), 100 * sum / n, 100 * std::sqrt(squares / n), 100 * worst,
      rank_correlation(measured, predicted));
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> tables(argv + 1, argv + argc);
  if (tables.empty())
    for (const char* name :
         {"h200_2026-11-23.csv", "h200_2026-11-22.csv", "h200_2026-11-25.csv", "h200_decode_2026-11-22.csv"})
      tables.push_back(std::string(KILN_SOURCE_DIR "/bench/cycles/") + name);
  RuntimeOptions options;
  options.device = "emulated";
  Runtime runtime(options);
  std::map<std::string, Modelled> models;
  for (const std::string& table : tables) check_table(runtime, table, models);
  for (const auto& [name, m] : models)
    fmt::print("{:<42} {} x {}: tile {:.0f}, item {:.0f}, start {:.0f} clocks, bound by {}, {:.0f} exposed\n",
               name, m.model.rows, m.model.keys, m.model.tile, m.model.item, m.model.start,
               name_of(m.model.bound), m.model.exposed);
  return 0;
} catch (const kiln::Error& error) {
  fmt::print(stderr, "kiln_cycle_check: {}\n", error.what());
  return 2;
}
