#include "tests/driver/compile.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace kiln::test {
namespace {

std::string find_nvcc() {
  for (const char* path : {"/usr/local/cuda/bin/nvcc", "nvcc"})
    if (std::system(fmt::format("{} --version >/dev/null 2>&1", path).c_str()) == 0) return path;
  return {};
}

}  // namespace

std::string compile(const std::string& name, const std::string& options) {
  static const std::string nvcc = find_nvcc();
  if (nvcc.empty()) {
    MESSAGE("no nvcc: " << name << " is not run");
    return {};
  }
  std::string out = scratch() + name;
  std::replace(out.begin() + static_cast<std::ptrdiff_t>(scratch().size()), out.end(), '/', '_');
  REQUIRE(std::system(fmt::format("{} -std=c++17 {} -o {} {}/tests/driver/{}.cu 2>{}.log", nvcc, options, out,
                                  KILN_SOURCE_DIR, name, out)
                          .c_str()) == 0);
  return out;
}

}  // namespace kiln::test
