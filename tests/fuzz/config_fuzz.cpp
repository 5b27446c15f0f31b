// libFuzzer target of the config parser, planner and emitter: any text gives a config or an Error, a config
// plans or is refused, and a plan has a source. Run: kiln_config_fuzz tests/fuzz/corpus/config
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <kiln/generator.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const kiln::Config config = kiln::parse_config({reinterpret_cast<const char*>(data), size}, "fuzz");
    const kiln::Config again = kiln::parse_config(kiln::to_json(config), "again");
    if (kiln::to_json(again) != kiln::to_json(config)) std::abort();
    const kiln::Plan plan = kiln::make_plan(config);
    if (plan.to_json().empty() || kiln::generate(plan).text.empty()) std::abort();
  } catch (const kiln::Error& error) {
    if (error.code() != kiln::ErrorCode::bad_config) std::abort();
  }
  return 0;
}
