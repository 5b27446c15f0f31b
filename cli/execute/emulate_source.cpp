#include "cli/execute/emulate_source.hpp"

#include <filesystem>

#include "runtime/compiler/nvrtc.hpp"

namespace kiln::cli {

bool is_cuda_source(const std::string& path) {
  return path.ends_with(".cu");
}

std::string ptx_of_source(const std::string& path, const std::string& text, const std::string& architecture) {
  KernelSource source;
  source.text = text;
  source.manifest.name = std::filesystem::path(path).stem().string();
  std::string target = architecture.empty() ? "sm_90" : architecture;
  if (target == "sm_90" || target == "sm_100") target += 'a';
  Nvrtc nvrtc([] { return 0; });  // whatever driver there is does not run it
  return nvrtc.compile({source, target}).ptx;
}

}  // namespace kiln::cli
