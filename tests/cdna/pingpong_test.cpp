// cdna_prefill_pingpong: two groups of waves half a tile apart, right under every completion policy at every
// small number of tiles, and compiled so that exponentials and products stay in slots of their own.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "generator/schedules/schedule.hpp"
#include "harness.hpp"
#include "workbench/analysis/control_flow.hpp"

using namespace cdna_test;
using namespace kiln;

namespace {

std::string pingpong(const std::string& target, int depth, const std::string& more = "") {
  return config_text(target, "bf16", depth, R"("schedule": "cdna_prefill_pingpong", "lse": true)" + more);
}

}  // namespace

TEST_CASE("ping-pong agrees with the reference from one tile to five") {
  if (!toolchain()) return;
  for (const std::string target : {"gfx942", "gfx950"}) {
    for (const int keys : {1, 40, 70, 100, 130, 160})
      check_kernel(pingpong(target, 128), {{20, keys}}, keys > 100, 1, 1);
    check_kernel(pingpong(target, 64, R"(, "mask": "causal")"), {{300, 300}}, false, 1, 1);
    check_kernel(pingpong(target, 128, R"(, "operand": {"kind": "ragged"}, "mask": "causal")"),
                 {{40, 40}, {0, 5}, {7, 0}, {1, 129}}, true, 2, 1);
    check_kernel(pingpong(target, 128, R"(, "mask": {"sliding_window": 50})"), {{260, 260}}, false, 1, 1);
  }
}

TEST_CASE("slots of ping-pong hold products or exponentials, not both") {
  if (!toolchain()) return;
  for (const std::string target : {"gfx942", "gfx950"}) {
    for (const int depth : {64, 128}) {
      const std::string config = pingpong(target, depth);
      check_compiled(config, depth == 64 || target == "gfx950");
      const Built& kernel = build(config);
      const auto code = kernel.module.instructions(kernel.source.manifest.entry);
      const auto loop = main_loop(code);
      REQUIRE(loop);
      int barriers = 0, products = 0, exponentials = 0, mixed = 0;
      for (const std::size_t i : loop->path) {
        products += code[i].kind == "mfma" ? 1 : 0;
        exponentials += code[i].kind == "transcendental" ? 1 : 0;
        if (code[i].kind != "barrier") continue;
        // The one exponential of the rescale factor may stand anywhere.
        mixed += products > 0 && exponentials > 2 ? 1 : 0;
        ++barriers, products = exponentials = 0;
      }
      CHECK(barriers == 4);
      CHECK(mixed == 0);
    }
  }
}

TEST_CASE("ping-pong refuses what its two groups cannot share") {
  CHECK(refusal(pingpong("gfx950", 256)).find("/depth = 256") != std::string::npos);
  CHECK(refusal(pingpong("gfx950", 128, R"(, "BM": 128)")).find("has two groups of four waves") !=
        std::string::npos);
  CHECK(refusal(pingpong("gfx950", 128, R"(, "double_buffer": false)")).find("/double_buffer = false") !=
        std::string::npos);
  CHECK(refusal(pingpong("gfx90a", 128)).find("/schedule") != std::string::npos);
}

TEST_CASE("timelines: waves in step leave gaps, groups of ping-pong work beside each other") {
  using Kind = TimelineSpan::Kind;
  struct Sum {
    double matrix = 0, end = 0;
    bool beside = true;  ///< no two spans of a lane at once
  };
  const auto sum_of = [](const Timeline& timeline) {
    Sum sum;
    for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
      const TimelineSpan& a = timeline.spans[i];
      CHECK(a.begin < a.end);
      CHECK(static_cast<std::size_t>(a.lane) < timeline.lanes.size());
      if (a.kind == Kind::scores || a.kind == Kind::output) sum.matrix += a.end - a.begin;
      sum.end = std::max(sum.end, a.end);
      for (std::size_t j = 0; j < i; ++j) {
        const TimelineSpan& b = timeline.spans[j];
        if (a.lane == b.lane) sum.beside = sum.beside && (a.begin >= b.end - 1e-9 || b.begin >= a.end - 1e-9);
      }
    }
    return sum;
  };
  const auto draw = [](const char* target, const char* schedule) {
    return make_plan(
               parse_config(config_text(target, "bf16", 128, fmt::format(R"("schedule": "{}")", schedule)),
                            "test"))
        .schedule()
        .timeline();
  };
  for (const char* target : {"gfx942", "gfx950"}) {
    CAPTURE(target);
    const Sum step = sum_of(draw(target, "cdna_prefill")),
              apart = sum_of(draw(target, "cdna_prefill_pingpong"));
    CHECK(step.beside);
    CHECK(apart.beside);
    CHECK(apart.matrix / apart.end > step.matrix / step.end);
  }
  CHECK(sum_of(draw("gfx90a", "cdna_prefill")).beside);
}
