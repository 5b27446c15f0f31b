// Every line of an emitted kernel knows the line of kiln that wrote it.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <kiln/generator.hpp>

namespace kiln {
namespace {

namespace fs = std::filesystem;

KernelSource source_of(const fs::path& config) {
  std::ifstream in(config);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  return generate(make_plan(parse_config(text, config.string())));
}

std::vector<fs::path> shipped() {
  std::vector<fs::path> out;
  for (const char* target : {"sm_80", "sm_90a", "sm_100a", "sm_103a", "gfx90a", "gfx942", "gfx950"}) {
    for (const auto& file : fs::directory_iterator(KILN_SOURCE_DIR "/configs/" + std::string(target)))
      out.push_back(file.path());
  }
  return out;
}

std::vector<std::string> lines_of(std::istream& in) {
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// Lines of a file of the repository, read once.
const std::vector<std::string>& file_lines(const std::string& name) {
  static std::map<std::string, std::vector<std::string>> files;
  auto [at, fresh] = files.try_emplace(name);
  if (fresh) {
    std::ifstream in(std::string(KILN_SOURCE_DIR) + "/" + name);
    at->second = lines_of(in);
  }
  return at->second;
}

std::string without_indent(const std::string& line) {
  const auto start = line.find_first_not_of(' ');
  return start == std::string::npos ? "" : line.substr(start);
}

std::vector<std::string> names_of(const std::string& line) {
  static const std::regex name("[A-Za-z_][A-Za-z_0-9]*");
  return {std::sregex_token_iterator(line.begin(), line.end(), name), std::sregex_token_iterator()};
}

/// Whether a loop of one round around `there` made `emitted` of it: the counter is gone, other names stay in order.
bool without_counter(const std::string& emitted, const std::string& there) {
  const std::vector<std::string> all = names_of(there);
  std::size_t at = 0;
  for (const std::string& name : names_of(emitted)) {
    while (at < all.size() && all[at] != name) ++at;
    if (at++ == all.size()) return false;
  }
  return true;
}

/// The line of kiln that wrote an emitted line is there; one of a template without a hole is that line, or of sm_100a's
/// templates, which have loops of one round, what was left of it.
void check_line(const std::string& emitted, const LineOrigin& origin) {
  const std::string file(origin.file);
  CAPTURE(file);
  CAPTURE(origin.line);
  const std::vector<std::string>& lines = file_lines(file);
  REQUIRE(origin.line >= 1);
  REQUIRE(static_cast<std::size_t>(origin.line) <= lines.size());
  const std::string& there = lines[static_cast<std::size_t>(origin.line - 1)];
  if (file.starts_with("templates/") && there.find("${") == std::string::npos)
    CHECK_MESSAGE(
        (there.find(without_indent(emitted)) != std::string::npos  // a part of it where it was too long
         || (file.starts_with("templates/sm100") && without_counter(emitted, there))),
        emitted);
}

TEST_CASE("every line of every shipped kernel has its origin") {
  std::set<std::string_view> files;
  for (const fs::path& path : shipped()) {
    CAPTURE(path);
    const KernelSource source = source_of(path);
    std::istringstream in(source.text);
    const std::vector<std::string> emitted = lines_of(in);
    REQUIRE(source.origins.size() == emitted.size());
    for (std::size_t i = 0; i < emitted.size(); ++i) {
      files.insert(source.origins[i].file);
      if (i % 7 == 0) check_line(emitted[i], source.origins[i]);
    }
  }
  for (const char* file : {"templates/stream_k.cuh", "templates/sm90.cuh", "templates/cdna.hip",
                           "templates/sm100.cuh", "generator/schedules/sm90_prefill/consumer.cpp",
                           "generator/schedules/sm100_prefill/softmax.cpp", "generator/emit/head.cpp"})
    CHECK_MESSAGE(files.contains(file), std::string(file));
}

TEST_CASE("the origin of a line is the statement that wrote it") {
  const KernelSource source =
      source_of(KILN_SOURCE_DIR "/configs/sm_90a/decode_bf16_d128_paged16_sm90a.json");
  std::istringstream in(source.text);
  const std::vector<std::string> emitted = lines_of(in);
  for (const std::string part : {"mbarrier_init(", "__launch_bounds__", "wait_for_launch_before();"}) {
    CAPTURE(part);
    int seen = 0;
    for (std::size_t i = 0; i < emitted.size(); ++i) {
      const LineOrigin& origin = source.origins[i];
      if (emitted[i].find(part) == std::string::npos || !origin.file.starts_with("generator/")) continue;
      // A statement may go over a few lines: its first is the origin.
      const std::vector<std::string>& lines = file_lines(std::string(origin.file));
      std::string statement;
      for (int n = origin.line - 1; n < std::min<int>(origin.line + 3, static_cast<int>(lines.size())); ++n)
        statement += lines[static_cast<std::size_t>(n)];
      CHECK_MESSAGE(statement.find(part) != std::string::npos, statement);
      ++seen;
    }
    CHECK(seen > 0);
  }
}

}  // namespace
}  // namespace kiln
