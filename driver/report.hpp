// What the stand-in tells the command that started the program: one JSON document a line, appended to a file as
// things happen, so that a program that crashes loses nothing.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include <kiln/emulator/emulator.hpp>

namespace kiln::driver {

using Json = nlohmann::ordered_json;

Json to_json(const emulator::Finding& finding);
emulator::Finding finding_from(const Json& json);

class Report {
 public:
  /// Appends to `path`; without one, findings are a line each on standard error.
  explicit Report(std::string path) : path_(std::move(path)) {}
  /// A launch of the module's kernel; `ptx` is what findings point into.
  void launch(const emulator::Report& report, std::uint64_t module, const std::string& name,
              const std::string& ptx);
  /// Once for each `what`: a function or a feature that is not implemented.
  void unsupported(const std::string& what, const std::string& reason);
  /// Counters and counts, at the end of the process.
  void finish();

 private:
  void line(const Json& json);

  struct Known {
    std::uint64_t id = 0, count = 0;
  };
  std::string path_;
  std::map<std::tuple<std::uint64_t, std::string, std::string, int, int>, Known> known_;
  std::map<std::uint64_t, bool> modules_;
  std::map<std::string, std::uint64_t> unsupported_;
  emulator::Counters counters_;
  std::uint64_t launches_ = 0;
  bool finished_ = false;
};

}  // namespace kiln::driver
