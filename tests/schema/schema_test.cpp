// The schema against the code: every key and value that it lists works somewhere, and does something there.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>

#include "generator/plan/draw.hpp"
#include "tests/schema/accepted.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr const char* kOperations[] = {"prefill", "decode"};

using ByKey = std::map<std::string, std::vector<Accepted>>;

/// Found once for all tests below.
const ByKey& found(Target target, const std::string& operation) {
  static std::map<std::pair<Target, std::string>, ByKey> all;
  const auto key = std::pair(target, operation);
  const auto it = all.find(key);
  return it != all.end() ? it->second : all.emplace(key, accepted_values(target, operation)).first->second;
}

/// {"BM": {"doc": "...", "sm_80": {"prefill": "16, 32", "decode": "16"}}}: what `kiln keys` prints.
Json what_works() {
  Json out = Json::object();
  for (const KeySpec& key : config_keys()) {
    Json& entry = out[std::string(key.name)];
    entry["doc"] = key.doc;
    for (const Target target : kTargetList) {
      if (!is_tried(key, target)) continue;
      for (const char* operation : kOperations) {
        const ByKey& by_key = found(target, operation);
        const auto it = by_key.find(std::string(key.name));
        entry[std::string(to_string(target))][operation] =
            it == by_key.end() ? "" : summary(values_of(key, target), it->second);
      }
    }
  }
  return out;
}

/// One line of text as lines of at most 110 characters.
std::string wrapped(std::string text) {
  for (std::size_t line = 0; text.size() - line > 110;) {
    const std::size_t blank = text.rfind(' ', line + 110);
    if (blank == std::string::npos || blank <= line) break;
    text[blank] = '\n';
    line = blank + 1;
  }
  return text;
}

std::string page(const Json& keys) {
  std::string text =
      "# What works where\n\n"
      "Every key of a config with the values that work, by target. The page is made by trying them all\n"
      "(`tests/schema`): each value was set in bare and shipped configs until one of them planned. What a key means is\n"
      "said in [config.md](config.md); `kiln keys` prints this page in a terminal.\n\n"
      "- Of integers samples were tried (1, 2, 3 ... 64, 72, 80, 96 ... 1024): `16..256` are those between, `any` is all\n"
      "  that the schema allows.\n"
      "- A value may need others beside it (pages, a type, a depth); a refusal says which.\n"
      "- \"-\": no kernel of this target takes the key in this version.\n";
  for (const auto& [name, entry] : keys.items()) {
    if (entry.size() < 2) continue;
    text += "\n## `" + name + "`\n\n" + wrapped(entry["doc"]) +
            "\n\n| target | prefill | decode |\n| --- | --- | --- |\n";
    for (const auto& [target, by_operation] : entry.items()) {
      if (target == "doc") continue;
      text += "| " + target + " |";
      for (const char* operation : kOperations) {
        const std::string cell = by_operation[operation];
        text += " " + (cell.empty() ? "-" : cell) + " |";
      }
      text += "\n";
    }
  }
  return text;
}

/// The file is what was found; KILN_UPDATE_GOLDEN writes it.
void check_file(const std::string& path, const std::string& text) {
  if (std::getenv("KILN_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream there;
  there << std::ifstream(path).rdbuf();
  const bool same = there.str() == text;
  CHECK_MESSAGE(same, path << " is not what the planners take; KILN_UPDATE_GOLDEN=1 writes it");
}

/// Every key is taken by an operation of each target, and those of `missing` by none.
void check_taken(std::span<const Target> targets) {
  const std::pair<Target, std::string_view> missing[] = {{Target::sm_80, "rope"},
                                                         {Target::sm_80, "reg_chunk_keys"},
                                                         {Target::sm_90a, "base_alignment"},
                                                         {Target::sm_100a, "base_alignment"},
                                                         {Target::sm_103a, "rope"},
                                                         {Target::sm_103a, "base_alignment"}};
  for (const Target target : targets) {
    for (const KeySpec& key : config_keys()) {
      if (!is_tried(key, target)) continue;
      bool taken = false;
      for (const char* operation : kOperations)
        taken = taken || found(target, operation).contains(std::string(key.name));
      const bool expected =
          std::find(std::begin(missing), std::end(missing), std::pair(target, key.name)) == std::end(missing);
      CHECK_MESSAGE(taken == expected,
                    to_string(target) << (taken ? " takes a value of " : " takes no value of ") << key.name);
    }
  }
}

/// Each accepted value changes the kernel or its manifest; how many there are.
std::size_t check_none_idle(std::span<const Target> targets) {
  std::size_t checked = 0;
  for (const Target target : targets) {
    for (const char* operation : kOperations) {
      for (const auto& [name, values] : found(target, operation)) {
        for (const Accepted& a : values) {
          ++checked;
          CHECK_MESSAGE(!is_idle_key(a.config, name), a.config.dump()
                                                          << ": " << a.value.pointer << " changes nothing");
        }
      }
    }
  }
  return checked;
}

}  // namespace

TEST_CASE("what the schema has for sm_80 is taken by one of its operations") {
  check_taken(std::array{Target::sm_80});
}

TEST_CASE("every value that sm_80 accepts is in the kernel or in its manifest") {
  CHECK(check_none_idle(std::array{Target::sm_80}) > 100);
}

TEST_CASE("what the schema has for a target is taken by one of its operations" *
          doctest::test_suite("breadth")) {
  check_taken(kTargetList);
}

TEST_CASE("every accepted value is in the kernel or in its manifest" * doctest::test_suite("breadth")) {
  CHECK(check_none_idle(kTargetList) > 1000);
}

TEST_CASE("docs/keys.md and `kiln keys` say what was found" * doctest::test_suite("breadth")) {
  const Json keys = what_works();
  check_file(KILN_SOURCE_DIR "/configs/keys.json", Json{{"keys", keys}}.dump(1) + "\n");
  check_file(KILN_SOURCE_DIR "/docs/keys.md", page(keys));
}
