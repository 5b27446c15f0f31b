#include "cli/execute/emulate_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "cli/execute/architectures.hpp"
#include "cli/generate/compiler_message.hpp"
#include "runtime/compiler/nvrtc.hpp"

namespace kiln::cli {
namespace {

/// What NVRTC may be too old for, in which case the name is right all the same.
constexpr std::array kDocumented = {75, 80, 86, 89, 90, 100, 103};

/// Throws Error (bad_input) for a name of no architecture, (environment) for one that this NVRTC does not compile for.
void check_architecture(Nvrtc& nvrtc, const std::string& name) {
  const std::vector<int> known = nvrtc.architectures();
  const int number = architecture_number(name);
  if (number != 0 && (known.empty() || std::ranges::find(known, number) != known.end())) return;
  if (number == 0 || std::ranges::find(kDocumented, number) == kDocumented.end())
    throw Error(ErrorCode::bad_input,
                known.empty() ? no_architecture(name, kDocumented) : no_architecture(name, known));
  throw Error(ErrorCode::environment,
              fmt::format("--arch: this NVRTC ({}) does not compile for {}; it does for sm_{}",
                          nvrtc.probe().version, name, fmt::join(known, ", sm_")));
}

}  // namespace

bool is_cuda_source(const std::string& path) {
  return path.ends_with(".cu");
}

std::string ptx_of_source(const std::string& path, const std::string& text, const std::string& architecture) {
  KernelSource source;
  source.text = text;
  source.file = path;
  source.manifest.name = std::filesystem::path(path).stem().string();
  std::string target = architecture.empty() ? "sm_90" : architecture;
  if (target == "sm_90" || target == "sm_100" || target == "sm_103") target += 'a';
  Nvrtc nvrtc([] { return 0; });  // whatever driver there is does not run it
  check_architecture(nvrtc, target);
  try {
    return nvrtc.compile({source, target}).ptx;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::compile) throw;
    throw in_one_line(error, source);
  }
}

}  // namespace kiln::cli
