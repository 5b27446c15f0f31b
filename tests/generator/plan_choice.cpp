// The planner: which schedule plans a config, what is refused as not yet there, and what a plan shows.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>

#include <kiln/generator.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/plan/choose.hpp"
#include "generator/targets/target.hpp"

using namespace kiln;

namespace {

Config config_with(const char* extra, const char* target = "sm_80", const char* operation = "prefill") {
  Json document{{"target", target}, {"operation", operation}, {"dtype", "bf16"}, {"depth", 128}};
  document.update(json_of(extra));
  return parse_config(write_json(document), "test");
}

std::vector<std::string> refusals(const Config& config) {
  std::vector<std::string> lines;
  try {
    make_plan(config);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_config);
    for (const Violation& violation : error.violations()) lines.push_back(violation_line(violation));
  }
  return lines;
}

/// Every combination of a sweep file: `base` and one value per key of a grid, null leaving the key out.
std::vector<Json> combinations(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in);
  const Json sweep = json_of(std::string(std::istreambuf_iterator<char>(in), {}));
  std::vector<Json> out;
  for (const Json& grid : sweep["grids"]) {
    std::vector<Json> configs{sweep["base"]};
    for (const auto& [key, values] : grid.items()) {
      std::vector<Json> longer;
      for (const Json& config : configs) {
        for (const Json& value : values) {
          longer.push_back(config);
          if (!value.is_null()) longer.back()[key] = value;
        }
      }
      configs = std::move(longer);
    }
    out.insert(out.end(), configs.begin(), configs.end());
  }
  return out;
}

std::unique_ptr<Schedule> never(Config, Violations&) {
  return nullptr;
}

constexpr ScheduleEntry kEntries[] = {{"first", Target::sm_80, Operation::prefill, never},
                                      {"second", Target::sm_80, Operation::prefill, never},
                                      {"third", Target::sm_90a, Operation::decode, never}};

}  // namespace

TEST_CASE("the first schedule of a target and operation, or the one named") {
  Violations out;
  CHECK(choose_schedule(config_with("{}"), kEntries, out) == &kEntries[0]);
  CHECK(choose_schedule(config_with(R"({"schedule": "second"})"), kEntries, out) == &kEntries[1]);
  CHECK(choose_schedule(config_with("{}", "sm_90a", "decode"), kEntries, out) == &kEntries[2]);
  CHECK(out.empty());
  CHECK(choose_schedule(config_with(R"({"schedule": "third"})"), kEntries, out) == nullptr);
  REQUIRE(out.size() == 1);
  CHECK(violation_line(out[0]) ==
        "/schedule = \"third\": not-yet: sm_80 has no such prefill schedule (nearest legal: first, second)");
  out.clear();
  CHECK(choose_schedule(config_with("{}", "gfx942"), kEntries, out) == nullptr);
  REQUIRE(out.size() == 2);
  CHECK(violation_line(out[0]) ==
        "/target = \"gfx942\": not-yet: no schedule implements prefill on gfx942 yet; this version has sm_80 "
        "prefill, "
        "sm_90a decode (nearest legal: sm_80)");
  CHECK(out[1].pointer == "/operation");
}

TEST_CASE("a broken rule is reported before a missing schedule") {
  Config config;
  config.target = Target::sm_100a;
  config.depth = 128;
  config.BM = 48;  // built by hand: parse_config would have refused it
  const auto lines = refusals(config);
  REQUIRE_FALSE(lines.empty());
  for (const std::string& line : lines) CHECK(line.find("not-yet") == std::string::npos);
  config.BM = 256;
  config.schedule = "sm90_prefill";
  const auto later = refusals(config);
  REQUIRE(later.size() == 1);
  CHECK(later[0].find("not-yet: sm_100a has no such prefill schedule") != std::string::npos);
}

TEST_CASE("legal keys without an implementation are refused at their pointer, never ignored") {
  Violations out;
  refuse_unsupported(config_with(R"({"sink": true, "mask": "causal", "group": 4, "name": "x"})"), "some",
                     {"mask"}, out);
  REQUIRE(out.size() == 2);
  CHECK(violation_line(out[0]) ==
        "/sink = true: not-yet: schedule some does not take sink yet (nearest legal: leave it out)");
  CHECK(out[1].pointer == "/group");
  out.clear();
  refuse_value(config_with(R"({"mask": {"chunked": 64}})"), "/mask", "some has no chunked mask",
               "none, causal", out);
  CHECK(violation_line(out[0]) ==
        "/mask = {\"chunked\":64}: not-yet: some has no chunked mask (nearest legal: none, causal)");
  out.clear();
  break_rule(config_with(R"({"BN": 64})"), "V15", {"/BM", "/BN", "/depth"}, "too much", "", out);
  REQUIRE(out.size() == 2);
  CHECK(violation_line(out[0]) == "/BN = 64: V15: too much");
  CHECK(out[1].pointer == "/depth");
}

