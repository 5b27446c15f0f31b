// list: the shipped configs, by target and operation, with what tells them apart.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <kiln/kiln.hpp>
#include <map>
#include <memory>
#include <utility>

#include "cli/commands.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/output.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/keys.hpp"
#include "generator/masks/sized.hpp"

namespace kiln::cli {
namespace {

struct ListOptions {
  std::vector<std::string> words;
  std::string target, operation;
};

/// A config in the words of the list.
struct Row {
  std::string name, path, target, operation, dtype, kv_dtype, operand, mask;
  int depth = 0, ov_depth = 0, page_size = 0;

  /// "bf16/e4m3": of Q and of K and V.
  std::string types() const {
    const std::string kv = kv_dtype.starts_with("fp8_") ? kv_dtype.substr(4) : kv_dtype;
    return kv_dtype == dtype ? dtype : dtype + "/" + kv;
  }
  std::string depths() const {
    return ov_depth == depth ? std::to_string(depth) : fmt::format("{}/{}", depth, ov_depth);
  }
  std::string operands() const { return page_size > 0 ? fmt::format("{} {}", operand, page_size) : operand; }
};

std::string mask_text(const MaskConfig& mask) {
  if (const SizedMask* sized = sized_mask(mask.kind))
    return fmt::format("{} {}", sized->short_name, mask.size);
  switch (mask.kind) {
    case MaskConfig::Kind::none:
      return "none";
    case MaskConfig::Kind::causal:
      return "causal";
    case MaskConfig::Kind::window:
      return "window of two sides";
    default:
      return "custom";
  }
}

Row row_of(const ShippedConfig& shipped) {
  const Config c = with_shared_defaults(parse_config(shipped.text, shipped.name));
  const auto text = [](auto value) { return std::string(to_string(value)); };
  return {shipped.name,
          shipped.path,
          text(c.target),
          text(c.operation),
          text(c.dtype),
          text(*c.kv_dtype),
          text(c.operand->kind),
          mask_text(*c.mask),
          c.depth,
          *c.ov_depth,
          c.operand->page_size.value_or(0)};
}

/// Every word occurs in the name or in a column.
bool matches(const Row& row, const ListOptions& options) {
  if (!options.target.empty() && row.target != options.target) return false;
  if (!options.operation.empty() && row.operation != options.operation) return false;
  const std::string all = fmt::format("{} {} {} {} {} {} {}", row.name, row.target, row.operation,
                                      row.types(), row.depths(), row.operands(), row.mask);
  return std::all_of(options.words.begin(), options.words.end(),
                     [&](const std::string& word) { return all.find(word) != std::string::npos; });
}

Json document_of(const std::vector<Row>& rows) {
  Json document = Json::array();
  for (const Row& row : rows) {
    document.push_back({{"name", row.name},
                        {"target", row.target},
                        {"operation", row.operation},
                        {"dtype", row.dtype},
                        {"kv_dtype", row.kv_dtype},
                        {"depth", row.depth},
                        {"ov_depth", row.ov_depth},
                        {"operand", row.operand},
                        {"mask", row.mask},
                        {"path", row.path}});
  }
  return document;
}

void print_rows(const std::vector<Row>& rows) {
  std::map<std::pair<std::string, std::string>, std::vector<std::vector<std::string>>> groups;
  for (const Row& row : rows) {
    auto& cells = groups[{row.target, row.operation}];
    if (cells.empty()) cells.push_back({"name", "Q/KV type", "depth", "operand", "mask"});
    cells.push_back({row.name, row.types(), row.depths(), row.operands(), row.mask});
  }
  const char* between = "";
  for (const auto& [key, cells] : groups) {
    fmt::print("{}{}\n{}", between, bold(fmt::format("{} {} ({})", key.first, key.second, cells.size() - 1)),
               table(cells, true));
    between = "\n";
  }
}

/// One header and a line each, for programs: what is in a column stays there.
void print_plain(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells{
      {"name", "target", "operation", "dtype", "depth", "path", "kv_dtype", "ov_depth", "operand", "mask"}};
  for (const Row& row : rows) {
    cells.push_back({row.name, row.target, row.operation, row.dtype, std::to_string(row.depth), row.path,
                     row.kv_dtype, std::to_string(row.ov_depth), row.operands(), row.mask});
  }
  fmt::print("{}", table(cells, true));
}

int list(const ListOptions& options, bool json) {
  if (!options.target.empty() && !target_from(options.target))
    throw Error(ErrorCode::bad_input, fmt::format("--target: no target '{}'; there are {}", options.target,
                                                  target_names(kAllTargets)));
  std::vector<Row> rows;
  for (const ShippedConfig& shipped : shipped_configs()) {
    Row row = row_of(shipped);
    if (matches(row, options)) rows.push_back(std::move(row));
  }
  if (json) {
    print_json(document_of(rows));
    return 0;
  }
  if (rows.empty())
    throw Error(ErrorCode::bad_input, "no shipped config has all of that; `kiln list` shows all");
  isatty(STDOUT_FILENO) != 0 ? print_rows(rows) : print_plain(rows);
  return 0;
}

}  // namespace

Action add_list(CLI::App& command, Common& common) {
  auto options = std::make_shared<ListOptions>();
  command.add_option("WORD", options->words, "Only configs that have every word in their name or a column");
  command.add_option("--target", options->target, "Only this target, such as sm_90a")
      ->type_name("TEXT:{" + target_names(kAllTargets) + "}");
  command.add_option("--operation", options->operation, "prefill or decode")
      ->check(CLI::IsMember({"prefill", "decode"}));
  return [options, &common] { return list(*options, common.json); };
}

}  // namespace kiln::cli
