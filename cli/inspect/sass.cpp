#include "cli/inspect/sass.hpp"

#include <charconv>
#include <filesystem>
#include <sstream>

#include "runtime/compiler/nvrtc_api.hpp"
#include "runtime/support/environment.hpp"
#include "runtime/support/files.hpp"
#include "runtime/support/process.hpp"
#include "runtime/support/scratch.hpp"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

/// Of the wheel nvidia-cuda-nvdisasm in $VIRTUAL_ENV, or in a .venv beside or above this program or where it runs.
std::vector<fs::path> in_wheels() {
  std::error_code error;
  std::vector<fs::path> environments, out;
  if (const std::string active = environment("VIRTUAL_ENV"); !active.empty())
    environments.emplace_back(active);
  for (fs::path folder : {fs::read_symlink("/proc/self/exe", error).parent_path(), fs::current_path(error)})
    for (int level = 0; level < 3 && folder.has_relative_path(); ++level, folder = folder.parent_path())
      environments.push_back(folder / ".venv");
  for (const fs::path& venv : environments)
    for (const auto& python : fs::directory_iterator(venv / "lib", error))
      out.push_back(python.path() / "site-packages/nvidia/cu13/bin/nvdisasm");
  return out;
}

/// Programs to try, in order.
std::vector<std::string> candidates() {
  if (std::string chosen = environment("KILN_NVDISASM"); !chosen.empty()) return {chosen};
  std::vector<std::string> out{"nvdisasm"};
  std::error_code error;
  const auto add = [&](const fs::path& path) {
    if (fs::exists(path, error)) out.push_back(path.string());
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = environment(variable); !home.empty()) add(fs::path(home) / "bin/nvdisasm");
  for (const std::string& library : nvrtc_candidates(0)) {
    const fs::path folder = fs::path(library).parent_path();
    if (folder.is_absolute()) add(folder.parent_path() / "bin/nvdisasm");
  }
  for (const fs::path& path : in_wheels()) add(path);
  return out;
}

/// `//## File "/kiln/NAME.cu", line 95 inlined at "/kiln/NAME.cu", line 226` is line 95; the line that called it follows.
int line_of(std::string_view text) {
  const std::size_t at = text.find("\", line ");
  if (at == std::string_view::npos) return 0;
  const std::string_view number = text.substr(at + 8);
  int line = 0;
  std::from_chars(number.data(), number.data() + number.size(), line);
  return line;
}

Json parsed(const std::string& listing) {
  Json lines = Json::array(), source_lines = Json::array();
  std::istringstream in(listing);
  int line = 0;
  for (std::string text; std::getline(in, text);) {
    const std::size_t start = text.find_first_not_of(" \t");
    if (start == std::string::npos) continue;
    if (text.compare(start, 4, "//##") == 0)
      line = line_of(text);  // of what was inlined the caller comes last
    if (text.compare(start, 2, "/*") != 0) continue;
    const std::size_t after = text.find("*/", start), code = text.find_first_not_of(' ', after + 2);
    if (after == std::string::npos || code == std::string::npos) continue;
    std::string shown = text.substr(start + 2, after - start - 2) + ": " + text.substr(code);
    if (const std::size_t end = shown.find_last_not_of(" ;"); end != std::string::npos) shown.resize(end + 1);
    lines.push_back(std::move(shown));
    source_lines.push_back(line);
  }
  return {{"kind", "SASS"}, {"lines", lines}, {"source_lines", source_lines}};
}

}  // namespace

SassListing sass_listing(const Binary& binary, const std::vector<std::string>& options) {
  const ScratchFolder scratch;
  const std::string file = (fs::path(scratch.path()) / "kernel.cubin").string();
  write_atomically(file, binary.image);
  std::string problem;
  for (const std::string& program : candidates()) {
    ProcessRequest request;
    request.arguments = {program};
    request.arguments.insert(request.arguments.end(), options.begin(), options.end());
    request.arguments.push_back(file);
    request.timeout_s = 120;
    const ProcessResult result = run_process(request);
    if (result.ok()) return {result.output, ""};
    if (result.started || problem.empty())
      problem = program + ": " + (result.started ? result.end() + ": " + result.errors : result.end());
  }
  return {"", problem + "; install it with CUDA, or: pip install nvidia-cuda-nvdisasm"};
}

Json sass_json(const Binary& binary) {
  const SassListing listing = sass_listing(binary, {"-c", "-gi"});
  if (!listing.problem.empty()) return {{"problem", listing.problem}};
  return parsed(listing.text);
}

}  // namespace kiln::cli
