// The emulated device against a real GPU: every case of the suite runs here and must reproduce the recorded
// output, bit for bit unless the case states a bound (matrix sums of fractions, approximate functions). See
// bench/conformance for how to record.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>
#include "emulator/tensor/numeric.hpp"
#include "tests/emulator/conformance/recording.hpp"
#include "tests/emulator/conformance/suite.hpp"

namespace {

using conformance::Bound;
using conformance::Case;
using kiln::emulator::FloatFormat;

std::vector<std::byte> as_bytes(const void* data, std::size_t size) {
  const auto* p = static_cast<const std::byte*>(data);
  return {p, p + size};
}

/// Runs a case; its output, or what went wrong.
struct Outcome {
  std::vector<std::uint8_t> output;
  std::string problem;
};

Outcome run(const Case& c) {
  namespace emu = kiln::emulator;
  Outcome outcome;
  try {
    emu::GlobalMemory memory;
    const std::uint64_t in = memory.allocate(c.input.size(), "in");
    const std::uint64_t out = memory.allocate(c.output.size(), "out");
    memory.write(in, std::as_bytes(std::span(c.input)));
    memory.write(out, std::as_bytes(std::span(c.output)));
    emu::Launch launch;
    launch.kernel = "kernel";
    launch.block.x = c.threads;
    launch.dynamic_smem_bytes = c.dynamic_shared_bytes;
    launch.host_threads = 1;
    launch.args = {as_bytes(&in, sizeof in), as_bytes(&out, sizeof out)};
    if (c.map) {
      emu::TensorMapRequest request = *c.map;
      request.address += c.map_on_output ? out : in;
      const emu::TensorMapBytes map = emu::encode_tensor_map(request);
      launch.args.push_back(as_bytes(map.data(), map.size()));
    }
    const emu::Module module =
        emu::Module::from_ptx(conformance::kModuleHeader + conformance::kernel_text(c, "kernel"));
    const emu::Report report = emu::launch(memory, module, launch);
    if (!report.findings.empty()) {
      outcome.problem = fmt::format("{} finding(s), the first: {}: {}", report.findings.size(),
                                    report.findings[0].kind, report.findings[0].message);
    } else if (!report.completed) {
      outcome.problem = "did not complete";
    }
    outcome.output.resize(c.output.size());
    memory.read(out, std::as_writable_bytes(std::span(outcome.output)));
  } catch (const std::exception& error) {
    outcome.problem = error.what();
  }
  return outcome;
}

FloatFormat float_format_of(Bound::Kind kind) {
  switch (kind) {
    case Bound::Kind::f16:
      return FloatFormat::f16;
    case Bound::Kind::bf16:
      return FloatFormat::bf16;
    case Bound::Kind::f64:
      return FloatFormat::f64;
    default:
      return FloatFormat::f32;
  }
}

/// How far `got` is from `want` as a fraction of the bound; above 1 is a failure. NaN matches NaN.
double distance(double got, double want, const Bound& bound) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : 1e9;
  if (got == want) return 0;
  if (std::isinf(got) || std::isinf(want)) return 1e9;
  const double allowed = bound.absolute + bound.relative * std::fabs(want);
  return allowed > 0 ? std::fabs(got - want) / allowed : 1e9;
}

/// First difference beyond the bound, as text; raises `worst` to the largest fraction of the bound that was
/// used.
std::string compare(const Case& c, const std::vector<std::uint8_t>& got,
                    const conformance::RecordedCase& want, double& worst) {
  if (c.bound.kind == Bound::Kind::exact) {
    if (conformance::hash_bytes(got.data(), got.size()) == want.digest) return {};
    if (want.output.empty()) return "the digest of the output differs";
    std::size_t at = 0, wrong = 0;
    for (std::size_t i = got.size(); i-- > 0;) {
      if (got[i] == want.output[i]) continue;
      at = i;
      ++wrong;
    }
    const std::size_t word = at / 4 * 4, size = std::min<std::size_t>(4, got.size() - word);
    std::uint32_t a = 0, b = 0;
    std::memcpy(&a, got.data() + word, size);
    std::memcpy(&b, want.output.data() + word, size);
    return fmt::format("{} of {} bytes differ, the first in word {}: {:08x}, recorded {:08x}", wrong,
                       got.size(), word / 4, a, b);
  }
  const FloatFormat format = float_format_of(c.bound.kind);
  const std::size_t size = static_cast<std::size_t>(kiln::emulator::bit_width(format)) / 8;
  for (std::size_t at = 0; at + size <= got.size(); at += size) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, got.data() + at, size);
    std::memcpy(&b, want.output.data() + at, size);
    const double x = kiln::emulator::to_double(format, a), y = kiln::emulator::to_double(format, b);
    const double fraction = distance(x, y, c.bound);
    worst = std::max(worst, fraction);
    if (fraction > 1) return fmt::format("element {}: {} ({:x}), recorded {} ({:x})", at / size, x, a, y, b);
  }
  return {};
}

std::string family_of(const Case& c) {
  return c.name.substr(0, c.name.find('/'));
}

}  // namespace

TEST_CASE("conformance: every instruction form gives what the hardware gave") {
  const std::string path = std::string(KILN_SOURCE_DIR) + "/tests/data/conformance/h200.bin";
  std::string error;
  const auto recording = conformance::load(path, error);
  REQUIRE_MESSAGE(error.empty(), error);
  if (!recording) {
    MESSAGE(
        "no recording at tests/data/conformance/h200.bin: the forms are run, but not compared "
        "(bench/conformance/README.md)");
  }
  std::map<std::string, double> worst;  // fraction of the stated bound that was used, by family
  std::size_t compared = 0;
  for (const Case& c : conformance::all_cases()) {
    const Outcome outcome = run(c);
    CHECK_MESSAGE(outcome.problem.empty(), c.name << ": " << outcome.problem);
    if (!recording || !outcome.problem.empty()) continue;
    const auto found = recording->cases.find(c.name);
    if (found == recording->cases.end() || found->second.case_hash != conformance::case_hash(c)) {
      FAIL_CHECK(c.name << ": not in the recording, or changed since; record it again");
      continue;
    }
    ++compared;
    const std::string difference = compare(c, outcome.output, found->second, worst[family_of(c)]);
    CHECK_MESSAGE(difference.empty(), c.name << ": " << difference);
  }
  if (recording) {
    MESSAGE(compared << " cases compared with " << recording->device);
    for (const auto& [family, fraction] : worst) {
      if (fraction > 0) MESSAGE(family << ": at most " << fraction << " of the stated bounds");
    }
  }
}