TEST_CASE("a schedule's refusal blames keys that are set") {
  const auto pointers = [](const char* text) {
    std::vector<std::string> out;
    try {
      make_plan(parse_config(text, "test"));
    } catch (const Error& error) {
      for (const Violation& v : error.violations()) out.push_back(v.pointer);
    }
    return out;
  };
  using Pointers = std::vector<std::string>;
  CHECK(pointers(R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 128,
                     "rope_depth": 64})") == Pointers{"/rope_depth"});
  CHECK(pointers(R"({"target": "gfx942", "operation": "decode", "dtype": "bf16", "depth": 128,
                     "rope_depth": 64, "nope_depth": 64})") == Pointers{"/nope_depth", "/rope_depth"});
  // Defaults that follow from what was set, and tiles that do not fit though nothing but the depth was.
  CHECK(pointers(R"({"target": "gfx942", "operation": "decode", "dtype": "fp16", "depth": 64,
                     "WM": 48})") == Pointers{"/WM"});
  CHECK(pointers(R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 320})") ==
        Pointers{"/depth"});
  CHECK(pointers(R"({"target": "sm_90a", "operation": "prefill", "dtype": "fp16", "depth": 256,
                     "BM": 192})") == Pointers{"/BM"});
  CHECK(pointers(R"({"target": "gfx90a", "operation": "decode", "dtype": "bf16", "depth": 192,
                     "ov_depth": 128, "v_from_k": true, "full_kv": false})") == Pointers{"/full_kv"});
  CHECK(
      pointers(R"({"target": "gfx942", "operation": "prefill", "dtype": "bf16", "depth": 320, "BM": 96})") ==
      Pointers{"/BM"});
  // V of two blocks of 64 columns, not 128 as its four fragments want: it is not the depth that is wrong.
  CHECK(pointers(R"({"target": "gfx942", "operation": "prefill", "dtype": "fp8_e4m3fnuz", "depth": 128,
                     "full_kv": false})") == Pointers{"/full_kv"});
}

TEST_CASE("every key is either taken by a schedule and shown as resolved, or refused") {
  // For each schedule and each key it might silently drop: the set value must come back in `resolved`.
  const Json values =
      json_of(R"({"sink": true, "lse": true, "mask": "causal", "group": 2, "split_kv": 2, "scale": 0.5,
    "score_mod": "alibi", "out_dtype": "fp16", "ov_depth": 64, "v_from_k": true, "swizzle": "64B", "q_depth": 128,
    "cache_depth": 256, "head_dim_offset": 64, "rope_depth": 64, "num_q_heads": 8, "kv_num_heads": 2, "BM": 128, "BN": 64,
    "num_threads": 256, "num_kv_stages": 2, "scale_placement": "prescale_q", "kv_dtype": "int8",
    "operand": {"kind": "ragged"}, "cluster": 2, "exp_offload": 0.5, "tma_fold": "none", "shared_ring": true,
    "num_smem_stages": 2, "full_kv": false, "swizzle_k": "64B", "pv_operand": "shared", "num_qk_stages": 2})");
  for (const ScheduleEntry& entry : schedules()) {
    for (const auto& [name, value] : values.items()) {
      const KeySpec* key = find_key(name);
      if ((key->targets & only(entry.target)) == 0) continue;
      Json document{{"target", to_string(entry.target)},
                    {"operation", to_string(entry.operation)},
                    {"dtype", "bf16"},
                    {"depth", 128},
                    {name, value}};
      CAPTURE(write_json(document));
      try {
        const Plan plan = make_plan(parse_config(write_json(document), "test"));
        const Json resolved = config_to_dom(plan.resolved());
        REQUIRE(resolved.contains(name));
        CHECK(resolved[name] == value);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::bad_config);
        CHECK(std::string(error.what()).find("/" + name) != std::string::npos);
      }
    }
  }
}

