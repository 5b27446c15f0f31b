// Arguments against the manifest: every rule has one clear line, all broken rules come at once, and numbers
// derived for the launch are right.
#include <doctest/doctest.h>

#include <limits>

#include <kiln/cascade_kernels.hpp>
#include <kiln/generator.hpp>
#include <kiln/part_kernels.hpp>

#include "runtime/device/device.hpp"
#include "runtime/launch/geometry.hpp"
#include "runtime/launch/pack.hpp"
#include "runtime/launch/problem.hpp"
#include "tests/runtime/problem_support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

Manifest prefill_manifest(OperandKind operand) {
  Manifest manifest;
  manifest.name = "prefill";
  manifest.entry = "kernel";
  manifest.target = "sm_90a";
  manifest.operand = operand;
  manifest.depth = 128;
  manifest.ov_depth = 64;
  manifest.grid = {GridRule::Kind::tiles, 128, 1};
  manifest.scale = 0.5;
  manifest.params = {{KernelParam::Kind::pointer, "v", {}}};  // V of its own, not columns of K
  return manifest;
}

AttentionArgs contiguous() {
  AttentionArgs args;
  args.q = Tensor::dense(0x1000, DType::bf16, {2, 300, 8, 128});
  args.k = Tensor::dense(0x2000, DType::bf16, {2, 500, 2, 128});
  args.v = Tensor::dense(0x3000, DType::bf16, {2, 500, 2, 64});
  args.o = Tensor::dense(0x4000, DType::bf16, {2, 300, 8, 64});
  return args;
}

AttentionArgs ragged() {
  AttentionArgs args;
  args.q = Tensor::dense(0x1000, DType::bf16, {300, 8, 128});
  args.k = Tensor::dense(0x2000, DType::bf16, {500, 2, 128});
  args.v = Tensor::dense(0x3000, DType::bf16, {500, 2, 64});
  args.o = Tensor::dense(0x4000, DType::bf16, {300, 8, 64});
  args.cu_seqlens_q = Tensor::dense(0x5000, DType::i32, {4});
  args.cu_seqlens_k = Tensor::dense(0x6000, DType::i32, {4});
  args.max_seqlen_q = 200;
  args.max_seqlen_k = 400;
  return args;
}

}  // namespace

TEST_CASE("a contiguous problem's numbers") {
  const Problem problem = make_problem(prefill_manifest(OperandKind::contiguous), contiguous());
  CHECK(problem.batch == 2);
  CHECK(problem.heads_q == 8);
  CHECK(problem.heads_kv == 2);
  CHECK(problem.seqlen_q == 300);
  CHECK(problem.seqlen_k == 500);
  CHECK(problem.total_q == 600);
  CHECK(problem.total_k == 1000);
  CHECK(problem.num_m_blocks == 3);
  CHECK(problem.num_tiles == 48);
  CHECK(problem.scale == 0.5f);
  CHECK(problem.scale_log2 == doctest::Approx(0.5 * 1.4426950408889634));
}

TEST_CASE("a ragged problem's numbers") {
  const Problem problem = make_problem(prefill_manifest(OperandKind::ragged), ragged());
  CHECK(problem.batch == 3);
  CHECK(problem.seqlen_q == 200);
  CHECK(problem.seqlen_k == 400);
  CHECK(problem.total_q == 300);
  CHECK(problem.total_k == 500);
  CHECK(problem.num_m_blocks == 2);
  CHECK(problem.num_tiles == 48);
}

TEST_CASE("sections: the largest divisor of all heads whose K and V fit in 32 MiB") {
  const Manifest manifest = prefill_manifest(OperandKind::contiguous);
  const auto section = [&](std::int64_t batch, std::int64_t heads, std::int64_t heads_kv,
                           std::int64_t length) {
    AttentionArgs args;
    args.q = Tensor::dense(0x1000, DType::bf16, {batch, 1, heads, 128});
    args.k = Tensor::dense(0x2000, DType::bf16, {batch, length, heads_kv, 128});
    args.v = Tensor::dense(0x3000, DType::bf16, {batch, length, heads_kv, 64});
    args.o = Tensor::dense(0x4000, DType::bf16, {batch, 1, heads, 64});
    return make_problem(manifest, args).section_heads;
  };
  CHECK(section(2, 8, 2, 500) == 16);     // everything fits
  CHECK(section(2, 16, 16, 8192) == 8);   // 3 MiB a head: 10 fit, 8 divides 32
  CHECK(section(2, 16, 2, 8192) == 32);   // shared by 8: 4 KV heads are 12 MiB
  CHECK(section(1, 4, 4, 1 << 20) == 1);  // not even one fits
  CHECK(section(1, 7, 7, 16384) == 1);    // 6 MiB a head: 5 fit, but 7 is prime
}

