#include "cli/execute/program_environment.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <kiln/error.hpp>
#include <set>

#include "cli/execute/architectures.hpp"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kRuntime = "libcudart.so.13";

/// The stand-ins' folder: in the build folder, or where the package has it.
fs::path library_folder() {
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& folder :
       {here / "kiln-driver", here.parent_path() / KILN_INSTALL_LIBDIR / "kiln" / "driver"})
    if (fs::exists(folder / kDriver, ignored)) return folder;
  throw Error(
      ErrorCode::environment,
      fmt::format("no {} of kiln beside {}: it is built and installed with kiln", kDriver, here.string()));
}

std::string before(const char* variable, const std::string& value, char separator) {
  const char* const now = std::getenv(variable);
  return now == nullptr || *now == '\0' ? value : value + separator + now;
}

}  // namespace

std::string gpu_names() {
  std::string out;
  for (const driver::Gpu& gpu : driver::gpus()) out += (out.empty() ? "" : ", ") + std::string(gpu.name);
  return out;
}

/// Of all GPUs, in ascending order.
std::vector<int> architectures() {
  std::set<int> numbers;
  for (const driver::Gpu& gpu : driver::gpus()) numbers.insert(gpu.cc());
  return {numbers.begin(), numbers.end()};
}

const driver::Gpu& chosen_gpu(const ProgramOptions& o) {
  if (!o.gpu.empty() && !o.arch.empty())
    throw Error(ErrorCode::bad_input, "--gpu and --arch say the same: give one of them");
  const bool by_arch = !o.arch.empty();
  const std::string& name = by_arch ? o.arch : o.gpu;
  if (name.empty()) return driver::gpus().front();
  const driver::Gpu* gpu = by_arch && !name.starts_with("sm_") ? nullptr : driver::find_gpu(name);
  if (gpu == nullptr)
    throw Error(ErrorCode::bad_input, by_arch
                                          ? no_architecture(name, architectures())
                                          : fmt::format("--gpu: no '{}'; there are {}", name, gpu_names()));
  return *gpu;
}

std::vector<std::pair<std::string, std::string>> program_environment(const ProgramOptions& o,
                                                                     const driver::Gpu& gpu,
                                                                     const std::string& report) {
  const std::string folder = library_folder().string();
  std::vector<std::pair<std::string, std::string>> out = {
      {"LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", folder, ':')},
      {"LD_PRELOAD", before("LD_PRELOAD", folder + "/" + kRuntime, ':')},
      {"KILN_DRIVER_REPORT", report},
      {"KILN_DRIVER_OPTIONS",
       fmt::format("gpu={};policy={};seed={};budget={};findings={};threads={}{}{}{}", gpu.name, o.policy,
                   o.seed, o.budget, o.findings ? "on" : "off", o.threads,
                   o.sms == 0 ? "" : fmt::format(";sms={}", o.sms), o.tell_launches ? ";launches=on" : "",
                   o.end_at_finding ? ";end_at_finding=on" : "")},
      // Where Triton looks for the driver, and what it takes its "machine code" from.
      {"TRITON_LIBCUDA_PATH", folder},
      {"TRITON_PTXAS_PATH", folder + "/ptxas"},
      {"TRITON_PTXAS_BLACKWELL_PATH", folder + "/ptxas"}};
  if (!o.change.empty()) out.emplace_back("KILN_DRIVER_CHANGE", o.change);
  // CuPy's CUB is machine code; without it, it reduces with kernels that it compiles.
  if (std::getenv("CUPY_ACCELERATORS") == nullptr) out.emplace_back("CUPY_ACCELERATORS", "");
  return out;
}

}  // namespace kiln::cli
