#include "cli/sweep/sweep_log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <kiln/kiln.hpp>

#include "cli/inspect/page.hpp"
#include "generator/config/json_text.hpp"

namespace kiln::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::bad_input, fmt::format("--log: '{}' {}; name another file", path, why));
}

}  // namespace

SweepLog::SweepLog(const std::string& path, const Json& settings) {
  const Json head{{"kiln", version()}, {"sweep", settings}};
  std::error_code error;
  std::uintmax_t good = 0;  // bytes of whole lines
  if (std::filesystem::exists(path, error)) {
    std::ifstream in(path, std::ios::binary);
    bool first = true;
    for (std::string line; std::getline(in, line); first = false) {
      const bool whole = !in.eof();
      const Json entry = json_of(line);
      if (!whole) break;
      if (first && (!entry.is_object() || !entry.contains("kiln"))) refuse(path, "is no log of a sweep");
      if (first && entry != head) refuse(path, "is the log of another sweep or another version of kiln");
      if (!entry.is_object()) refuse(path, "has a line that is no JSON object");
      if (!first && !(entry.contains("config") && entry.contains("level") && entry.contains("ran")))
        refuse(path, "has a line that is no result");
      if (!first) entries_[write_json(entry["config"])] = entry;
      good += line.size() + 1;
    }
    if (std::filesystem::file_size(path, error) > good) std::filesystem::resize_file(path, good, error);
  }
  file_.reset(std::fopen(path.c_str(), "ab"));
  if (!file_) throw Error(ErrorCode::bad_input, fmt::format("--log: cannot write '{}'", path));
  if (good == 0) fmt::print(file_.get(), "{}\n", write_json(head));
  std::fflush(file_.get());
}

const Json* SweepLog::find(const Json& config, bool run) const {
  const auto found = entries_.find(write_json(config));
  if (found == entries_.end()) return nullptr;
  const bool enough = found->second["ran"].get<bool>() || !run || found->second["level"] != "passed";
  return enough ? &found->second : nullptr;
}

void SweepLog::add(const Json& entry) {
  if (!file_) return;
  fmt::print(file_.get(), "{}\n", write_json(entry));
  if (std::fflush(file_.get()) != 0) throw Error(ErrorCode::environment, "--log: the disk is full");
}

std::string sweep_page(const std::string& title, const Json& entries, const Json& refused,
                       std::size_t total_refused) {
  return filled_page(
      "sweep.html",
      {{"title", title}, {"entries", entries}, {"refused", refused}, {"total_refused", total_refused}});
}

}  // namespace kiln::cli
