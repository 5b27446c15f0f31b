// Configs that must fail: tests/errors/*.json lists them with the pointers their rule must be reported at and
// the exact lines of the message. KILN_UPDATE_GOLDEN=1 rewrites the lines (never the pointers); read the
// diff.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include <kiln/config.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/report.hpp"

using namespace kiln;

namespace {

Json load(const std::filesystem::path& path) {
  std::ifstream in(path);
  REQUIRE(in);
  return json_of(std::string(std::istreambuf_iterator<char>(in), {}));
}

Violations violations_of(const std::string& text) {
  try {
    parse_config(text, "config");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_config);
    return error.violations();
  }
  return {};
}

std::vector<std::filesystem::path> tables() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(KILN_SOURCE_DIR "/tests/errors")) {
    if (entry.path().extension() == ".json") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// V5, V16, V17 and V23 state how a config is lowered and refuse none; the rest must have a table here.
const std::set<std::string> kNotRefusing{"V5", "V16", "V17", "V23"};

}  // namespace

TEST_CASE("every rule has configs that break it") {
  std::set<std::string> covered;
  for (const auto& path : tables()) covered.insert(path.stem().string());
  for (int i = 1; i <= 32; ++i) {
    const std::string id = "V" + std::to_string(i);
    CAPTURE(id);
    CHECK(covered.contains(id) != kNotRefusing.contains(id));
  }
}

TEST_CASE("configs that must fail do, with these words") {
  const bool update = std::getenv("KILN_UPDATE_GOLDEN") != nullptr;
  for (const auto& path : tables()) {
    Json table = load(path);
    const std::string rule = table["rule"];
    REQUIRE_FALSE(table["cases"].empty());
    for (Json& test : table["cases"]) {
      INFO(path.filename().string() << ": " << test["why"].get<std::string>());
      const Violations found =
          violations_of(test.contains("text") ? test["text"].get<std::string>() : write_json(test["config"]));
      std::set<std::string> reported;
      Json lines = Json::array();
      for (const Violation& violation : found) {
        lines.push_back(violation_line(violation));
        if (violation.rule.starts_with(rule + ": ")) reported.insert(violation.pointer);
      }
      for (const Json& pointer : test["pointers"]) {
        INFO("expected " << rule << " at '" << pointer.get<std::string>() << "', got\n" << lines.dump(1));
        CHECK(reported.erase(pointer.get<std::string>()) == 1);
      }
      INFO("reported in excess:\n" << lines.dump(1));
      CHECK(reported.empty());
      if (update) {
        test["errors"] = lines;
      } else {
        CHECK(lines == test["errors"]);
      }
    }
    if (update) std::ofstream(path) << table.dump(2) << '\n';
  }
}
