// Log lines of one runtime: level and sink are its own, nothing is global.
#pragma once

#include <string>

#include <kiln/runtime.hpp>

namespace kiln {

class Logger {
 public:
  /// Takes level and sink from `options`, else $KILN_LOG and standard error.
  explicit Logger(const RuntimeOptions& options);

  void error(const std::string& text) const { write(LogLevel::error, text); }
  void warn(const std::string& text) const { write(LogLevel::warn, text); }
  void info(const std::string& text) const { write(LogLevel::info, text); }
  void debug(const std::string& text) const { write(LogLevel::debug, text); }

 private:
  void write(LogLevel level, const std::string& text) const;
  LogLevel level_;
  std::function<void(LogLevel, const std::string&)> sink_;
};

}  // namespace kiln
