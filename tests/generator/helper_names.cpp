// Names of the helpers of emitted CUDA sources. NVRTC has few declarations of its own; nvcc includes CUDA's headers,
// which declare functions without underscores, too: a helper of such a name compiles with the one and not with the other.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

// Global device functions of CUDA's headers (device_functions.hpp, sm_20_intrinsics.hpp, math_functions.h) that could be
// taken for a helper's name.
const std::set<std::string> taken{"all",
                                  "any",
                                  "ballot",
                                  "brev",
                                  "clock",
                                  "clock64",
                                  "clz",
                                  "clzll",
                                  "double_as_long",
                                  "fdividef",
                                  "ffs",
                                  "ffsll",
                                  "float2half",
                                  "float_as_int",
                                  "fma",
                                  "fmaf",
                                  "half2float",
                                  "int_as_float",
                                  "llmax",
                                  "llmin",
                                  "long_as_double",
                                  "max",
                                  "min",
                                  "mul24",
                                  "mul64hi",
                                  "mulhi",
                                  "popc",
                                  "popcll",
                                  "rsqrt",
                                  "rsqrtf",
                                  "sad",
                                  "saturate",
                                  "sinpi",
                                  "syncthreads",
                                  "syncthreads_and",
                                  "syncthreads_count",
                                  "syncthreads_or",
                                  "threadfence",
                                  "trap",
                                  "ullmax",
                                  "umax",
                                  "umin",
                                  "umul24",
                                  "umul64hi",
                                  "umulhi",
                                  "usad",
                                  "normcdf",
                                  "exp10"};

}  // namespace

TEST_CASE("helpers of emitted CUDA sources have names that CUDA's headers leave free") {
  const std::regex helper(R"(__device__ __forceinline__ [\w:]+[ *]+(\w+)\()");
  int helpers = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(KILN_SOURCE_DIR) / "templates")) {
    if (entry.path().extension() != ".cuh") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string all = text.str();
    for (std::sregex_iterator match(all.begin(), all.end(), helper), end; match != end; ++match, ++helpers) {
      INFO(entry.path().filename().string(), ": ", (*match)[1].str());
      CHECK_FALSE(taken.contains((*match)[1].str()));
    }
  }
  CHECK(helpers > 40);
}