TEST_CASE("every broken rule has its line") {
  const Manifest dense = prefill_manifest(OperandKind::contiguous);
  const auto bad = [&](const auto& change) { return refusal(dense, contiguous(), change); };
  CHECK(bad([](AttentionArgs&) {}).empty());
  CHECK(has(bad([](auto& a) { a.q.shape.pop_back(); }), "q has shape [2, 300, 8]"));
  CHECK(has(bad([](auto& a) { a.k = {}; }), "k has shape []"));
  CHECK(has(bad([](auto& a) { a.v.strides.clear(); }), "v has shape"));
  CHECK(has(bad([](auto& a) { a.q.shape[1] = -1; }), "extents must be"));
  CHECK(
      has(bad([](auto& a) { a.q.shape[1] = std::numeric_limits<std::int64_t>::max(); }), "extents must be"));
  CHECK(has(bad([](auto& a) {
              a.q.shape = {2147483647, 2147483647, 2147483647, 2147483647};
            }),
            "extents must be"));
  CHECK(has(bad([](auto& a) { a.q.dtype = DType::fp16; }), "q is fp16, the kernel takes bf16"));
  CHECK(has(bad([](auto& a) { a.q = Tensor::dense(16, DType::bf16, {2, 300, 8, 64}); }), "q has depth 64"));
  CHECK(has(bad([](auto& a) { a.v = Tensor::dense(16, DType::bf16, {2, 500, 2, 128}); }), "v has depth 128"));
  CHECK(has(bad([](auto& a) { a.k.strides[3] = 2; }), "k has stride 2 in its last dimension"));
  CHECK(has(bad([](auto& a) { a.k.strides[1] = 257; }), "k has stride 257 in dimension 1, a multiple of 8"));
  CHECK(has(bad([](auto& a) { a.o.address = 0; }), "o has no memory"));
  CHECK(has(bad([](auto& a) { a.o.address = 0x4008; }), "o lies at 0x4008"));
  CHECK(has(bad([](auto& a) { a.o.shape[2] = 4; }), "o has shape"));
  CHECK(has(bad([](auto& a) { a.v.shape[1] = 499; }), "v has shape"));
  CHECK(has(bad([](auto& a) { a.k.shape[2] = a.v.shape[2] = 3; }), "8 query heads cannot share 3 key heads"));
  CHECK(has(bad([](auto& a) { a.k.shape[2] = a.v.shape[2] = 0; }), "8 query heads cannot share 0 key heads"));
  CHECK(has(bad([](auto& a) { a.k.shape[0] = a.v.shape[0] = 1; }), "k has batch 1, q has 2"));
  CHECK(has(bad([](auto& a) { a.scale = std::numeric_limits<double>::infinity(); }),
            "scale must be a finite number above 0"));
  CHECK(has(bad([](auto& a) { a.scale = 1e39; }), "fits 32-bit floating point, not 1e+39"));
  CHECK(has(bad([](auto& a) { a.scale = 1e-50; }), "fits 32-bit floating point, not 1e-50"));
  CHECK(
      has(bad([](auto& a) { a.q.shape[0] = a.o.shape[0] = a.k.shape[0] = a.v.shape[0] = 70000; }), "65535"));
  CHECK(has(bad([](auto& a) { a.q.shape[1] = a.o.shape[1] = 2147483647; }), "too large"));

  const std::string both = bad([](auto& a) {
    a.q.dtype = DType::fp16;
    a.o.address = 8;
  });
  CHECK(has(both, "q is fp16"));
  CHECK(has(both, "\no lies at"));
}

