#include "runtime/compiler/nvrtc_api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include <kiln/error.hpp>

#include "runtime/support/environment.hpp"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr int kNewestMajor = 13, kOldestMajor = 12;

/// Folders of the nvidia-cuda-nvrtc wheel: beside the Python package that holds this code, and inside virtual environments,
/// the active one and those at or above this library, the executable and the working directory.
std::vector<fs::path> wheel_folders() {
  const fs::path own = own_folder();
  std::vector<fs::path> environments, sites;
  if (!own.empty()) sites.push_back(own.parent_path());
  if (const std::string active = environment("VIRTUAL_ENV"); !active.empty())
    environments.emplace_back(active);
  std::error_code error;
  for (fs::path folder :
       {own, fs::read_symlink("/proc/self/exe", error).parent_path(), fs::current_path(error)}) {
    for (int level = 0; level < 4 && folder.has_relative_path(); ++level, folder = folder.parent_path()) {
      environments.push_back(folder / ".venv");
    }
  }
  for (const fs::path& venv : environments) {
    for (const auto& python : fs::directory_iterator(venv / "lib", error))
      sites.push_back(python.path() / "site-packages");
  }
  std::vector<fs::path> folders;
  for (const fs::path& site : sites) {
    for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) {
      if (fs::is_directory(site / wheel, error)) folders.push_back(site / wheel);
    }
  }
  return folders;
}

/// Opens the builtins library that lies beside NVRTC, so that NVRTC's own search by soname finds it loaded.
/// Returns what is wrong, or nothing.
std::string open_builtins(const NvrtcApi& api) {
  const fs::path folder = fs::path(api.path).parent_path();
  for (const std::string& name : {fmt::format("libnvrtc-builtins.so.{}.{}", api.major, api.minor),
                                  fmt::format("libnvrtc-builtins.so.{}", api.major)}) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) continue;
    std::string problem;
    DynamicLibrary::open((folder / name).string(), &problem);
    return problem;
  }
  std::string problem;
  const std::string soname = fmt::format("libnvrtc-builtins.so.{}.{}", api.major, api.minor);
  if (DynamicLibrary::open(soname, &problem)) return {};
  return soname + " is missing beside " + api.path;
}

bool resolve_all(NvrtcApi& api) {
  const DynamicLibrary& lib = api.library;
  lib.resolve(api.architecture_count, "nvrtcGetNumSupportedArchs");
  lib.resolve(api.architectures, "nvrtcGetSupportedArchs");
  return lib.resolve(api.version, "nvrtcVersion") && lib.resolve(api.error_string, "nvrtcGetErrorString") &&
         lib.resolve(api.create, "nvrtcCreateProgram") && lib.resolve(api.destroy, "nvrtcDestroyProgram") &&
         lib.resolve(api.compile, "nvrtcCompileProgram") && lib.resolve(api.log, "nvrtcGetProgramLog") &&
         lib.resolve(api.log_size, "nvrtcGetProgramLogSize") && lib.resolve(api.ptx, "nvrtcGetPTX") &&
         lib.resolve(api.ptx_size, "nvrtcGetPTXSize") && lib.resolve(api.cubin, "nvrtcGetCUBIN") &&
         lib.resolve(api.cubin_size, "nvrtcGetCUBINSize");
}

}  // namespace

std::vector<std::string> nvrtc_candidates(int driver_cuda_major) {
  if (std::string chosen = environment("KILN_NVRTC"); !chosen.empty()) return {chosen};
  std::vector<int> majors;
  for (int major = kNewestMajor; major >= kOldestMajor; --major) majors.push_back(major);
  // A cubin of a newer CUDA major is refused by the driver, so the driver's own major comes first.
  std::stable_partition(majors.begin(), majors.end(), [&](int major) { return major == driver_cuda_major; });

  std::vector<fs::path> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string home = environment(variable); !home.empty())
      folders.push_back(fs::path(home) / "lib64");
  }
  folders.emplace_back("/usr/local/cuda/lib64");
  for (const fs::path& folder : wheel_folders()) folders.push_back(folder);

  std::vector<std::string> candidates;
  for (int major : majors) {
    const std::string soname = fmt::format("libnvrtc.so.{}", major);
    candidates.push_back(soname);
    for (const fs::path& folder : folders) {
      std::error_code error;
      if (fs::exists(folder / soname, error)) candidates.push_back((folder / soname).string());
    }
  }
  return candidates;
}

NvrtcApi open_nvrtc(int driver_cuda_major) {
  std::string tried;
  for (const std::string& candidate : nvrtc_candidates(driver_cuda_major)) {
    NvrtcApi api;
    std::string problem;
    std::error_code error;
    // A folder is taken to mean the library inside it.
    std::string file = candidate;
    for (int major = kNewestMajor; major >= kOldestMajor && fs::is_directory(file, error); --major) {
      const fs::path inside = fs::path(candidate) / fmt::format("libnvrtc.so.{}", major);
      if (fs::exists(inside, error)) file = inside.string();
    }
    api.library = DynamicLibrary::open(file, &problem);
    if (!api.library) {
      tried += "; ";
      if (problem.find(candidate) == std::string::npos) tried.append(candidate).append(": ");
      tried += problem;
      continue;
    }
    api.path = api.library.path();
    if (!resolve_all(api) || api.version(&api.major, &api.minor) != NvrtcApi::kSuccess) {
      tried += "; " + file + ": is not an NVRTC library";
      continue;
    }
    if (problem = open_builtins(api); !problem.empty()) {
      tried += "; " + problem;
      continue;
    }
    return api;
  }
  throw Error(
      ErrorCode::environment,
      "no usable NVRTC: install the CUDA toolkit (12 or newer) or `python3 -m venv .venv && .venv/bin/pip "
      "install nvidia-cuda-nvrtc`, or set KILN_NVRTC to libnvrtc.so.13 (tried" +
          (tried.empty() ? std::string(" nothing") : tried.substr(1)) + ")");
}

}  // namespace kiln
