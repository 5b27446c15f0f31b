// Terminal details live here, so that commands only say what to print.
#include "cli/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/printable.hpp"
#include "generator/config/json_text.hpp"
#include "runtime/support/memory.hpp"

namespace kiln::cli {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string styled(std::string_view text, std::string_view code) {
  static const bool colour = [] {
    const char* off = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) != 0 && (off == nullptr || *off == '\0');
  }();
  return colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

void print_json(const Json& document) {
  // Names of files may be any bytes; what is not UTF-8 is replaced rather than refused.
  fmt::print("{}\n", write_json(document, 2));
}

std::string bold(std::string_view text) {
  return styled(text, "1");
}
std::string good(std::string_view text) {
  return styled(text, "32");
}
std::string bad(std::string_view text) {
  return styled(text, "31");
}

void progress(const std::string& text) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!terminal) return;
  fmt::print(stderr, "\r\x1b[K{}", printable(text.substr(0, 110)));
  std::fflush(stderr);
}

std::string table(const std::vector<std::vector<std::string>>& rows, bool left) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += left || i == 0 ? fmt::format("{:<{}}", printable(row[i]), widths[i])
                             : fmt::format("{:>{}}", printable(row[i]), widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  return size_text(bytes);
}

std::string time_text(double us) {
  if (us < 999.5) return fmt::format("{:.3g} us", us);
  if (us < 999.5e3) return fmt::format("{:.3g} ms", us / 1e3);
  if (us < 120e6) return fmt::format("{:.3g} s", us / 1e6);
  const std::int64_t seconds = std::llround(us / 1e6);
  if (seconds < 7200) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds % 3600 / 60);
}

std::string short_number(double value) {
  return fmt::format("{:.3g}", value);
}

Stopwatch::Stopwatch() : start_ns_(now_ns()) {}
double Stopwatch::ms() const {
  return static_cast<double>(now_ns() - start_ns_) / 1e6;
}

struct ProgressLine::Ticker {
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  Text text;
  Stopwatch since;
  std::thread thread;

  // With the mutex held.
  void paint() const { progress(text(since.ms() / 1e3)); }
  void run() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::seconds(1), [this] { return ended; })) paint();
  }
};

ProgressLine::ProgressLine() = default;

void ProgressLine::show(Text text) {
  if (isatty(STDERR_FILENO) == 0) return;
  const bool first = !ticker_;
  if (first) ticker_ = std::make_unique<Ticker>();
  const std::lock_guard lock(ticker_->mutex);
  ticker_->text = std::move(text);
  ticker_->since = Stopwatch();
  ticker_->paint();
  if (first) ticker_->thread = std::thread([ticker = ticker_.get()] { ticker->run(); });
}

ProgressLine::~ProgressLine() {
  if (!ticker_) return;
  {
    const std::lock_guard lock(ticker_->mutex);
    ticker_->ended = true;
  }
  ticker_->changed.notify_one();
  ticker_->thread.join();
  progress("");
}

namespace {

/// ", 12 s" from the second second on.
std::string going_on(double seconds) {
  return seconds < 2 ? "" : ", " + time_text(std::floor(seconds) * 1e6);
}

std::string time_left(double seconds) {
  return time_text(std::max(seconds, 0.0) * 1e6) + " left";
}

}  // namespace

void ProgressCount::show(std::size_t done, const std::string& what) {
  const double before = watch_.ms() / 1e3;
  const std::string place = fmt::format("{} of {}{}", done + 1, at_most_ ? "at most " : "", total_);
  if (done == 0 || before < 1) {
    ProgressLine::show([=](double seconds) { return place + going_on(seconds) + ": " + what; });
    return;
  }
  double left = before / static_cast<double>(done) * static_cast<double>(total_ - std::min(done, total_));
  if (limit_ > 0) left = std::min(left, limit_ - before);
  ProgressLine::show([=](double seconds) { return place + ", " + time_left(left - seconds) + ": " + what; });
}

void ProgressDeadline::show(const std::string& what) {
  const double left = limit_ - watch_.ms() / 1e3;
  ProgressLine::show([=, limited = limit_ > 0](double seconds) {
    return limited ? time_left(left - seconds) + ": " + what : what + going_on(seconds);
  });
}

ProgressClock::ProgressClock(const std::string& what) {
  ProgressLine::show([what](double seconds) { return what + going_on(seconds); });
}

}  // namespace kiln::cli