TEST_CASE("batches, heads and rows that no grid or expression takes are refused in a line") {
  Manifest tiles = prefill_manifest(OperandKind::contiguous);
  const auto many = [](std::int64_t batch, std::int64_t rows, std::int64_t heads) {
    return [=](AttentionArgs& a) {
      a.q = Tensor::dense(0x1000, DType::bf16, {batch, rows, heads, 128});
      a.o = Tensor::dense(0x4000, DType::bf16, {batch, rows, heads, 64});
      a.k.shape[0] = a.v.shape[0] = batch;
    };
  };
  const auto said = [&](const Manifest& manifest, std::int64_t batch, std::int64_t rows, std::int64_t heads) {
    return refusal(manifest, contiguous(), many(batch, rows, heads));
  };
  CHECK(said(tiles, 65535, 1, 2).empty());
  CHECK(said(tiles, 1, 1, 65534).empty());
  CHECK(said(tiles, 65536, 1, 2) ==
        "prefill: 2 heads in a batch of 65536: this kernel's grid takes 65535 of each");
  CHECK(has(said(tiles, 1, 1, 65536), "65536 heads in a batch of 1: this kernel's grid takes 65535"));
  // AMD devices count the threads of x: 2^32 - 1.
  tiles.num_threads = 256;
  CHECK(said(tiles, 1, 2147483646, 2).empty());
  tiles.target = "gfx942";
  CHECK(said(tiles, 1, 2147483520, 2).empty());
  tiles.num_threads = 512, tiles.grid.block_rows = 16;
  CHECK(has(said(tiles, 1, 2147483520, 2), "134217720 blocks of 512 threads: an AMD grid takes 4294967295"));
  // A cluster for each item: 2^31 - 1 blocks of x.
  Manifest items = prefill_manifest(OperandKind::contiguous);
  items.grid = {GridRule::Kind::items, 16, 1};
  CHECK(said(items, 1, 2147483646, 8).empty());
  items.cluster = {2, 1, 1};
  CHECK(has(said(items, 1, 2147483646, 8), "1073741824 work items are 2147483648 blocks"));
  // Decode and persistent kernels have as many blocks as run at once; their expressions know 16 bits of heads.
  for (const auto kind : {GridRule::Kind::stream_k, GridRule::Kind::persistent}) {
    Manifest stream = prefill_manifest(OperandKind::contiguous);
    stream.grid = {kind, 16, 1, 64};
    CHECK(said(stream, 70000, 1, 2).empty());
    stream.params.push_back({KernelParam::Kind::f32, "scale", {}});
    const std::string keys = R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 128)";
    stream.config_json = keys + R"(, "score_mod": "alibi"})";
    CHECK(said(stream, 70000, 1, 2).empty());
    stream.config_json = keys + R"(, "score_mod": {"expr": "score - h"}})";
    CHECK(said(stream, 65535, 1, 2).empty());
    CHECK(has(said(stream, 70000, 1, 2), "an expression of scores is made for 65535 heads"));
    CHECK(has(said(stream, 1, 1, 70000), "70000 heads in a batch of 1"));
    CHECK(has(said(stream, 1, 1 << 24, 2), "16777216 rows and 500 keys"));
  }
}

TEST_CASE("every kind of launch is held to what its grid takes") {
  const Config config = parse_config(
      R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 128, "lse": true,
          "operand": {"kind": "paged", "page_size": 64}})",
      "test");
  Config rows = config;
  rows.operand->kind = OperandKind::ragged, rows.operand->page_size.reset();
  rows.operation = Operation::prefill;
  // y is heads and z sequences
  for (const Manifest& manifest : {make_append_kernel(config).manifest, make_merge_kernel(config).manifest,
                                   make_part_merge_kernel(rows, 2, false).manifest})
    CHECK(manifest.grid.kind == GridRule::Kind::tiles);
  // one dimension, no longer than what the device runs at once
  for (const Manifest& manifest : {generate(make_plan(config)).manifest, make_prefix_kernel(config).manifest,
                                   make_part_kernel(rows).manifest})
    CHECK(manifest.grid.kind != GridRule::Kind::tiles);
}

TEST_CASE("strides of one-element dimensions are free") {
  const Manifest dense = prefill_manifest(OperandKind::contiguous);
  AttentionArgs args = contiguous();
  for (Tensor* tensor : {&args.q, &args.k, &args.v, &args.o}) {
    tensor->shape[0] = 1;
    tensor->strides[0] = 7;
  }
  CHECK_NOTHROW(make_problem(dense, args));
}

TEST_CASE("negative and huge strides are refused where a tensor map is made") {
  Manifest dense = prefill_manifest(OperandKind::contiguous);
  const auto change = [](AttentionArgs& a) { a.k.strides[1] = -256; };
  CHECK(refusal(dense, contiguous(), change).empty());
  dense.params.push_back({KernelParam::Kind::tensor_map, "k", {}});
  CHECK(has(refusal(dense, contiguous(), change), "can be mapped"));
  CHECK(has(refusal(dense, contiguous(), [](AttentionArgs& a) { a.k.strides[0] = std::int64_t{1} << 40; }),
            "can be mapped"));
}

