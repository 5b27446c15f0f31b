// What commands print: results on standard output, progress on standard error when that is a terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::cli {

using Json = nlohmann::ordered_json;

/// Prints one JSON document. Numbers that JSON cannot hold become null.
void print_json(const Json& document);

/// `text` in the colour of an SGR code ("1;31") where bold() and the like are coloured.
std::string styled(std::string_view text, std::string_view code);
/// Bold, green and red when standard output is a terminal and NO_COLOR is unset or empty; else the text
/// itself.
std::string bold(std::string_view text);
std::string good(std::string_view text);
std::string bad(std::string_view text);

/// A line that is overwritten by the next one; nothing when standard error is not a terminal. Empty text
/// erases it.
void progress(const std::string& text);

/// Rows of cells as aligned columns: the first column to the left, the others to the right unless `left`.
std::string table(const std::vector<std::vector<std::string>>& rows, bool left = false);

std::string bytes_text(std::uint64_t bytes);  ///< "1.5 MiB"
/// A duration in the unit that fits, three digits: "9.5 us", "338 ms", "3.81 s", "4 min 12 s".
std::string time_text(double us);
std::string short_number(double value);  ///< three digits: "0.00217", "1.2e-06"

/// Milliseconds since construction.
class Stopwatch {
 public:
  Stopwatch();
  double ms() const;

 private:
  std::int64_t start_ns_;
};

/// A progress line that is painted again every second; its end erases it. Nothing when standard error is no terminal.
class ProgressLine {
 public:
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 protected:
  using Text = std::function<std::string(double seconds)>;
  ProgressLine();
  ~ProgressLine();
  /// Paints `text` now and every second, called with the seconds since now.
  void show(Text text);

 private:
  struct Ticker;
  std::unique_ptr<Ticker> ticker_;
};

/// Work of known length: "34 of 120, 12 s left: compiling". The time left is told from the second step and the second
/// second on; before that, how long the first step has been going on.
class ProgressCount : ProgressLine {
 public:
  /// `at_most`: the work may end before `total` steps. No step begins after `limit_seconds` where that is not 0.
  explicit ProgressCount(std::size_t total, bool at_most = false, double limit_seconds = 0)
      : total_(total), at_most_(at_most), limit_(limit_seconds) {}
  /// `done` of the total are over; `what` is what the next one is.
  void show(std::size_t done, const std::string& what);

 private:
  std::size_t total_;
  bool at_most_;
  double limit_;
  Stopwatch watch_;
};

/// Work that ends after a given time at the latest: "12 s left: what".
class ProgressDeadline : ProgressLine {
 public:
  /// Without a limit (0) the line tells how long the step has been going on.
  explicit ProgressDeadline(double limit_seconds) : limit_(limit_seconds) {}
  void show(const std::string& what);

 private:
  double limit_;
  Stopwatch watch_;
};

/// Work of unknown length: from the second second on the progress line tells how long it has been going on.
class ProgressClock : ProgressLine {
 public:
  explicit ProgressClock(const std::string& what);
};

}  // namespace kiln::cli
