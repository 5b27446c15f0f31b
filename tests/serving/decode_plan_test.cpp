// The host's decode plan: what it promises (every tile once, even shares), that the kernel's own functions
// say the same on the emulated device, and that it is quick.
#include <doctest/doctest.h>

#include <algorithm>
#include <kiln/kiln.hpp>
#include <limits>
#include <map>
#include <random>

#include "generator/systems/stream_k.hpp"
#include "tests/emulated_options.hpp"

using namespace kiln;

namespace {

Manifest manifest_of(const std::string& mask, bool split, int parts = 1) {
  Manifest m;
  m.name = "plan";
  m.entry = "kernel";
  m.target = "sm_80";
  m.grid = {GridRule::Kind::stream_k, 16, 2, 64};
  m.workspace_bytes_per_block = 1000;
  m.scale = 1;
  m.operand = OperandKind::paged;
  m.config_json = R"({"target": "sm_80", "operation": "decode", "dtype": "bf16", "depth": 64, "mask": )" +
                  mask + (split ? "}" : R"(, "split_kv": )" + std::to_string(parts) + "}");
  return m;
}

struct Lengths {
  std::vector<std::int64_t> q, k;
  DecodeShape shape(std::int64_t heads_q, std::int64_t heads_kv) const {
    return {heads_q, heads_kv, q, k, 0};
  }
};

Lengths random_lengths(std::size_t batch, unsigned seed, std::int64_t longest) {
  std::mt19937 random(seed);
  Lengths lengths;
  for (std::size_t i = 0; i < batch; ++i) {
    lengths.q.push_back(1 + random() % 5);
    lengths.k.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(longest)));
  }
  return lengths;
}

}  // namespace

TEST_CASE("every tile is taken once, in even shares") {
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    const Lengths lengths = random_lengths(1 + seed * 7, seed, 3000);
    const Manifest m = manifest_of("\"causal\"", true);
    const DecodePlan plan = plan_decode(m, lengths.shape(32, 8), 132);
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> taken;  // (batch, slot) -> tiles so far
    std::map<std::int64_t, std::int64_t> by_team;
    for (const DecodeRun& run : plan.runs) {
      std::int64_t& next = taken[{run.batch, run.slot}];
      CHECK(run.tile_begin == next);
      next = run.tile_end;
      by_team[run.team] += run.tile_end - run.tile_begin;
    }
    for (const auto& [item, tiles] : taken) {
      const std::int64_t keys = lengths.k[static_cast<std::size_t>(item.first)];
      CHECK(tiles == std::max<std::int64_t>(1, (keys + 63) / 64));
    }
    CHECK(static_cast<std::int64_t>(by_team.size()) == plan.teams);
    std::int64_t least = 1 << 30, most = 0;
    for (const auto& [team, tiles] : by_team) least = std::min(least, tiles), most = std::max(most, tiles);
    CHECK(most - least <= 1);
    CHECK(plan.workspace_bytes == 264 * 1000);
    const DecodePlan size = size_decode(m, lengths.shape(32, 8), 132);
    CHECK(size.blocks == plan.blocks);
    CHECK(size.runs.empty());
  }
}