TEST_CASE("what a kernel does not take is refused, not ignored") {
  const auto with = [](OperandKind kind, const auto& change) {
    const AttentionArgs args = kind == OperandKind::contiguous ? contiguous() : ragged();
    return refusal(prefill_manifest(kind), args, change);
  };
  CHECK(has(with(OperandKind::contiguous,
                 [](auto& a) {
                   a.lse = Tensor::dense(0x100, DType::f32, {2, 8, 300});
                 }),
            "lse was given"));
  CHECK(has(
      with(OperandKind::contiguous, [](auto& a) { a.cu_seqlens_q = Tensor::dense(0x100, DType::i32, {3}); }),
      "cu_seqlens_q was given, but the kernel takes contiguous"));
  CHECK(has(
      with(OperandKind::contiguous, [](auto& a) { a.cu_seqlens_k = Tensor::dense(0x100, DType::i32, {3}); }),
      "cu_seqlens_k was given"));
  CHECK(with(OperandKind::ragged, [](auto&) {}).empty());

  // A kernel made for some head counts.
  Manifest made = prefill_manifest(OperandKind::contiguous);
  made.num_q_heads = 8, made.kv_num_heads = 2;
  CHECK(refusal(made, contiguous(), [](auto&) {}).empty());
  made.num_q_heads = 16, made.kv_num_heads = 4;
  const std::string text = refusal(made, contiguous(), [](auto&) {});
  CHECK(has(text, "q has 8 heads, the kernel is made for 16"));
  CHECK(has(text, "k has 2 heads, the kernel is made for 4"));
}

TEST_CASE("lse and ragged lengths") {
  Manifest dense = prefill_manifest(OperandKind::contiguous);
  dense.writes_lse = true;
  const auto bad = [&](const auto& change) { return refusal(dense, contiguous(), change); };
  CHECK(has(bad([](AttentionArgs&) {}), "was given no lse"));
  CHECK(bad([](auto& a) { a.lse = Tensor::dense(0x100, DType::f32, {2, 8, 300}); }).empty());
  CHECK(has(bad([](auto& a) {
              a.lse = Tensor::dense(0x100, DType::f32, {2, 300, 8});
            }),
            "[2, 8, 300] is needed"));
  CHECK(has(bad([](auto& a) { a.lse = Tensor::dense(0x100, DType::bf16, {2, 8, 300}); }), "f32 is needed"));
  CHECK(has(bad([](auto& a) {
              a.lse = Tensor::dense(0x101, DType::f32, {2, 8, 300});
            }),
            "lse lies at 0x101"));

  const Manifest rows = prefill_manifest(OperandKind::ragged);
  const auto wrong = [&](const auto& change) { return refusal(rows, ragged(), change); };
  CHECK(wrong([](AttentionArgs&) {}).empty());
  CHECK(has(wrong([](auto& a) { a.cu_seqlens_q.reset(); }), "needs cu_seqlens_q"));
  CHECK(has(wrong([](auto& a) { a.cu_seqlens_k.reset(); }), "needs cu_seqlens_k"));
  CHECK(has(wrong([](auto& a) { a.cu_seqlens_k->shape[0] = 3; }), "[batch + 1] = [4]"));
  CHECK(has(wrong([](auto& a) { a.cu_seqlens_q->shape = {0}; }), "cu_seqlens_q"));
  CHECK(has(wrong([](auto& a) { a.cu_seqlens_q->shape = {}; }), "cu_seqlens_q"));
  CHECK(has(wrong([](auto& a) { a.cu_seqlens_q->dtype = DType::f32; }), "i32 is needed"));
  CHECK(has(wrong([](auto& a) { a.cu_seqlens_q->address = 2; }), "cu_seqlens_q lies at"));
  CHECK(has(wrong([](auto& a) { a.max_seqlen_q = 0; }), "is 0 but there are 300 rows"));
  CHECK(has(wrong([](auto& a) { a.max_seqlen_k = 501; }), "0 to 500 is possible"));
  CHECK(has(wrong([](auto& a) { a.max_seqlen_k = -1; }), "0 to 500 is possible"));
}

