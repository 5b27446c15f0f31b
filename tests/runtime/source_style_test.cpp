// A compact kernel compiles to the instructions of the unrolled one, in an order that may differ.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <kiln/generator.hpp>

#include "tests/runtime/amd_support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

/// The binaries of both styles of `config`, under one name; none where no compiler is here.
std::vector<std::shared_ptr<const Binary>> both_styles(Runtime& runtime, const char* config) {
  Config c = parse_config(config, "test");
  const KernelSource unrolled = generate(make_plan(c));
  c.name = unrolled.manifest.name;
  c.source_style = "compact";
  const KernelSource compact = generate(make_plan(c));
  // Strips are a part of a text that also has helpers, copies and waits.
  CHECK(compact.text.size() * 10 < unrolled.text.size() * 9);
  try {
    return {runtime.compile(unrolled), runtime.compile(compact)};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::environment) throw;
    MESSAGE("skipped: " << error.what());
    return {};
  }
}

/// How often each instruction occurs in the PTX. The compiler's front end turns a comparison of a loop's variable
/// around ("8 * i >= end" to "end <= 8 * i") and begins chains with moves: comparisons count as one kind, moves not.
std::map<std::string, int> instruction_counts(const std::string& ptx) {
  std::map<std::string, int> out;
  for (std::size_t at = 0; at < ptx.size();) {
    const std::size_t end = std::min(ptx.find('\n', at), ptx.size());
    const std::string line = ptx.substr(at, end - at);
    at = end + 1;
    const std::size_t first = line.find_first_not_of(" \t{");
    if (first == std::string::npos || line[first] < 'a' || line[first] > 'z') continue;
    const std::string name = line.substr(first, line.find_first_of(" \t;", first) - first);
    if (!name.starts_with("mov.")) ++out[name.starts_with("setp.") ? "setp" : name];
  }
  return out;
}

}  // namespace

TEST_CASE("NVIDIA: both styles are the same instructions, without a spill or a warning") {
  Runtime runtime(quiet());
  for (const char* config : {
           R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64, "mask": "causal"})",
           R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128, "mask": "causal"})",
           R"({"target": "sm_90a", "operation": "prefill", "dtype": "fp8_e4m3", "depth": 128})",
       }) {
    CAPTURE(config);
    const auto made = both_styles(runtime, config);
    if (made.empty()) return;
    CHECK(made[1]->warnings.empty());
    CHECK(made[1]->spill_bytes == 0);
    CHECK(instruction_counts(made[1]->ptx) == instruction_counts(made[0]->ptx));
  }
}
