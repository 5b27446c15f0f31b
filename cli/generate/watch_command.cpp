// watch: on each save of a config the kernel is generated again, compared with the one before, and verified.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <kiln/kiln.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "cli/above_zero.hpp"
#include "cli/commands.hpp"
#include "cli/execute/verify_quickly.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/output.hpp"
#include "runtime/support/files.hpp"
#include "runtime/support/process.hpp"
#include "runtime/support/scratch.hpp"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;
constexpr auto kPoll = std::chrono::milliseconds(200);

struct WatchOptions {
  std::string config;
  int changes = 0;
  bool no_verify = false;
};

/// What tells one save from another. A file that is being replaced is not there for a moment.
struct Stamp {
  fs::file_time_type time;
  std::uintmax_t bytes = 0;
  bool operator==(const Stamp&) const = default;
};
std::optional<Stamp> stamp_of(const fs::path& path) {
  std::error_code error;
  const Stamp stamp{fs::last_write_time(path, error), fs::file_size(path, error)};
  return error ? std::nullopt : std::optional(stamp);
}

void print_diff(const std::string& before, const std::string& after) {
  const ScratchFolder scratch;
  const std::string old = scratch.path() + "/before";
  write_atomically(old, before);
  ProcessRequest request;
  request.arguments = {"diff", "-U2", "--label", "before", "--label", "after", old, "-"};
  request.input = after;
  const ProcessResult diff = run_process(request);
  if (!diff.started || diff.signal != 0 || diff.status > 1)
    return fmt::print("diff     not shown: `diff` {}\n", diff.started ? diff.end() : "is not installed");
  std::istringstream lines(diff.output);
  std::size_t added = 0, removed = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("--- ") || line.starts_with("+++ ")) continue;
    added += line.starts_with('+') ? 1 : 0;
    removed += line.starts_with('-') ? 1 : 0;
    fmt::print("{}\n", line.starts_with('+') ? good(line) : line.starts_with('-') ? bad(line) : line);
  }
  fmt::print("diff     {} lines added, {} removed\n", added, removed);
}

class Watch {
 public:
  explicit Watch(const WatchOptions& options) : options_(options) {}

  /// One look at the file as it is now.
  void look() {
    const Stopwatch watch;
    KernelSource source;
    try {
      source = generate(make_plan(load_config(options_.config)));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_config && error.code() != ErrorCode::bad_input) throw;
      fmt::print("{}\n{}\n", bad("refused"), error.what());
      for (const std::string& excerpt : excerpts(error)) fmt::print("{}", excerpt);
      return;
    }
    fmt::print("{} {}, {} lines, generated in {}\n", good("ok"), source.manifest.name,
               std::count(source.text.begin(), source.text.end(), '\n'), time_text(watch.ms() * 1e3));
    if (!before_.empty() && before_ != source.text) print_diff(before_, source.text);
    if (before_ == source.text) fmt::print("diff     the same source\n");
    before_ = source.text;
    if (!options_.no_verify) verify_quickly(options_.config);
  }

 private:
  const WatchOptions& options_;
  std::string before_;
};

int watch(const WatchOptions& options) {
  const std::optional<Stamp> first = stamp_of(options.config);
  if (!first)
    throw Error(ErrorCode::bad_input, "watch wants a config file, and there is no '" + options.config + "'");
  Watch watch(options);
  Stamp last = *first;
  watch.look();
  for (int changes = 0; options.changes == 0 || changes < options.changes;) {
    std::fflush(stdout);
    progress("waiting for " + options.config + " to be saved; Ctrl-C ends");
    std::this_thread::sleep_for(kPoll);
    const std::optional<Stamp> now = stamp_of(options.config);
    if (!now || *now == last) continue;
    last = *now;
    progress("");
    fmt::print("\n{}\n", bold(fmt::format("-- save {}", ++changes)));
    watch.look();
  }
  return 0;
}

}  // namespace

Action add_watch(CLI::App& command, Common&) {
  auto options = std::make_shared<WatchOptions>();
  command.add_option("CONFIG", options->config, "Config file to watch")->required();
  command.add_option("--changes", options->changes, "End after so many saves (default: never)")
      ->check(above_zero());
  command.add_flag("--no-verify", options->no_verify, "Only generate and compare");
  return [options] { return watch(*options); };
}

}  // namespace kiln::cli