TEST_CASE("roles the runtime does not know are refused at load, by name") {
  const auto refused = [](KernelParam param, const std::string& name) {
    Manifest manifest = prefill_manifest(OperandKind::contiguous);
    manifest.params.push_back(std::move(param));
    std::string message;
    return error_of([&] { check_roles(manifest); }, &message) == ErrorCode::bad_input && has(message, name);
  };
  CHECK(refused({ParamKind::pointer, "page_tables", {}}, "\"page_tables\""));
  CHECK(refused({ParamKind::i32, "q", {}}, "\"q\""));
  CHECK(refused({ParamKind::i64, "q_stride_depth", {}}, "\"q_stride_depth\""));
  CHECK(refused({ParamKind::i64, "x_stride_head", {}}, "\"x_stride_head\""));
  CHECK(refused({ParamKind::f32, "", {}}, "\"\""));
  CHECK(refused({ParamKind::tensor_map, "lse", {{{"depth", 8}}, 0, 0}}, "\"lse\""));
  CHECK(refused({ParamKind::tensor_map, "q", {}}, "\"q\""));
  CHECK(refused({ParamKind::tensor_map, "q", {{{"seq", 8}}, 0, 0}}, "\"q\""));
  CHECK(refused({ParamKind::tensor_map, "q", {{{"depth", 8}, {"pages", 8}}, 0, 0}}, "\"q\""));
  CHECK(refused({ParamKind::tensor_map, "k_scale", {{{"depth", 8}}, 0, 0}}, "\"k_scale\""));
  CHECK(refused({ParamKind::i64, "k_scale_stride_head", {}}, "\"k_scale_stride_head\""));
  Manifest many = prefill_manifest(OperandKind::contiguous);
  for (int i = 0; i < 65; ++i) many.params.push_back({ParamKind::i32, "batch", {}});
  CHECK(error_of([&] { check_roles(many); }) == ErrorCode::bad_input);
  Manifest maps = prefill_manifest(OperandKind::contiguous);
  for (int i = 0; i < 32; ++i) maps.params.push_back({ParamKind::tensor_map, "q", {{{"depth", 64}}, 0, 0}});
  CHECK(error_of([&] { check_roles(maps); }) == ErrorCode::bad_input);
}

TEST_CASE("grids are whole clusters") {
  Manifest manifest = prefill_manifest(OperandKind::contiguous);
  manifest.cluster = {2, 1, 1};
  manifest.num_threads = 384;
  manifest.smem_bytes = 1000;
  Problem problem = make_problem(manifest, contiguous());
  LaunchGeometry geometry = make_geometry(manifest, problem, 132);
  CHECK(geometry.grid == std::array<std::uint32_t, 3>{4, 8, 2});
  CHECK(geometry.cluster == std::array<std::uint32_t, 3>{2, 1, 1});
  CHECK(geometry.block == std::array<std::uint32_t, 3>{384, 1, 1});
  CHECK(geometry.smem_bytes == 1000);
  manifest.grid.kind = GridRule::Kind::persistent;
  CHECK(make_geometry(manifest, problem, 132).grid == std::array<std::uint32_t, 3>{96, 1, 1});
  CHECK(make_geometry(manifest, problem, 4).grid == std::array<std::uint32_t, 3>{4, 1, 1});
  CHECK(make_geometry(manifest, problem, 5).grid == std::array<std::uint32_t, 3>{4, 1, 1});
  CHECK(make_geometry(manifest, problem, 1).grid == std::array<std::uint32_t, 3>{2, 1, 1});
  problem.max_blocks = 3;  // whole clusters of two
  CHECK(make_geometry(manifest, problem, 132).grid == std::array<std::uint32_t, 3>{2, 1, 1});
  manifest.grid.kind = GridRule::Kind::items;  // a cluster for each, on however few multiprocessors
  CHECK(make_geometry(manifest, problem, 1).grid == std::array<std::uint32_t, 3>{2, 1, 1});
  problem.max_blocks = 0;
  CHECK(make_geometry(manifest, problem, 1).grid == std::array<std::uint32_t, 3>{96, 1, 1});
}

TEST_CASE("device selectors") {
  for (const char* bad :
       {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "emulated:0", "auto:1", "cuda:99999999999999"}) {
    CAPTURE(bad);
    RuntimeOptions options = quiet();
    options.device = bad;
    CHECK(error_of([&] { Runtime runtime(options); }) == ErrorCode::bad_input);
  }
  const ScopedEnv chosen("KILN_DEVICE", "emulated");
  RuntimeOptions options = quiet();
  options.device = "";
  CHECK(Runtime(options).device().selector == "emulated");
  options.device = "hip";
  CHECK(error_of([&] { Runtime(options).device(); }) == ErrorCode::environment);
  options.device = "cuda:77";
  CHECK(error_of([&] { Runtime(options).device(); }) == ErrorCode::environment);
}
