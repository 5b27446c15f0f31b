// Line by line, so a trace of any size costs one line of memory; lines longer than any real one are refused.
#include "workbench/files/trace.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>

#include <kiln/error.hpp>
#include <nlohmann/json.hpp>

#include "base/decimal.hpp"
#include "generator/config/json_text.hpp"

namespace kiln {
namespace {

constexpr std::size_t kMaxLine = std::size_t{16} << 20;
constexpr double kMaxTokens = 1e9;

[[noreturn]] void fail(std::string_view name, std::size_t line, const std::string& what) {
  throw Error(ErrorCode::bad_input, std::string(name) + ":" + std::to_string(line) + ": " + what);
}

// One line without its end, or nothing at the end of the stream.
std::optional<std::string> next_line(std::istream& in, std::string_view name, std::size_t number) {
  std::string line;
  for (int c; (c = in.get()) != std::istream::traits_type::eof();) {
    if (c == '\n') {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return line;
    }
    if (line.size() == kMaxLine) fail(name, number, "line longer than 16 MiB: not a trace");
    line += static_cast<char>(c);
  }
  if (in.bad()) fail(name, number, "cannot read");
  return line.empty() ? std::nullopt : std::optional(line);
}

// Fields of a CSV line; double quotes protect commas, two of them are one.
std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[i++];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

std::int64_t checked_length(double value, std::string_view name, std::size_t line, const std::string& text) {
  if (!(value >= 0) || value > kMaxTokens || value != std::floor(value)) {
    fail(name, line, "'" + text.substr(0, 40) + "' is not a number of tokens");
  }
  return static_cast<std::int64_t>(value);
}

std::int64_t csv_length(const std::string& line, std::size_t column, std::string_view name,
                        std::size_t number) {
  const std::vector<std::string> fields = split_csv(line);
  if (column >= fields.size()) fail(name, number, "no ContextTokens field");
  const std::string& text = fields[column];
  std::string_view digits = text;
  while (!digits.empty() && is_ascii_space(digits.front())) digits.remove_prefix(1);
  const Decimal decimal = read_decimal(digits);
  const bool whole = decimal.length > 0 && decimal.length == digits.size();
  return checked_length(whole ? decimal.value : -1, name, number, text);
}

std::int64_t json_length(const std::string& line, std::string_view name, std::size_t number) {
  if (nested_too_deep(line)) fail(name, number, "nested too deep");
  const auto object = json_of(line);
  if (object.is_discarded() || !object.is_object()) fail(name, number, "not a JSON object");
  const auto found = object.find("input_length");
  if (found == object.end()) fail(name, number, "no 'input_length'");
  return checked_length(found->is_number() ? found->get<double>() : -1, name, number, found->dump());
}

}  // namespace

std::vector<std::int64_t> read_trace(std::istream& in, std::string_view name, std::size_t requests,
                                     std::int64_t max_length) {
  std::vector<std::int64_t> lengths;
  std::optional<std::size_t> column;  // of a CSV
  bool json = false;
  for (std::size_t number = 1; requests == 0 || lengths.size() < requests; ++number) {
    std::optional<std::string> line = next_line(in, name, number);
    if (!line) break;
    if (number == 1 && line->starts_with("\xef\xbb\xbf")) line->erase(0, 3);
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    if (!json && !column) {
      json = (*line)[line->find_first_not_of(" \t")] == '{';
      if (!json) {
        const std::vector<std::string> names = split_csv(*line);
        const auto found = std::find(names.begin(), names.end(), "ContextTokens");
        if (found == names.end()) {
          fail(name, number,
               "neither a CSV with a 'ContextTokens' column nor JSON lines with 'input_length'");
        }
        column = static_cast<std::size_t>(found - names.begin());
        continue;
      }
    }
    const std::int64_t length =
        json ? json_length(*line, name, number) : csv_length(*line, *column, name, number);
    lengths.push_back(max_length > 0 ? std::min(length, max_length) : length);
  }
  if (lengths.empty()) throw Error(ErrorCode::bad_input, std::string(name) + ": the trace holds no request");
  return lengths;
}

std::vector<std::int64_t> read_trace(const std::filesystem::path& path, std::size_t requests,
                                     std::int64_t max_length) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorCode::bad_input, "cannot read trace '" + path.string() + "'");
  }
  return read_trace(file, path.string(), requests, max_length);
}

}  // namespace kiln
