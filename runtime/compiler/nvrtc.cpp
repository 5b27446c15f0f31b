#include "runtime/compiler/nvrtc.hpp"

#include <fmt/format.h>

#include <signal.h>

#include <chrono>
#include <optional>

#include "runtime/support/environment.hpp"

namespace kiln {
namespace {

/// NVRTC handles these signals itself while it compiles, and ends the process with a status of its own.
/// Blocked in the compiling thread they are another thread's, or wait until the compiler is done and the
/// program's own handlers stand again.
class SignalsLater {
 public:
  SignalsLater() {
    sigset_t endings;
    sigemptyset(&endings);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&endings, signal);
    pthread_sigmask(SIG_BLOCK, &endings, &before_);
  }
  ~SignalsLater() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsLater(const SignalsLater&) = delete;
  SignalsLater& operator=(const SignalsLater&) = delete;

 private:
  sigset_t before_;
};

/// Owns one program; a program belongs to one thread, several may compile at once.
class Program {
 public:
  Program(const NvrtcApi& api, const std::string& text, const std::string& file) : api_(api) {
    if (api.create(&program_, text.c_str(), file.c_str(), 0, nullptr, nullptr) != NvrtcApi::kSuccess) {
      throw Error(ErrorCode::compile, "NVRTC cannot create a program for " + file);
    }
  }
  ~Program() { api_.destroy(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  NvrtcApi::Result compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    pointers.reserve(options.size());
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return api_.compile(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::optional<std::string> log() const { return text(api_.log_size, api_.log, true); }
  std::string ptx() const { return text(api_.ptx_size, api_.ptx, true).value_or(""); }
  std::string cubin() const { return text(api_.cubin_size, api_.cubin, false).value_or(""); }

 private:
  using Size = NvrtcApi::Result (*)(NvrtcApi::Program, std::size_t*);
  using Get = NvrtcApi::Result (*)(NvrtcApi::Program, char*);
  std::optional<std::string> text(Size size, Get get, bool terminated) const {
    std::size_t bytes = 0;
    if (size(program_, &bytes) != NvrtcApi::kSuccess) return std::nullopt;
    std::string result(bytes, '\0');
    if (bytes > 0 && get(program_, result.data()) != NvrtcApi::kSuccess) return std::nullopt;
    // NVRTC 13 ends a log with more than one.
    while (terminated && !result.empty() && result.back() == '\0') result.pop_back();
    return result;
  }

  const NvrtcApi& api_;
  NvrtcApi::Program program_ = nullptr;
};

}  // namespace

const NvrtcApi& Nvrtc::api() {
  std::lock_guard lock(mutex_);
  if (!api_) {
    api_ = open_nvrtc(driver_cuda_major_());
    identity_ = fmt::format("nvrtc {}.{} {}", api_->major, api_->minor, content_id(api_->path));
    // Under kiln emulate it gives PTX for machine code, which no GPU's cache may hold.
    if (!environment("KILN_DRIVER_OPTIONS").empty()) identity_ += " of kiln emulate";
  }
  return *api_;
}

std::vector<int> Nvrtc::architectures() {
  const NvrtcApi& nvrtc = api();
  int count = 0;
  if (nvrtc.architecture_count == nullptr || nvrtc.architectures == nullptr ||
      nvrtc.architecture_count(&count) != NvrtcApi::kSuccess || count <= 0)
    return {};
  std::vector<int> numbers(static_cast<std::size_t>(count));
  if (nvrtc.architectures(numbers.data()) != NvrtcApi::kSuccess) return {};
  return numbers;
}

Offer Nvrtc::offer(std::string_view) {
  try {
    api();
    return {};
  } catch (const Error& error) {
    return {0, error.what()};
  }
}

std::string Nvrtc::identity() {
  api();
  return identity_;
}

std::vector<std::string> Nvrtc::options(const CompileJob& job) const {
  if (job.ptx_only)  // sm_90a: compute_90a
    return {"--gpu-architecture=compute" + job.target.substr(job.target.find('_')), "--std=c++20",
            "-lineinfo"};
  return {"--gpu-architecture=" + job.target, "--std=c++20", "-lineinfo", "--ptxas-options=-v"};
}

Binary Nvrtc::compile(const CompileJob& job) {
  const NvrtcApi& nvrtc = api();
  const Manifest& manifest = job.source.manifest;
  const auto start = std::chrono::steady_clock::now();
  // A fixed absolute name: -lineinfo would otherwise store the working directory, and bytes would differ by
  // it.
  Program program(nvrtc, job.source.text, "/kiln/" + manifest.name + ".cu");
  std::vector<std::string> all = options(job);
  // The driver keeps its own copy of results since 12.9; our cache makes that a waste.
  if (nvrtc.major > 12 || nvrtc.minor >= 9) all.push_back("--no-cache");
  const NvrtcApi::Result result = [&] {
    const SignalsLater later;
    return program.compile(all);
  }();

  Binary binary;
  const std::optional<std::string> log = program.log();
  binary.log = log.value_or("");
  if (result != NvrtcApi::kSuccess) {
    std::string summary = first_error(binary.log);
    if (summary.empty()) summary = nvrtc.error_string(result);
    const bool misses = result == NvrtcApi::kBuiltin || result == NvrtcApi::kInvalidOption;
    if (misses && summary.find("gpu-architecture") != std::string::npos) {
      summary +=
          fmt::format(" (NVRTC {}.{} is too old or too new for {})", nvrtc.major, nvrtc.minor, job.target);
    }
    throw Error(misses ? ErrorCode::environment : ErrorCode::compile,
                fmt::format("NVRTC {}.{} refused {}.cu for {}: {}\n{}", nvrtc.major, nvrtc.minor,
                            manifest.name, job.target, summary, binary.log));
  }
  // Registers and spills are told there: without it nothing about the kernel is known.
  if (!log) throw Error(ErrorCode::compile, "NVRTC gave no log of " + manifest.name + ".cu");
  binary.name = manifest.name;
  binary.entry = manifest.entry;
  binary.target = job.target;
  binary.compiler = identity_;
  binary.ptx = program.ptx();
  if (!job.ptx_only) binary.image = program.cubin();
  if ((binary.image.empty() && !job.ptx_only) || binary.ptx.empty()) {
    throw Error(ErrorCode::compile, "NVRTC gave no program for " + manifest.name + ".cu\n" + binary.log);
  }
  binary.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!job.ptx_only) read_ptxas_log(binary);
  check_expectations(binary, manifest);
  return binary;
}

DoctorReport::Compiler Nvrtc::probe() {
  DoctorReport::Compiler report;
  report.kind = "nvrtc";
  try {
    const NvrtcApi& nvrtc = api();
    report.found = true;
    report.path = nvrtc.path;
    report.version = fmt::format("{}.{}", nvrtc.major, nvrtc.minor);
    for (const Target target : kTargetList) {
      if (is_amd(target)) continue;
      KernelSource trial;
      trial.text = "extern \"C\" __global__ void kiln_probe() {}\n";
      trial.manifest.name = trial.manifest.entry = "kiln_probe";
      try {
        compile({trial, std::string(to_string(target))});
        report.targets.emplace_back(to_string(target));
      } catch (const Error& error) {
        report.problem = error.what();
        report.problem.resize(std::min(report.problem.find('\n'), report.problem.size()));
      }
    }
  } catch (const Error& error) {
    report.problem = error.what();
  }
  return report;
}

}  // namespace kiln
