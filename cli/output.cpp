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
  fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
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

void ProgressCount::show(std::size_t done, const std::string& what) const {
  const double ms = watch_.ms();
  std::string left;
  if (done > 0 && ms > 1000) {
    const auto part = static_cast<double>(done);
    left = ", " + time_text(ms * 1e3 / part * (static_cast<double>(total_) - part)) + " left";
  }
  progress(fmt::format("{} of {}{}: {}", done + 1, total_, left, what));
}

struct ProgressClock::Ticker {
  std::mutex mutex;
  std::condition_variable over;
  bool ended = false;
  std::thread thread;
};

ProgressClock::ProgressClock(std::string what) {
  progress(what);
  if (isatty(STDERR_FILENO) == 0) return;
  ticker_ = std::make_unique<Ticker>();
  ticker_->thread = std::thread([ticker = ticker_.get(), what = std::move(what)] {
    std::unique_lock lock(ticker->mutex);
    for (int seconds = 1;
         !ticker->over.wait_for(lock, std::chrono::seconds(1), [&] { return ticker->ended; }); ++seconds) {
      if (seconds > 1) progress(fmt::format("{}, {}", what, time_text(seconds * 1e6)));
    }
  });
}

ProgressClock::~ProgressClock() {
  if (ticker_) {
    {
      const std::lock_guard lock(ticker_->mutex);
      ticker_->ended = true;
    }
    ticker_->over.notify_one();
    ticker_->thread.join();
  }
  progress("");
}

}  // namespace kiln::cli