TEST_CASE("the kernel's own plan is the same") {
  Runtime runtime(test::emulated_options());
  using Mask = MaskConfig::Kind;
  for (const auto& [mask, kind, size, split, parts] :
       {std::tuple{"\"none\"", Mask::none, 0, true, 1},
        {R"({"sliding_window": 200})", Mask::sliding_window, 200, true, 1},
        {R"({"chunked": 300})", Mask::chunked, 300, true, 1},
        {"\"causal\"", Mask::causal, 0, false, 1},
        {R"({"chunked": 700})", Mask::chunked, 700, false, 4}}) {
    CAPTURE(mask);
    CAPTURE(parts);
    StreamK::Shape shape;
    shape.kind = OperandKind::paged;
    shape.BM = 16;
    shape.BN = 64;
    shape.mask = {kind, size};
    shape.split = split;
    shape.parts = parts;
    const StreamK stream(shape);
    // A kernel that writes down what it would work on: 8 numbers a run, 256 runs a block.
    Writer w;
    Prelude prelude("sm90.cuh");
    stream.use(prelude);
    w.raw(prelude.lines());
    stream.emit_functions(w);
    w.open(
        "extern \"C\" __global__ void kernel(const int* cu_seqlens_q, const int* seqlens_k, int batch, int "
        "heads_q, "
        "int heads_kv, int seqlen_q, int key_capacity, int team_heads, int* o)");
    w.line(
        "const Problem problem = {cu_seqlens_q, seqlens_k, batch, heads_q, heads_kv, seqlen_q, "
        "key_capacity, team_heads};");
    w.line("int* out = o + blockIdx.x * 8 * 256;");
    stream.emit_range(w);
    stream.emit_loop_open(w);
    w.line("if (threadIdx.x != 0) continue;");
    if (stream.splits()) w.line("const Split split = split_of(range, s);");
    w.line(
        "out[0] = 1; out[1] = s.batch; out[2] = s.kv_head * range.m_blocks + s.m_block; out[3] = "
        "s.tile_begin;");
    w.line("out[4] = s.tile_end; out[5] = {}; out[6] = {}; out[7] = s.whole;",
           split       ? "range.cell - split.first_cell"
           : parts > 1 ? "s.part"
                       : "0",
           stream.splits() ? "split.parts" : "1");
    w.line("out += 8;");
    w.close();
    w.close();
    KernelSource source;
    source.text = "// plan\n" + w.text();
    source.head_bytes = 8;
    Manifest& m = source.manifest;
    m = manifest_of(mask, split, parts);
    m.name += std::to_string(size) + (split ? "s" : "w");
    m.num_threads = 32;
    m.depth = m.ov_depth = 64;
    m.page_size = 64;
    std::vector<std::string> roles;
    for (const auto& member : stream.members()) roles.emplace_back(member.role);
    REQUIRE(roles == std::vector<std::string>{"cu_seqlens_q", "seqlens_k", "batch", "heads_q", "heads_kv",
                                              "seqlen_q", "key_capacity", "team_heads"});
    for (const auto& member : stream.members())
      m.params.push_back(
          {std::string_view(member.type) == "int" ? KernelParam::Kind::i32 : KernelParam::Kind::pointer,
           member.role,
           {}});
    m.params.push_back({KernelParam::Kind::pointer, "o", {}});
    const auto kernel = runtime.load(source);
    for (const unsigned seed : {1U, 2U}) {
      const Lengths lengths = random_lengths(seed == 1 ? 3 : 40, seed, 900);
      const auto batch = static_cast<std::int64_t>(lengths.q.size());
      std::vector<std::int32_t> offsets{0}, keys(lengths.k.begin(), lengths.k.end());
      for (const std::int64_t q : lengths.q) offsets.push_back(offsets.back() + static_cast<std::int32_t>(q));
      const auto ints = [&](const std::vector<std::int32_t>& values) {
        DeviceBuffer buffer = runtime.allocate(values.size() * 4);
        buffer.write(std::as_bytes(std::span(values)));
        return buffer;
      };
      const DeviceBuffer d_offsets = ints(offsets), d_keys = ints(keys),
                         d_table = ints(std::vector<std::int32_t>(640, 0)), q = runtime.allocate(1 << 16),
                         k = runtime.allocate(1 << 16);
      DeviceBuffer o = runtime.allocate(1 << 19);
      o.fill(std::byte{0});
      AttentionArgs args;
      const std::int64_t rows = offsets.back();
      args.q = Tensor::dense(q.address(), DType::bf16, {rows, 8, 64});
      args.o = Tensor::dense(o.address(), DType::bf16, {rows, 8, 64});
      args.k = args.v = Tensor::dense(k.address(), DType::bf16, {1, 64, 4, 64});
      args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {batch + 1});
      args.seqlens_k = Tensor::dense(d_keys.address(), DType::i32, {batch});
      args.page_table = Tensor::dense(d_table.address(), DType::i32, {batch, 16});
      args.max_seqlen_q = *std::max_element(lengths.q.begin(), lengths.q.end());
      EmulatorOptions emulator;
      emulator.num_sms = 7;
      LaunchOptions launch;
      launch.emulator = &emulator;
      const auto report = kernel->launch(args, launch);
      CHECK(report->completed);
      std::vector<std::int32_t> got(o.size() / 4);
      o.read(std::as_writable_bytes(std::span(got)));

      DecodeShape asked = lengths.shape(8, 4);
      asked.max_seqlen_k = 1024;  // of the page table
      const DecodePlan plan = plan_decode(m, asked, 7);
      std::map<std::int64_t, std::int64_t> count;
      for (const DecodeRun& run : plan.runs) {
        for (std::int64_t i = 0; i < plan.team_heads; ++i) {
          const std::int64_t block = run.team * plan.team_heads + i, at = (block * 256 + count[block]++) * 8;
          const std::vector<std::int32_t> line(got.begin() + at, got.begin() + at + 8);
          const auto number = [](std::int64_t x) { return static_cast<std::int32_t>(x); };
          CHECK(line == std::vector<std::int32_t>{1, number(run.batch),
                                                  number(run.slot * plan.team_heads + i),
                                                  number(run.tile_begin), number(run.tile_end),
                                                  number(run.part), number(run.parts), run.whole() ? 1 : 0});
        }
      }
      // And nothing more.
      CHECK(std::count(got.begin(), got.end(), 0) > 0);
      std::int64_t runs = 0;
      for (std::size_t i = 0; i < got.size() / 8; ++i) runs += got[i * 8] == 1 ? 1 : 0;
      CHECK(runs == static_cast<std::int64_t>(plan.runs.size()) * plan.team_heads);
    }
  }
}

