#include "workbench/tune/winners.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <kiln/cache.hpp>

#include "runtime/support/files.hpp"
#include "runtime/support/hash.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string lengths_text(const std::vector<std::int64_t>& lengths) {
  std::string text;
  for (const std::int64_t length : lengths) text += std::to_string(length) + ",";
  return text;
}

std::string folder() {
  const std::string cache = Cache::default_directory();
  return fs::path(cache).is_absolute() ? (fs::path(cache) / "tuned").string() : "";
}

}  // namespace

void prepare_winners() {
  const std::string path = folder();
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::environment,
                "the winner cannot be stored: " + why +
                    "; set KILN_CACHE_DIR to an absolute path, or give --no-store and --out");
  };
  if (path.empty()) refuse("no cache directory");
  // The cache makes its directory private, and knows when one is not to be trusted.
  const std::string problem = Cache(Cache::default_directory()).stats().problem;
  if (!problem.empty()) refuse(problem);
  std::error_code error;
  fs::create_directory(path, error);
  if (error) refuse(path + ": " + error.message());
  if (::access(path.c_str(), W_OK) != 0) refuse(path + ": " + std::strerror(errno));
}

std::string winner_path(const Config& config, const DeviceInfo& device, const ProblemShape& shape) {
  const std::string path = folder();
  if (path.empty()) return "";
  Hasher hasher;
  hasher.field(to_json(config, -1));
  hasher.field(device.name);
  hasher.field(static_cast<std::uint64_t>(shape.heads_q));
  hasher.field(static_cast<std::uint64_t>(shape.heads_kv));
  hasher.field(lengths_text(shape.lengths_q));
  hasher.field(lengths_text(shape.lengths_k));
  return (fs::path(path) / (config_name(config) + "-" + hasher.digest().hex() + ".json")).string();
}

std::string store_winner(const Config& config, const DeviceInfo& device, const ProblemShape& shape,
                         const Config& winner) {
  prepare_winners();
  const std::string path = winner_path(config, device, shape);
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
