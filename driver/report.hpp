// What the stand-in tells the command that started the program: one JSON document a line, appended to a file as
// things happen, so that a program that crashes loses nothing.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>
#include "emulator/report/mistakes.hpp"

namespace kiln::driver {

using Json = nlohmann::ordered_json;

Json to_json(const emulator::Finding& finding);
emulator::Finding finding_from(const Json& json);

class Report {
 public:
  /// Appends to `path`; without one, findings are a line each on standard error.
  explicit Report(std::string path) : path_(std::move(path)) {}
  /// A launch of the module's kernel; `ptx` is what findings point into.
  void launch(const emulator::Report& report, std::uint64_t module, const emulator::Module& code,
              const std::string& name, const std::string& ptx);
  /// A launch of `kernel` took so many warp instructions; said when it is the first or the longest of that kernel.
  void launched(const std::string& kernel, std::uint64_t instructions, std::uint64_t module,
                const std::string& name, const std::string& ptx);
  /// Once for each `what`: a function or a feature that is not implemented.
  void unsupported(const std::string& what, const std::string& reason);
  /// Counters, and the findings once more: one for each mistake of all launches.
  void finish();

 private:
  void line(const Json& json);
  /// The module's text, once.
  void name_module(std::uint64_t module, const std::string& name, const std::string& ptx);

  /// A module of the program and its mistakes in all launches.
  struct Known {
    bool named = false;                              ///< its text is in the report
    std::map<std::string, std::uint64_t> longest{};  ///< launch of each kernel
    emulator::Mistakes mistakes{kMostMistakes};
  };
  static constexpr std::size_t kMostMistakes = 1000;
  std::string path_;
  std::map<std::uint64_t, Known> modules_;
  std::map<std::string, std::uint64_t> unsupported_;
  emulator::Counters counters_;
  std::uint64_t launches_ = 0;
  bool finished_ = false;
};

}  // namespace kiln::driver
