#include "runtime/compiler/hiprtc.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "runtime/compiler/amd_target.hpp"
#include "runtime/compiler/code_object.hpp"
#include "runtime/compiler/hiprtc_helper.hpp"
#include "runtime/support/dynamic_library.hpp"
#include "runtime/support/environment.hpp"
#include "runtime/support/process.hpp"
#include "runtime/support/scratch.hpp"

namespace kiln {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kGetHiprtc =
    "install libamdhip64-5 and libhiprtc-builtins5 (Debian; gfx90a only) or ROCm 6 or newer, or name the "
    "library in "
    "KILN_HIPRTC";

void put(std::string& out, std::string_view field) {
  const std::uint64_t size = field.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out += field;
}

/// The fields of an answer; what is cut off is left out.
std::vector<std::string> fields_of(std::string_view bytes) {
  std::vector<std::string> fields;
  std::uint64_t size = 0;
  while (bytes.size() >= sizeof size) {
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (size > bytes.size()) break;
    fields.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return fields;
}

/// The compiler leaves folders behind when it dies: they go with the scratch folder.
ProcessResult ask(const std::string& request, const ScratchFolder& scratch) {
  ProcessRequest process;
  process.arguments = {"kiln-hiprtc-helper"};
  process.program = hiprtc_helper().front().text;
  process.input = request;
  process.folder = scratch.path();
  process.environment = {{"TMPDIR", scratch.path()}};
  return run_process(process);
}

}  // namespace

std::vector<std::string> hiprtc_candidates() {
  if (std::string chosen = environment("KILN_HIPRTC"); !chosen.empty()) return {chosen};
  std::vector<std::string> folders{""};
  for (const char* variable : {"ROCM_PATH", "HIP_PATH"}) {
    if (const std::string home = environment(variable); !home.empty()) folders.push_back(home + "/lib/");
  }
  folders.emplace_back("/opt/rocm/lib/");
  std::vector<std::string> candidates;
  for (const char* soname : {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5"}) {
    for (const std::string& folder : folders) candidates.push_back(folder + soname);
  }
  return candidates;
}

std::pair<int, int> rocm_version_of(const std::string& real_path) {
  const std::string name = fs::path(real_path).filename();
  const std::size_t at = name.find(".so.");
  std::pair<int, int> version{0, 0};
  if (at == std::string::npos) return version;
  const char* end = name.data() + name.size();
  const auto major = std::from_chars(name.data() + at + 4, end, version.first);
  if (major.ec == std::errc() && major.ptr != end && *major.ptr == '.')
    std::from_chars(major.ptr + 1, end, version.second);
  return version;
}

std::string Hiprtc::Found::version() const {
  return fmt::format("{}.{}", major, minor);
}

const Hiprtc::Found& Hiprtc::found() {
  std::lock_guard lock(mutex_);
  if (found_) return *found_;
  Found& result = found_.emplace();
  std::string request;
  put(request, "find");
  const std::vector<std::string> candidates = hiprtc_candidates();
  for (const std::string& name : candidates) put(request, name);
  try {
    const ScratchFolder scratch;
    const ProcessResult helper = ask(request, scratch);
    const std::vector<std::string> answer = fields_of(helper.output);
    if (!helper.ok() || answer.size() < 2) {
      result.problem = fmt::format("HIPRTC cannot be opened: its helper process had {}", helper.end());
    } else if (answer[0] != "ok") {
      result.problem =
          fmt::format("no HIPRTC: {} (tried {})", kGetHiprtc,
                      candidates.size() == 1 ? answer[1] : fmt::format("{}", fmt::join(candidates, ", ")));
    } else {
      std::error_code error;
      result.path = answer[1];
      const fs::path real = fs::canonical(result.path, error);
      std::tie(result.major, result.minor) = rocm_version_of(real);
      if (result.major == 0) std::tie(result.major, result.minor) = rocm_version_of(result.path);
      result.identity = fmt::format("hiprtc {} {}", result.version(), content_id(result.path));
      // The compiler proper lies beside it.
      for (const char* name : {"libamd_comgr.so.3", "libamd_comgr.so.2"}) {
        const fs::path comgr = real.parent_path() / name;
        if (fs::exists(comgr, error)) result.identity += " " + content_id(comgr);
      }
    }
  } catch (const Error& error) {
    result.problem = error.what();
  }
  return result;
}

std::string Hiprtc::obstacle(std::string_view target) {
  const AmdTarget* known = amd_target(target);
  if (known == nullptr) {
    return fmt::format("{} is no target of kiln's AMD compilers; they compile gfx90a, gfx942 and gfx950",
                       target);
  }
  const Found& library = found();
  if (!library.problem.empty()) return library.problem;
  if (std::pair(library.major, library.minor) < std::pair(known->rocm_major, known->rocm_minor)) {
    return fmt::format("HIPRTC {} ({}) is too old for {}, which needs ROCm {}.{}", library.version(),
                       library.path, target, known->rocm_major, known->rocm_minor);
  }
  return {};
}

Offer Hiprtc::offer(std::string_view target) {
  std::string problem = obstacle(target);
  // The LLVM 15 of ROCm 5 is the last resort; a ROCm that fits the driver comes first.
  return {problem.empty() && found().major >= 6 ? 0 : 2, std::move(problem)};
}

std::string Hiprtc::identity() {
  const Found& library = found();
  if (!library.problem.empty()) throw Error(ErrorCode::environment, library.problem);
  return library.identity;
}

std::vector<std::string> Hiprtc::options(const CompileJob& job) const {
  return {"--offload-arch=" + job.target, "-std=c++20", "-O3"};
}

Binary Hiprtc::compile(const CompileJob& job) {
  const Manifest& manifest = job.source.manifest;
  if (const std::string problem = obstacle(job.target); !problem.empty())
    throw Error(ErrorCode::environment, problem);
  const auto start = std::chrono::steady_clock::now();
  std::string request;
  put(request, "compile");
  put(request, found().path);
  put(request, manifest.name + ".hip");
  put(request, job.source.text);
  for (const std::string& option : options(job)) put(request, option);
  const ScratchFolder scratch;
  const ProcessResult helper = ask(request, scratch);
  std::vector<std::string> answer = fields_of(helper.output);

  Binary binary;
  binary.log = helper.errors + (answer.size() > 1 ? answer[1] : "");
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::compile, fmt::format("HIPRTC {} {} {}.hip for {}: {}\n{}", found().version(),
                                                helper.ok() ? "refused" : "failed on", manifest.name,
                                                job.target, what, binary.log));
  };
  if (!helper.ok()) {
    const std::string said = first_error(binary.log);
    refuse(fmt::format("the compiler's process had {}{}", helper.end(), said.empty() ? "" : ": " + said));
  }
  if (answer.size() != 3 || answer[0] != "ok" || answer[2].empty()) {
    const std::string said = first_error(binary.log);
    refuse(!said.empty() ? said : answer.size() == 3 ? answer[2] : "no answer");
  }
  binary.image = std::move(answer[2]);
  binary.compiler = found().identity;
  binary.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  finish_code_object(binary, job);
  return binary;
}

DoctorReport::Compiler Hiprtc::probe() {
  const Found& library = found();
  DoctorReport::Compiler report;
  report.kind = "hiprtc";
  report.found = library.problem.empty();
  report.path = library.path;
  report.problem = library.problem;
  if (!report.found) return report;
  report.version = library.version();
  try_targets(*this, report);
  return report;
}

}  // namespace kiln
