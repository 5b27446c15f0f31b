#include "runtime/compiler/clang.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/compiler/amd_target.hpp"
#include "runtime/compiler/code_object.hpp"
#include "runtime/support/dynamic_library.hpp"
#include "runtime/support/environment.hpp"
#include "runtime/support/process.hpp"
#include "runtime/support/scratch.hpp"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr int kNewest = 26, kOldest = 17;
constexpr std::string_view kHowToGet = "install clang-22 and lld-22 (or ROCm), or name a clang in KILN_CLANG";

/// The file that a program name means, by PATH; empty when there is none.
std::string which(const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos) return fs::exists(name, error) ? name : "";
  std::string path = environment("PATH");
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path file = fs::path(path.substr(begin, end - begin)) / name;
    if (file.is_absolute() && fs::is_regular_file(file, error)) return file;
    begin = end + 1;
  }
  return {};
}

std::vector<std::string> candidates() {
  if (std::string chosen = environment("KILN_CLANG"); !chosen.empty()) return {chosen};
  std::vector<std::string> names;
  if (const std::string rocm = environment("ROCM_PATH"); !rocm.empty())
    names.push_back(rocm + "/llvm/bin/clang");
  names.emplace_back("/opt/rocm/llvm/bin/clang");
  for (int major = kNewest; major >= kOldest; --major) names.push_back(fmt::format("clang-{}", major));
  names.emplace_back("clang");
  return names;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The major version in "Debian clang version 22.1.8 (...)".
int major_of(const std::string& line) {
  constexpr std::string_view kWord = "version ";
  const std::size_t at = line.find(kWord);
  int major = 0;
  if (at != std::string::npos)
    std::from_chars(line.data() + at + kWord.size(), line.data() + line.size(), major);
  return major;
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

const Clang::Found& Clang::found() {
  std::lock_guard lock(mutex_);
  if (found_) return *found_;
  Found result;
  std::string tried;
  for (const std::string& name : candidates()) {
    const std::string path = which(name);
    if (path.empty()) continue;
    ProcessRequest request;
    request.arguments = {path, "--version"};
    const ProcessResult version = run_process(request);
    const int major = version.ok() ? major_of(version.output) : 0;
    request.arguments = {path, "-print-prog-name=lld"};
    const bool linker = major > 0 && !which(first_line(run_process(request).output)).empty();
    const std::string problem = major == 0        ? "is no clang"
                                : major < kOldest ? fmt::format("is clang {}, {} is needed", major, kOldest)
                                : !linker         ? fmt::format("has no linker; install lld-{}", major)
                                                  : "";
    if (!problem.empty()) {
      tried += (tried.empty() ? "; " : ", ") + path + " " + problem;
      continue;
    }
    result.path = path;
    result.major = major;
    result.version = first_line(version.output);
    result.identity = fmt::format("clang {} {}", result.version, content_id(fs::canonical(path)));
    return found_.emplace(std::move(result));
  }
  result.problem = fmt::format("no clang that compiles for AMD: {}{}", kHowToGet, tried);
  return found_.emplace(std::move(result));
}

std::string Clang::obstacle(std::string_view target) {
  const AmdTarget* known = amd_target(target);
  if (known == nullptr) {
    return fmt::format("{} is no target of kiln's AMD compilers; they compile gfx90a, gfx942 and gfx950",
                       target);
  }
  const Found& compiler = found();
  if (!compiler.problem.empty()) return compiler.problem;
  if (compiler.major < known->llvm_major) {
    return fmt::format("clang {} ({}) is too old for {}, which needs clang {}", compiler.major, compiler.path,
                       target, known->llvm_major);
  }
  return {};
}

Offer Clang::offer(std::string_view target) {
  return {1, obstacle(target)};
}

std::string Clang::identity() {
  const Found& compiler = found();
  if (!compiler.problem.empty()) throw Error(ErrorCode::environment, compiler.problem);
  return compiler.identity;
}

std::vector<std::string> Clang::options(const CompileJob& job) const {
  // Version 5 of the code object is what ROCm 5.3 to 7 load. Without -fuse-cuid=none and a fixed folder for
  // the line table the bytes would depend on where the compiler ran.
  return {"-x",
          "hip",
          "--cuda-device-only",
          "-nogpuinc",
          "-nogpulib",
          "--no-gpu-bundle-output",
          "-fuse-cuid=none",
          "-mcode-object-version=5",
          "-std=c++20",
          "-O3",
          "-gline-tables-only",
          "-fdebug-compilation-dir=/kiln",
          "--offload-arch=" + job.target};
}

std::string Clang::translate(const CompileJob& job, const std::string& text, const std::string& suffix,
                             std::vector<std::string> arguments, std::string& log) {
  if (const std::string problem = obstacle(job.target); !problem.empty())
    throw Error(ErrorCode::environment, problem);
  const std::string& name = job.source.manifest.name;
  const ScratchFolder scratch;
  const std::string input = name + suffix, output = scratch.path() + "/output";
  std::ofstream file(scratch.path() + "/" + input, std::ios::binary);
  if (!(file << text) || !file.flush()) {
    throw Error(ErrorCode::environment, fmt::format("cannot write the compiler's input in {}: {}; set TMPDIR",
                                                    scratch.path(), std::strerror(errno)));
  }
  file.close();
  ProcessRequest request;
  request.arguments = std::move(arguments);
  request.arguments.insert(request.arguments.begin(), found().path);
  request.arguments.insert(request.arguments.end(), {"-o", "output", input});
  request.folder = scratch.path();
  request.environment = {{"TMPDIR", scratch.path()}, {"LC_ALL", "C"}};
  const ProcessResult clang = run_process(request);
  log = clang.errors;
  std::string result = read_all(output);
  if (clang.ok() && !result.empty()) return result;
  std::string summary = first_error(log);
  if (summary.empty()) summary = clang.end();
  const bool lacks = summary.find("unable to create target") != std::string::npos ||
                     summary.find("invalid target ID") != std::string::npos ||
                     summary.find("No available targets") != std::string::npos ||
                     log.find("No space left on device") != std::string::npos;
  throw Error(
      lacks ? ErrorCode::environment : ErrorCode::compile,
      fmt::format("clang {} refused {} for {}: {}\n{}", found().major, input, job.target, summary, log));
}

Binary Clang::binary_of(const CompileJob& job, std::string image, std::string log, double ms) {
  Binary binary;
  binary.image = std::move(image);
  binary.log = std::move(log);
  binary.compiler = found().identity;
  binary.compile_ms = ms;
  finish_code_object(binary, job);
  return binary;
}

Binary Clang::compile(const CompileJob& job) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> arguments = options(job);
  arguments.emplace_back("-c");
  std::string log, image = translate(job, job.source.text, ".hip", arguments, log);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  return binary_of(job, std::move(image), std::move(log), time.count());
}

DoctorReport::Compiler Clang::probe() {
  const Found& compiler = found();
  DoctorReport::Compiler report;
  report.kind = "clang";
  report.found = compiler.problem.empty();
  report.path = compiler.path;
  report.problem = compiler.problem;
  if (!report.found) return report;
  report.version = compiler.version;
  try_targets(*this, report);
  return report;
}

}  // namespace kiln
