#include "runtime/tune/winners.hpp"

#include <filesystem>

#include <kiln/cache.hpp>

#include "runtime/problem/files.hpp"
#include "runtime/support/hash.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string lengths_text(const std::vector<std::int64_t>& lengths) {
  std::string text;
  for (const std::int64_t length : lengths) text += std::to_string(length) + ",";
  return text;
}

}  // namespace

std::string winner_path(const Config& config, const DeviceInfo& device, const ProblemShape& shape) {
  const std::string folder = Cache::default_directory();
  if (folder.empty()) return "";
  Hasher hasher;
  hasher.field(to_json(config, -1));
  hasher.field(device.name);
  hasher.field(static_cast<std::uint64_t>(shape.heads_q));
  hasher.field(static_cast<std::uint64_t>(shape.heads_kv));
  hasher.field(lengths_text(shape.lengths_q));
  hasher.field(lengths_text(shape.lengths_k));
  return (fs::path(folder) / "tuned" / (config_name(config) + "-" + hasher.digest().hex() + ".json"))
      .string();
}

std::string store_winner(const Config& config, const DeviceInfo& device, const ProblemShape& shape,
                         const Config& winner) {
  const std::string path = winner_path(config, device, shape);
  if (path.empty())
    throw Error(ErrorCode::environment,
                "the winner has nowhere to go: set KILN_CACHE_DIR, or write it with --out");
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) {
    throw Error(ErrorCode::bad_input, "cannot make '" + fs::path(path).parent_path().string() +
                                          "' for the winner: " + error.message());
  }
  write_atomically(path, to_json(winner) + "\n");
  return path;
}

Config load_winner(const Config& config, const DeviceInfo& device, const ProblemShape& shape) {
  const std::string path = winner_path(config, device, shape);
  if (path.empty() || !fs::exists(path)) {
    throw Error(ErrorCode::bad_input, "no winner is stored for " + config_name(config) + " on " +
                                          device.name + " with " + shape.text() +
                                          "; `kiln tune` with the same options finds one");
  }
  return parse_config(read_text(path), path);
}

}  // namespace kiln