TEST_CASE(
    "the schedule that the registry chooses is the one that plans, on AMD by what the config asks for") {
  for (const char* keys :
       {R"({"depth": 128)", R"({"depth": 192)", R"({"depth": 512)", R"({"depth": 256, "full_kv": false)",
        R"({"depth": 576, "ov_depth": 512, "v_from_k": true)"})
    for (const char* target : {"gfx90a", "gfx942", "gfx950"}) {
      CAPTURE(std::string(target) + " " + keys);
      Violations out;
      const Config config = config_with((std::string(keys) + "}").c_str(), target, "decode");
      const ScheduleEntry* chosen = choose_schedule(config, schedules(), out);
      REQUIRE(chosen != nullptr);
      CHECK(*make_plan(config).resolved().schedule == chosen->name);
    }
}

TEST_CASE("any identifier may name a kernel, also one of the language") {
  for (const ScheduleEntry& entry : schedules()) {
    Config config;
    config.target = entry.target;
    config.operation = entry.operation;
    config.depth = 64;
    config.name = "max";
    const KernelSource source = generate(make_plan(config));
    CHECK(source.manifest.name == "max");
    CHECK(source.manifest.entry == "kiln_max");
    CHECK(source.text.find(" max(\n") == std::string::npos);
    CHECK(source.text.find("kiln_max(") != std::string::npos);
  }
}

TEST_CASE("head counts of the config are constants, not parameters, of every schedule") {
  for (const ScheduleEntry& entry : schedules()) {
    Config config;
    config.target = entry.target;
    config.operation = entry.operation;
    config.schedule = entry.name;
    config.depth = entry.name.find("wide") == std::string_view::npos ? 128 : 512;
    if (entry.name.find("latent") != std::string_view::npos) config.v_from_k = true;
    CAPTURE(entry.name);
    const KernelSource free = generate(make_plan(config));
    CHECK(free.manifest.takes("heads_q"));
    CHECK(free.manifest.num_q_heads == 0);
    config.num_q_heads = 24;
    config.kv_num_heads = 8;
    const KernelSource made = generate(make_plan(config));
    CHECK_FALSE(made.manifest.takes("heads_q"));
    CHECK_FALSE(made.manifest.takes("heads_kv"));
    CHECK(made.text.find("constexpr int heads_q = 24;") != std::string::npos);
    CHECK(made.manifest.num_q_heads == 24);
    CHECK(made.manifest.kv_num_heads == 8);
    config.kv_num_heads.reset();
    CHECK(generate(make_plan(config)).manifest.takes("heads_kv"));
  }
}

TEST_CASE("plans show name, resolved values, systems and resources that fit the target") {
  for (const ScheduleEntry& entry : schedules()) {
    Config config;
    config.target = entry.target;
    config.operation = entry.operation;
    config.depth = 128;
    const Plan plan = make_plan(config);
    const Json shown = json_of(plan.to_json());
    CHECK(shown["name"] == config_name(config));
    for (const char* key : {"BM", "BN", "num_threads", "ov_depth", "scale", "mask", "operand", "out_dtype"}) {
      CAPTURE(key);
      CHECK(shown["resolved"].contains(key));
    }
    CHECK_FALSE(shown["systems"].empty());
    const TargetInfo& target = target_info(entry.target);
    CHECK(shown["resources"]["smem_bytes"].get<int>() > 0);
    CHECK(shown["resources"]["smem_bytes"].get<int>() <= target.smem_bytes);
    CHECK(shown["resources"]["num_threads"].get<int>() <= target.max_threads);
    CHECK(shown["resources"]["max_registers"].get<int>() <= target.max_registers + 1);
    // A resolved config is a config: planning it again changes nothing.
    const Plan again = make_plan(parse_config(to_json(plan.resolved()), "resolved"));
    CHECK(again.to_json() == plan.to_json());
    CHECK((generate(again).text == generate(plan).text));
  }
}