TEST_CASE("256 sequences of random lengths are balanced to a percent") {
  const Lengths lengths = random_lengths(256, 9, 100000);
  const Manifest m = manifest_of("\"none\"", true);
  CHECK(plan_decode(m, lengths.shape(64, 8), 132).imbalance() < 1.01);
  CHECK_THROWS_AS(plan_decode(Manifest{}, lengths.shape(8, 8), 4), Error);
  CHECK_THROWS_AS(plan_decode(m, lengths.shape(8, 3), 4), Error);
}

TEST_CASE("what no kernel counts is refused before memory is taken") {
  const Manifest m = manifest_of("\"none\"", true);
  const auto message = [&](std::int64_t heads_q, std::int64_t heads_kv, std::int64_t q, std::int64_t k) {
    const std::vector<std::int64_t> lengths_q{q}, lengths_k{k};
    try {
      plan_decode(m, {heads_q, heads_kv, lengths_q, lengths_k}, 132);
    } catch (const Error& error) {
      CHECK((error.code() == ErrorCode::bad_input || error.code() == ErrorCode::environment));
      return std::string(error.what());
    }
    return std::string();
  };
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  CHECK(message(most + 1, 64, 2, 2).find("heads_q = 2147483648; 1 to 2147483647 is possible") !=
        std::string::npos);
  CHECK(message(8, 8, -1, 2).find("a length of queries = -1") != std::string::npos);
  CHECK(message(8, 8, 1, std::int64_t{1} << 62).find("a length of keys") != std::string::npos);
  CHECK(message(8, 0, 1, 1).find("heads_kv = 0") != std::string::npos);
  CHECK(message(most / 64 * 64, 64, most, 2).find("items of work in each of 1 sequences") !=
        std::string::npos);
  CHECK(message(8, 8, 1, most) == "");
}
