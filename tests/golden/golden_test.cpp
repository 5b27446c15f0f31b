// Emitted sources that are kept and reviewed: for the configs named in tests/golden/configs.txt the text must
// be the file beside it, byte by byte after the head comment's version. KILN_UPDATE_GOLDEN=1 rewrites the
// files; read the diff. Every other shipped config is generated too, twice, and must come out the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include <kiln/generator.hpp>
#include <kiln/part_kernels.hpp>

using namespace kiln;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The head comment carries the version; a release must not change every golden file.
std::string without_version(std::string text) {
  const std::string now(version());
  const std::size_t at = text.find(now);
  if (at != std::string::npos && at < 2000) text.replace(at, now.size(), "VERSION");
  return text;
}

/// Shipped configs: configs/TARGET/NAME.json.
std::vector<fs::path> shipped() {
  std::vector<fs::path> out;
  for (const auto& folder : fs::directory_iterator(KILN_SOURCE_DIR "/configs")) {
    if (!folder.is_directory() || folder.path().filename() == "sweeps") continue;
    for (const auto& file : fs::directory_iterator(folder)) {
      if (file.path().extension() == ".json") out.push_back(file.path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

KernelSource generate_file(const fs::path& path) {
  return generate(make_plan(parse_config(read(path), path.filename().string())));
}

/// Line number of the first difference, for a message one can act on.
std::size_t first_difference(const std::string& a, const std::string& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return static_cast<std::size_t>(std::count(a.begin(), at, '\n')) + 1;
}

}  // namespace

TEST_CASE("golden sources") {
  const bool update = std::getenv("KILN_UPDATE_GOLDEN") != nullptr;
  const auto files = shipped();
  std::ifstream names(KILN_SOURCE_DIR "/tests/golden/configs.txt");
  REQUIRE(names);
  int compared = 0;
  for (std::string name; std::getline(names, name);) {
    if (name.empty() || name[0] == '#') continue;
    CAPTURE(name);
    const auto file =
        std::find_if(files.begin(), files.end(), [&](const fs::path& p) { return p.stem() == name; });
    REQUIRE(file != files.end());
    const std::string text = without_version(generate_file(*file).text);
    const bool amd = file->parent_path().filename().string().starts_with("gfx");
    const fs::path golden = fs::path(KILN_SOURCE_DIR "/tests/golden") / (name + (amd ? ".hip" : ".cu"));
    if (update) {
      std::ofstream(golden, std::ios::binary) << text;
    } else {
      REQUIRE_MESSAGE(fs::exists(golden), "no golden file; run once with KILN_UPDATE_GOLDEN=1 and review it");
      const std::string expected = read(golden);
      INFO("first difference at line " << first_difference(text, expected)
                                       << "; KILN_UPDATE_GOLDEN=1 rewrites");
      CHECK((text == expected));
    }
    ++compared;
  }
  CHECK(compared > 0);
}

TEST_CASE("golden sources of kernels for parts") {
  const bool update = std::getenv("KILN_UPDATE_GOLDEN") != nullptr;
  const auto config = [](const char* target, const char* operation) {
    return parse_config(
        std::string(R"({"target": ")") + target + R"(", "operation": ")" + operation +
            R"(", "dtype": "bf16", "depth": 64, "mask": "causal", "operand": {"kind": "ragged"}})",
        "golden");
  };
  const std::pair<const char*, KernelSource> sources[] = {
      {"part_prefill_bf16_d64_causal_sm90a.cu", make_part_kernel(config("sm_90a", "prefill"))},
      {"part_prefill_bf16_d64_causal_sm80.cu", make_part_kernel(config("sm_80", "prefill"))},
      {"part_merge2_bf16_d64_sm90a.cu", make_part_merge_kernel(config("sm_90a", "decode"), 2, false)},
      {"part_merge1_floats_d64_gfx942.hip", make_part_merge_kernel(config("gfx942", "prefill"), 1, true)}};
  for (const auto& [name, source] : sources) {
    CAPTURE(name);
    const fs::path golden = fs::path(KILN_SOURCE_DIR "/tests/golden") / name;
    const std::string text = without_version(source.text);
    if (update) {
      std::ofstream(golden, std::ios::binary) << text;
      continue;
    }
    REQUIRE_MESSAGE(fs::exists(golden), "no golden file; run once with KILN_UPDATE_GOLDEN=1 and review it");
    INFO("first difference at line " << first_difference(text, read(golden))
                                     << "; KILN_UPDATE_GOLDEN=1 rewrites");
    CHECK((text == read(golden)));
  }
}

TEST_CASE("every shipped config generates, twice the same, under its file's name") {
  for (const fs::path& file : shipped()) {
    CAPTURE(file.string());
    const KernelSource first = generate_file(file), second = generate_file(file);
    CHECK((first.text == second.text));
    CHECK(first.head_bytes > 0);
    CHECK(first.head_bytes < first.text.size());
    CHECK(first.manifest.name == file.stem().string());
    CHECK(first.manifest.target == file.parent_path().filename().string());
    CHECK(to_json(manifest_from_json(to_json(first.manifest))) == to_json(first.manifest));
    CHECK(nlohmann::json::parse(first.manifest.config_json).contains("BN"));
  }
}