TEST_CASE("a tile that leaves too few registers is refused with the nearest that does not") {
  const std::string tensors =
      R"(, "score_mod": {"expr": "score + bias[q, k] + c[q] + d[k]", "tensors": {"bias": "f32", "c": "f32", "d": "f32"}})";
  struct Case {
    std::string keys;
    const char *target, *operation, *pointer, *nearest;
  };
  for (const Case& c : {
           Case{R"({"BM": 192)" + tensors, "sm_90a", "prefill", "/BM", "nearest legal: 128"},
           Case{R"({"depth": 208, "BM": 192)", "sm_90a", "prefill", "/BM", "nearest legal: 128"},
           Case{R"({"BN": 64)" + tensors, "sm_90a", "prefill", "/BN", "nearest legal: 32"},
           Case{R"({"depth": 192, "schedule": "sm90_prefill_pingpong")" + tensors, "sm_90a", "prefill",
                "/schedule", "nearest legal: sm90_prefill"},
           Case{R"({"depth": 256, "mask": "custom")" + tensors, "sm_90a", "prefill", "/score_mod", "nearest"},
           Case{R"({"depth": 64, "BM": 112)", "sm_90a", "decode", "/BM", "nearest legal: BM 48"},
           Case{R"({"BM": 80)", "sm_90a", "decode", "/BM", "nearest legal: BM 32"},
           Case{R"({"depth": 64, "BN": 160)" + tensors, "sm_80", "prefill", "/BN", "nearest legal: 96"},
           Case{R"({"depth": 240)" + tensors, "sm_80", "decode", "/score_mod", "nearest"},
           Case{R"({"BN": 128, "score_mod": "alibi")", "sm_100a", "prefill", "/BN", "nearest legal: 96"},
           Case{R"({"BM": 64, "mask": {"chunked": 100})", "sm_100a", "decode", "/BM", "nearest legal: 32"},
           Case{R"({"kv_dtype": "int8")" + tensors, "sm_100a", "decode", "/score_mod", "nearest"},
       }) {
    const std::string keys = c.keys + "}";
    CAPTURE(keys);
    const auto lines = refusals(config_with(keys.c_str(), c.target, c.operation));
    REQUIRE(!lines.empty());
    CHECK(lines[0].find(c.pointer) == 0);
    CHECK(lines[0].find(c.nearest) != std::string::npos);
  }
}

TEST_CASE("more query heads than a grid takes are refused on every target") {
  for (const Target each : kTargetList)
    for (const char* operation : {"prefill", "decode"}) {
      const std::string target(to_string(each));
      CAPTURE(target);
      std::string said;
      try {
        config_with(R"({"group": 128, "kv_num_heads": 512})", target.c_str(), operation);
      } catch (const Error& error) {
        said = error.what();
      }
      CHECK(
          said.find(
              "group (128) x kv_num_heads (512) are 65536 query heads, at most 65535 (nearest legal: 127)") !=
          std::string::npos);
      CHECK_NOTHROW(config_with(R"({"group": 127, "kv_num_heads": 512})", target.c_str(), operation));
    }
}

TEST_CASE("the first-light sweep plans or is refused by a rule, config by config") {
  const auto configs = combinations(KILN_SOURCE_DIR "/configs/sweeps/first_light.json");
  CHECK(configs.size() == 2 * 3 * 2 * 4 * 3 * 3 + 2 * 3 * 2 * 4 * 7 * 3);
  std::set<std::string> names;
  int parsed_count = 0, planned = 0;
  for (const Json& config : configs) {
    CAPTURE(write_json(config));
    try {
      const Config parsed = parse_config(write_json(config), "sweep");
      names.insert(config_name(parsed));
      ++parsed_count;
      make_plan(parsed);
      ++planned;
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::bad_config);
    }
  }
  MESSAGE(planned << " of " << configs.size() << " configs plan");
  CHECK(static_cast<int>(names.size()) == parsed_count);
  CHECK((schedules().empty() || planned > 0));
}

TEST_CASE("target tables agree with the fragments of the matrix instructions") {
  const auto* wide = find_matrix_instruction(Target::gfx950, DType::bf16, {32, 32, 16});
  REQUIRE(wide != nullptr);
  CHECK(wide->a_elements() == 8);
  CHECK(wide->c_elements(32) == 16);
  const auto* wgmma = find_matrix_instruction(Target::sm_90a, DType::fp8_e4m3, {64, 176, 32});
  REQUIRE(wgmma != nullptr);
  CHECK(wgmma->c_elements(176) == 88);
  CHECK(find_matrix_instruction(Target::sm_90a, DType::bf16, {64, 264, 16}) == nullptr);
  CHECK(find_matrix_instruction(Target::sm_90a, DType::bf16, {64, 100, 16}) == nullptr);
  const auto* mma = find_matrix_instruction(Target::sm_80, DType::fp16, {16, 8, 16});
  REQUIRE(mma != nullptr);
  CHECK(mma->a_elements() == 8);
  CHECK(mma->b_elements(8) == 4);
  CHECK(mma->c_elements(8) == 4);
  for (int i = 0; i < 6; ++i) {
    const TargetInfo& info = target_info(static_cast<Target>(i));
    CHECK(info.target == static_cast<Target>(i));
    CHECK(info.wave_size == (is_amd(info.target) ? 64 : 32));
    CHECK_FALSE(info.matrix.empty());
  }
}
