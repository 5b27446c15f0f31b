// 2^x on the FMA pipe of sm_100a (`exp2_pair_fma`): the emulated device beside float64, over its whole range, at whole
// numbers and their neighbours, and where it ends.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <kiln/emulator/emulator.hpp>
#include <kiln/runtime.hpp>

#include "generator/emit/prelude.hpp"
#include "tests/emulated_options.hpp"
#include "tests/expressions/argument.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr int kThreads = 128;
constexpr float kInfinite = std::numeric_limits<float>::infinity();

KernelSource kernel_source() {
  Prelude prelude("sm100.cuh");
  prelude.use("types");
  prelude.use("exp2_pair_fma");
  KernelSource source = make_source("exponentials", prelude.lines().text() + R"(
extern "C" __global__ void kernel(float2* x, int n) {
  for (int i = threadIdx.x; i < n; i += )" + std::to_string(kThreads) +
                                                        R"() {
    float2 v = x[i];
    exp2_pair_fma(v.x, v.y);
    x[i] = v;
  }
}
)");
  source.manifest.target = "sm_100a", source.manifest.num_threads = kThreads;
  return source;
}

/// An even number of values.
std::vector<float> exponentials(std::vector<float> x) {
  RuntimeOptions options = test::emulated_options();
  options.cache_dir = "";
  Runtime runtime(options);
  const auto binary = runtime.compile(kernel_source());
  emulator::GlobalMemory memory;
  const std::uint64_t at = memory.allocate(x.size() * sizeof(float));
  memory.write(at, std::as_bytes(std::span(x)));
  emulator::Launch launch;
  launch.block = {kThreads, 1, 1};
  launch.args = {argument(at), argument(static_cast<int>(x.size() / 2))};
  const auto report = emulator::launch(memory, emulator::Module::from_ptx(binary->ptx), launch);
  for (const auto& finding : report.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  memory.read(at, std::as_writable_bytes(std::span(x)));
  return x;
}

}  // namespace

TEST_CASE("exponentials on the FMA pipe of sm_100a: error, whole numbers, ends of the range") {
  std::vector<float> x;
  for (int n = -126; n < 128; ++n) {
    const auto whole = static_cast<float>(n);
    x.insert(x.end(), {whole, std::nextafter(whole, 200.0F)});
    if (n > -126) x.insert(x.end(), {std::nextafter(whole, -200.0F), whole + 0.5F});
  }
  std::mt19937_64 random(20261125);
  std::uniform_real_distribution<float> wide(-126.0F, 127.99F), softmax(-20.0F, 8.0F);
  for (int i = 0; i < 10000; ++i) x.insert(x.end(), {wide(random), softmax(random)});
  const std::vector<float> got = exponentials(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wanted = std::exp2(static_cast<double>(x[i]));
    if (x[i] == std::floor(x[i])) CHECK_MESSAGE(got[i] == static_cast<float>(wanted), x[i]);
    worst = std::max(worst, std::isfinite(got[i]) ? std::abs(got[i] / wanted - 1) : kInfinite);
  }
  CHECK(worst < 9e-5);
  CHECK(worst > 5e-5);  // the polynomial's, not that of a better function

  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> below{-126.5F, -127.0F, -128.0F, -1000.0F, -3e38F, -kInfinite, nan, 1.0F};
  const std::vector<float> ends = exponentials(below);
  for (std::size_t i = 0; i < 6; ++i) CHECK_MESSAGE(ends[i] == 0.0F, below[i]);
  CHECK(std::isnan(ends[6]));
  CHECK(ends[7] == 2.0F);
}
