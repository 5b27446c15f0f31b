#include "runtime/support/log.hpp"

#include <cstdio>

#include "base/printable.hpp"
#include "runtime/support/environment.hpp"

namespace kiln {

std::optional<LogLevel> log_level_from(std::string_view text) {
  if (text == "error") return LogLevel::error;
  if (text == "warn") return LogLevel::warn;
  if (text == "info") return LogLevel::info;
  if (text == "debug") return LogLevel::debug;
  return std::nullopt;
}

Logger::Logger(const RuntimeOptions& options) : level_(LogLevel::warn), sink_(options.log) {
  if (options.log_level) {
    level_ = *options.log_level;
  } else if (const std::string chosen = environment("KILN_LOG"); !chosen.empty()) {
    if (const auto level = log_level_from(chosen)) {
      level_ = *level;
    } else {
      throw Error(ErrorCode::bad_input, "KILN_LOG is '" + chosen + "'; use error, warn, info or debug");
    }
  }
}

void Logger::write(LogLevel level, const std::string& text) const {
  if (level > level_) return;
  if (sink_) return sink_(level, printable(text));
  static constexpr const char* kNames[] = {"error", "warning", "info", "debug"};
  std::fprintf(stderr, "kiln: %s: %s\n", kNames[static_cast<int>(level)], printable(text).c_str());
}

}  // namespace kiln
