// What a sweep has done so far, as JSON lines in a file: an interrupted sweep goes on where it was.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "cli/output.hpp"

namespace kiln::cli {

/// {config, level, error, ran, smallest}: `level` is "passed", or the level of the ladder that failed; `ran` whether it
/// was run on the emulated device; `smallest` the fewest keys with which it still fails.
class SweepLog {
 public:
  SweepLog() = default;
  /// Reads what is there and appends to it; the first line has kiln's version and `settings`. Throws Error (bad_input)
  /// for a file of another version or other settings, and for one that is no log. A last line that was cut short by a
  /// kill is dropped.
  SweepLog(const std::string& path, const Json& settings);

  /// The entry of a config, null when it was not done, or not run though that is asked for.
  const Json* find(const Json& config, bool run) const;
  void add(const Json& entry);
  std::size_t resumed() const { return entries_.size(); }

 private:
  std::map<std::string, Json> entries_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
};

/// A page with a matrix of what passed and failed by the values of two keys. `entries` as a log has them,
/// `refused` are `{config, error}` of the first of `total_refused` combinations that do not plan.
std::string sweep_page(const std::string& title, const Json& entries, const Json& refused,
                       std::size_t total_refused);

}  // namespace kiln::cli
