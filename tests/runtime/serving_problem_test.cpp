// Arguments of serving kernels against the manifest: pages, lengths on the device, scales, sinks, masks; and
// the grid that shares KV tiles.
#include <doctest/doctest.h>

#include "runtime/device/device.hpp"
#include "runtime/launch/geometry.hpp"
#include "runtime/launch/pack.hpp"
#include "runtime/launch/problem.hpp"
#include "tests/runtime/problem_support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

Manifest decode_manifest(OperandKind operand) {
  Manifest m;
  m.name = "decode";
  m.entry = "kernel";
  m.target = "sm_80";
  m.operation = Operation::decode;
  m.operand = operand;
  m.depth = 128;
  m.ov_depth = 64;
  m.page_size = operand == OperandKind::paged ? 16 : 0;
  m.grid = {GridRule::Kind::stream_k, 16, 2, 64};
  m.params = {{ParamKind::i32, "team_heads", {}}};  // of stream_k grids by heads
  m.num_threads = 128;
  m.scale = 0.5;
  return m;
}

AttentionArgs paged() {
  AttentionArgs args;
  args.q = Tensor::dense(0x1000, DType::bf16, {9, 8, 128});
  args.k = Tensor::dense(0x2000, DType::bf16, {100, 16, 2, 128});
  args.v = Tensor::dense(0x3000, DType::bf16, {100, 16, 2, 64});
  args.o = Tensor::dense(0x4000, DType::bf16, {9, 8, 64});
  args.cu_seqlens_q = Tensor::dense(0x5000, DType::i32, {4});
  args.seqlens_k = Tensor::dense(0x6000, DType::i32, {3});
  args.page_table = Tensor::dense(0x7000, DType::i32, {3, 20});
  args.max_seqlen_q = 5;
  args.max_seqlen_k = 300;
  return args;
}

}  // namespace

TEST_CASE("a paged problem's numbers, and the grid over its KV tiles") {
  const Manifest m = decode_manifest(OperandKind::paged);
  const Problem p = make_problem(m, paged());
  CHECK(p.ragged);
  CHECK(p.batch == 3);
  CHECK(p.num_pages == 100);
  CHECK(p.page_size == 16);
  CHECK(p.page_table_stride == 20);
  CHECK(p.total_k == 1600);
  CHECK(p.num_m_blocks == 2);  // 5 rows of a group of 4 heads, 16 to a tile
  CHECK(p.num_tiles == 12);    // times 2 KV heads, 3 sequences
  CHECK(p.kv_tiles == 5);
  CHECK(make_geometry(m, p, 132).grid == std::array<std::uint32_t, 3>{60, 1, 1});
  CHECK(make_geometry(m, p, 4).grid == std::array<std::uint32_t, 3>{8, 1, 1});

  CHECK(choose_team(m, p, 132) == 4);  // 2 heads, 2 tiles of query rows each
  Problem many = p;
  many.heads_kv = 8, many.num_m_blocks = 1;
  CHECK(choose_team(m, many, 132) == 8);  // 264 blocks are 33 teams
  CHECK(choose_team(m, many, 66) == 8);   // 132: 4 of them idle
  CHECK(choose_team(m, many, 3) == 2);    // 6
  CHECK(choose_team(decode_manifest(OperandKind::contiguous), many, 1) == 2);
  Manifest rows = m;  // a kernel that packs heads into rows has no teams
  rows.params.clear();
  CHECK(choose_team(rows, many, 132) == 1);

  // On sm_90a few tiles get fewer blocks: 60 tiles are 4 for each of 15 blocks.
  Manifest hopper = m;
  hopper.target = "sm_90a";
  CHECK(stream_blocks(hopper, p, 7) == 14);
  CHECK(stream_blocks(hopper, p, 8) == 8);
  CHECK(make_geometry(hopper, p, 8).grid == std::array<std::uint32_t, 3>{8, 1, 1});
  CHECK(make_geometry(hopper, p, 132).grid == std::array<std::uint32_t, 3>{60, 1, 1});
  CHECK(stream_blocks(m, p, 8) == 16);

  // Short launches cut between items: 33 teams of 8 are 32 where 64 sequences then get half a team each, or
  // 16 two; 33 where neither comes out even, and where the launch is long. One item has no more than 32
  // parts.
  Problem even = many;
  even.team_heads = 8;
  even.kv_tiles = 32;
  const auto blocks = [&](std::int64_t sequences) {
    even.num_tiles = 8 * sequences;
    return even_clusters(m, even, 132);
  };
  CHECK(blocks(64) == 256);
  CHECK(blocks(16) == 256);
  CHECK(blocks(1) == 256);
  CHECK(blocks(3) == 264);
  CHECK(blocks(5) == 264);
  even.kv_tiles = 1 << 20;
  CHECK(blocks(64) == 264);
  // Whole items leave no parts: on sm_90a 16-bit caches have them in longer launches, too, up to 16 MB a multiprocessor.
  const auto hopper_blocks = [&](std::int64_t sequences, std::int64_t tiles, DType kv) {
    Problem longer = even;
    longer.num_tiles = 8 * sequences, longer.kv_tiles = tiles;
    Manifest sm90 = m;
    sm90.target = "sm_90a", sm90.kv_dtype = kv;
    return even_clusters(sm90, longer, 132);
  };
  CHECK(hopper_blocks(64, 128, DType::bf16) == 256);
  CHECK(hopper_blocks(48, 128, DType::bf16) == 264);
  CHECK(hopper_blocks(16, 512, DType::bf16) == 264);  // halves of items would leave parts
  CHECK(hopper_blocks(64, 1024, DType::bf16) == 264);
  CHECK(hopper_blocks(64, 256, DType::fp8_e4m3) == 264);
  even.kv_tiles = 32;
  even.max_blocks = 264;
  CHECK(blocks(64) == 264);

  // Parts that all blocks add up: as few as leave the longest as short as all blocks could.
  Manifest latent = m;
  latent.target = "sm_90a", latent.ov_depth = 512, latent.depth = 576;
  latent.grid = {GridRule::Kind::stream_k, 64, 1, 64};
  const auto latent_blocks = [&](std::int64_t items, std::int64_t tiles) {
    Problem one = even;
    one.max_blocks = 0, one.team_heads = 1, one.num_tiles = items, one.kv_tiles = tiles;
    return even_clusters(latent, one, 132);
  };
  CHECK(latent_blocks(2, 128) == 128);  // 64 parts of 2 tiles, not 66
  CHECK(latent_blocks(2, 64) == 128);   // one tile each
  CHECK(latent_blocks(2, 79) == 80);    // 2 tiles each: 132 blocks would be no sooner done
  CHECK(latent_blocks(2, 512) == 128);  // 8
  CHECK(latent_blocks(64, 64) == 128);
  CHECK(latent_blocks(48, 64) == 132);  // 96 would leave too many idle
  CHECK(latent_blocks(264, 64) == 132);
  CHECK(latent_blocks(256, 64) == 128);  // two whole items each

  // Tiles of query rows that read the same keys stand side by side: 128 heads of one token, of two, of three.
  Problem rows_of_latent = even;
  rows_of_latent.heads_kv = 1, rows_of_latent.max_blocks = 0;
  for (const std::int64_t row_tiles : {1, 2, 4, 6}) {
    rows_of_latent.num_m_blocks = row_tiles;
    CHECK(choose_team(latent, rows_of_latent, 132) == row_tiles);
  }
  rows_of_latent.num_m_blocks = 7;  // 132 blocks are 18 such teams and 6 blocks
  CHECK(choose_team(latent, rows_of_latent, 132) == 1);

  // No more blocks than the caller allows, and teams that fit them.
  Problem beside = p;
  beside.max_blocks = 10;
  CHECK(stream_blocks(m, beside, 8) == 10);
  CHECK(make_geometry(m, beside, 132).grid == std::array<std::uint32_t, 3>{10, 1, 1});
  CHECK(make_geometry(m, beside, 4).grid == std::array<std::uint32_t, 3>{8, 1, 1});
  beside.max_blocks = 1;
  CHECK(choose_team(m, beside, 132) == 1);
  CHECK(make_geometry(m, p, 4).before == LaunchBefore::any);
  beside.before = LaunchBefore::unrelated;
  CHECK(make_geometry(m, beside, 4).before == LaunchBefore::unrelated);

  AttentionArgs open = paged();
  open.max_seqlen_k = 0;
  CHECK(make_problem(m, open).seqlen_k == 320);
  AttentionArgs empty = paged();
  empty.page_table = Tensor::dense(0x7000, DType::i32, {3, 0});
  empty.max_seqlen_k = 0;
  CHECK(make_problem(m, empty).kv_tiles == 1);  // zeros are still to be written
}

TEST_CASE("lengths and tables are what a promise about the launch before speaks of") {
  const auto ranges = tables_of(paged());
  CHECK(ranges[0].address == paged().cu_seqlens_q->address);
  CHECK(ranges[0].bytes == 16);
  CHECK(ranges[1].address == paged().seqlens_k->address);
  CHECK(ranges[1].bytes == 12);
  CHECK(ranges[2].address == paged().page_table->address);
  CHECK(ranges[2].bytes == 240);
  CHECK(ranges[3].bytes == 0);
  AttentionArgs strided = paged();
  strided.page_table->shape = {3, 5};  // of rows of 20
  CHECK(tables_of(strided)[2].bytes == 4 * 45);
}

TEST_CASE("a continuous problem takes its page from the tensor") {
  const Manifest m = decode_manifest(OperandKind::continuous);
  AttentionArgs args = paged();
  args.page_table = Tensor::dense(0x7000, DType::i32, {3, 1});
  args.k = Tensor::dense(0x2000, DType::bf16, {5, 333, 2, 128});
  args.v = Tensor::dense(0x3000, DType::bf16, {5, 333, 2, 64});
  CHECK(make_problem(m, args).page_size == 333);
  CHECK(has(refusal(m, args, [](auto& a) { a.page_table->shape[1] = 2; }), "[batch, 1] = [3, 1]"));
  CHECK(has(refusal(m, args, [](auto& a) { a.max_seqlen_k = 334; }), "holds 0 to 333"));
}

TEST_CASE("rows by number, of kernels that ask for them") {
  Manifest m = decode_manifest(OperandKind::paged);
  CHECK(make_problem(m, paged()).k_rows.rows == 0);
  for (const char* role : {"k_page_rows", "k_token_rows", "k_head_columns", "v_head_columns"})
    m.params.push_back({ParamKind::i32, role, {}});
  AttentionArgs args = paged();
  GatheredRows k = make_problem(m, args).k_rows;
  CHECK(k.page_rows == 16);
  CHECK(k.token_rows == 1);
  CHECK(k.head_columns == 128);
  CHECK(k.rows == 1600);
  CHECK(k.stride == 256);
  args.k.strides = {5120 + 64, 256, 128, 1};  // pages at no whole row: rows of the map are shorter
  k = make_problem(m, args).k_rows;
  CHECK(k.page_rows == 81);
  CHECK(k.token_rows == 4);
  CHECK(k.rows == 99 * 81 + 15 * 4 + 1);
  CHECK(k.stride == 64);
  args.v.strides = {2048, 64, 16 * 64, 1};  // heads before rows
  CHECK(make_problem(m, args).v_rows.head_columns == 1024);
  args.k.strides = {std::int64_t{1} << 39, 64, 128, 1};
  CHECK(has(refusal(m, args, [](auto&) {}), "more than a kernel with gather4 can name"));
}

TEST_CASE("eights of rows from page to page, of kernels that ask for them") {
  Manifest m = decode_manifest(OperandKind::paged);
  CHECK(make_problem(m, paged()).k_page_eights == 0);
  m.params.push_back({ParamKind::i32, "k_page_eights", {}}),
      m.params.push_back({ParamKind::i32, "v_page_eights", {}});
  AttentionArgs args = paged();
  CHECK(make_problem(m, args).k_page_eights == 2);
  args.v.strides = {6 * 16 * 2 * 64, 128, 64, 1};  // K, V and three layers in turn
  CHECK(make_problem(m, args).v_page_eights == 12);
  args.v.strides = {2048, 64, 16 * 64, 1};  // heads before rows
  CHECK(make_problem(m, args).v_page_eights == 4);
  const auto bad = [&](const auto& change) { return refusal(m, paged(), change); };
  CHECK(has(
      bad([](auto& a) { a.k.strides[0] = 20 * 256; }),
      "k has pages 5120 elements apart and rows 256 apart; a kernel with tma_fold chunk_inner needs pages a "
      "multiple of 8 rows apart: 6144"));
  CHECK(has(bad([](auto& a) { a.v.strides[1] = 0; }), "v has pages 2048 elements apart and rows 0 apart"));
  CHECK(has(bad([](auto& a) { a.k.strides[0] = std::int64_t{256} << 28; }),
            "k has 100 pages 268435456 rows apart, more rows than a kernel can name"));
  CHECK(bad([](auto& a) {
          a.k.shape[0] = a.v.shape[0] = 1;
          a.k.strides[0] = 1;
        }).empty());
}

TEST_CASE("every broken rule of pages has its line") {
  const Manifest m = decode_manifest(OperandKind::paged);
  const auto bad = [&](const auto& change) { return refusal(m, paged(), change); };
  CHECK(bad([](AttentionArgs&) {}).empty());
  CHECK(has(bad([](auto& a) { a.page_table.reset(); }), "paged operands need a page_table"));
  CHECK(has(bad([](auto& a) { a.seqlens_k.reset(); }), "paged operands need seqlens_k"));
  CHECK(has(bad([](auto& a) { a.page_table->dtype = DType::f32; }), "page_table is f32, i32 is needed"));
  CHECK(has(bad([](auto& a) { a.page_table->shape = {3}; }), "[batch, max_pages]"));
  CHECK(has(bad([](auto& a) { a.page_table->shape = {2, 20}; }), "[batch, max_pages] = [3, 20]"));
  CHECK(has(bad([](auto& a) { a.page_table->strides = {19, 1}; }), "page_table has strides [19, 1]"));
  CHECK(has(bad([](auto& a) { a.page_table->strides = {20, 2}; }), "page_table has strides [20, 2]"));
  CHECK(has(bad([](auto& a) { a.page_table->address = 2; }), "page_table lies at 0x2"));
  CHECK(bad([](auto& a) { a.page_table->strides = {64, 1}; }).empty());
  CHECK(has(bad([](auto& a) { a.seqlens_k->shape = {4}; }), "seqlens_k has shape [4], [batch] = [3]"));
  CHECK(has(bad([](auto& a) { a.seqlens_k->address = 0; }), "seqlens_k lies at 0x0"));
  CHECK(has(bad([](auto& a) { a.max_seqlen_k = 321; }), "the page table holds 0 to 320 (20 pages of 16)"));
  CHECK(has(bad([](auto& a) { a.max_seqlen_k = -1; }), "max_seqlen_k is -1"));
  CHECK(has(bad([](auto& a) {
              a.k = Tensor::dense(0x2000, DType::bf16, {100, 32, 2, 128});
              a.v = Tensor::dense(0x3000, DType::bf16, {100, 32, 2, 64});
            }),
            "k has pages of 32 rows, the kernel takes 16"));
  CHECK(has(bad([](auto& a) {
              a.k = Tensor::dense(0x2000, DType::bf16, {1600, 2, 128});
            }),
            "[num_pages, page_size, heads, depth]"));
  CHECK(has(bad([](auto& a) {
              a.q = Tensor::dense(0x1000, DType::bf16, {3, 3, 8, 128});
            }),
            "[total, heads, depth]"));
  CHECK(has(bad([](auto& a) { a.cu_seqlens_q.reset(); }), "needs cu_seqlens_q"));

  const Manifest dense = decode_manifest(OperandKind::contiguous);
  AttentionArgs args;
  args.q = Tensor::dense(0x1000, DType::bf16, {3, 1, 8, 128});
  args.k = Tensor::dense(0x2000, DType::bf16, {3, 100, 2, 128});
  args.v = Tensor::dense(0x3000, DType::bf16, {3, 100, 2, 64});
  args.o = Tensor::dense(0x4000, DType::bf16, {3, 1, 8, 64});
  CHECK(refusal(dense, args, [](AttentionArgs&) {}).empty());
  CHECK(has(refusal(dense, args, [](auto& a) { a.page_table = paged().page_table; }),
            "page_table was given, but the kernel takes contiguous"));
  const auto lengths = [](AttentionArgs& a) { a.seqlens_k = paged().seqlens_k; };
  CHECK(has(refusal(dense, args, lengths), "without it"));
  Manifest takes = dense;
  takes.params.push_back({ParamKind::pointer, "seqlens_k", {}});
  CHECK(refusal(takes, args, lengths).empty());
  CHECK(refusal(takes, args, [](AttentionArgs&) {}).empty());
}

TEST_CASE("scales have the shape of their granularity") {
  using Granularity = Quantization::Granularity;
  Manifest m = decode_manifest(OperandKind::paged);
  m.kv_dtype = DType::fp8_e4m3;
  AttentionArgs args = paged();
  args.k.dtype = args.v.dtype = DType::fp8_e4m3;
  CHECK(has(refusal(m, args, [](auto& a) { a.k_scale = Tensor::dense(64, DType::f32, {1}); }),
            "k_scale was given, but the kernel takes none"));
  m.params = {{ParamKind::pointer, "k_scale", {}}, {ParamKind::pointer, "v_scale", {}}};
  CHECK(has(refusal(m, args, [](AttentionArgs&) {}), "the kernel needs k_scale"));
  const auto with = [&](Granularity granularity, std::vector<std::int64_t> k, std::vector<std::int64_t> v) {
    m.quantization = Quantization{granularity, 32, DType::f32};
    return refusal(m, args, [&](AttentionArgs& a) {
      a.k_scale = Tensor::dense(64, DType::f32, k);
      a.v_scale = Tensor::dense(64, DType::f32, v);
    });
  };
  CHECK(with(Granularity::per_tensor, {1}, {1}).empty());
  CHECK(with(Granularity::per_head, {2}, {2}).empty());
  CHECK(with(Granularity::per_token, {100, 16, 2}, {100, 16, 2}).empty());
  CHECK(with(Granularity::per_block, {100, 16, 2, 4}, {100, 16, 2, 2}).empty());
  CHECK(has(with(Granularity::per_head, {8}, {2}), "k_scale has shape [8]"));
  CHECK(has(with(Granularity::per_token, {100, 16, 2}, {1600, 2}), "v_scale has shape [1600, 2]"));
  m.quantization = Quantization{Granularity::per_block, 32, DType::f32};
  CHECK(has(refusal(m, args,
                    [](AttentionArgs& a) {
                      a.k_scale = Tensor::dense(64, DType::f32, {100, 16, 2, 4});
                      a.k_scale->strides[1] = 9;
                      a.v_scale = Tensor::dense(64, DType::bf16, {100, 16, 2, 2});
                    }),
            "k_scale must be dense but for its first dimension"));
}

TEST_CASE("scales by head: their shapes, and what a copy of tiles wants of strides") {
  Manifest m = decode_manifest(OperandKind::paged);
  m.kv_dtype = DType::fp8_e4m3;
  m.quantization =
      Quantization{Quantization::Granularity::per_token, 0, DType::f32, Quantization::Layout::head_major};
  AttentionArgs args = paged();
  args.k.dtype = args.v.dtype = DType::fp8_e4m3;
  args.k_scale = args.v_scale = Tensor::dense(64, DType::f32, {100, 2, 16});
  const auto with = [&](ParamKind kind, const auto& change) {
    m.params = {{kind, "k_scale", {}}, {kind, "v_scale", {}}};
    return refusal(m, args, change);
  };
  for (const ParamKind kind : {ParamKind::pointer, ParamKind::tensor_map}) {
    CHECK(with(kind, [](AttentionArgs&) {}).empty());
    CHECK(has(with(kind,
                   [](auto& a) {
                     a.k_scale = Tensor::dense(64, DType::f32, {100, 16, 2});
                   }),
              "k_scale has shape [100, 16, 2], one scale for each group of values = [100, 2, 16] is needed"));
    CHECK(with(kind, [](auto& a) { a.k_scale->strides = {48, 20, 1}; }).empty());
    CHECK(has(with(kind, [](auto& a) { a.v_scale->strides[2] = 2; }),
              "v_scale has stride 2 in its last dimension, 1 is needed"));
    CHECK(has(with(kind, [](auto& a) { a.v_scale->strides[1] = -16; }), "v_scale has stride -16"));
    CHECK(has(with(kind, [](auto& a) { a.k_scale.reset(); }), "the kernel needs k_scale"));
  }
  CHECK(with(ParamKind::pointer, [](auto& a) { a.k_scale->strides = {34, 17, 1}; }).empty());
  CHECK(has(with(ParamKind::tensor_map, [](auto& a) { a.k_scale->strides[1] = 17; }),
            "k_scale has stride 17 in dimension 1, a multiple of 4 is needed: pad it to 20"));
  CHECK(has(with(ParamKind::tensor_map, [](auto& a) { a.k_scale->address = 72; }),
            "k_scale lies at 0x48, a multiple of 16 is needed"));
  m.operand = OperandKind::ragged;
  m.page_size = 0;
  args.page_table.reset(), args.seqlens_k.reset();
  args.k = Tensor::dense(0x2000, DType::fp8_e4m3, {301, 2, 128});
  args.v = Tensor::dense(0x3000, DType::fp8_e4m3, {301, 2, 64});
  args.cu_seqlens_k = Tensor::dense(0x6000, DType::i32, {4});
  args.k_scale = args.v_scale = Tensor::dense(64, DType::f32, {2, 301});
  CHECK(with(ParamKind::pointer, [](AttentionArgs&) {}).empty());
}

TEST_CASE("captured tensors") {
  Manifest m = decode_manifest(OperandKind::paged);
  const auto tensor = [](std::vector<std::int64_t> shape) {
    return Tensor::dense(64, DType::f32, std::move(shape));
  };
  CHECK(has(refusal(m, paged(), [&](auto& a) { a.captured[0] = tensor({8}); }),
            "captured has tensor 0, but the kernel takes 0"));
  m.captured = {{"bias", DType::f32, {"b", "h", "q", "k"}}, {"at", DType::f32, {""}}};
  m.params = {{KernelParam::Kind::captured, "captured", {}}};
  const auto with = [&](Tensor bias, Tensor at) {
    return refusal(m, paged(), [&](auto& a) { a.captured = {bias, at, std::nullopt, std::nullopt}; });
  };
  CHECK(with(tensor({3, 8, 5, 300}), tensor({7})).empty());
  CHECK(with(tensor({1, 8, 1, 1000}), tensor({1})).empty());
  CHECK(has(
      with(tensor({3, 8, 5, 299}), tensor({7})),
      "captured 'bias' has 299 elements in dimension 3, where the index is k: 1 or at least 300 are needed"));
  CHECK(has(with(tensor({3, 2, 5, 300}), tensor({7})), "where the index is h: 1 or at least 8"));
  CHECK(has(with(tensor({3, 8, 5, 300}), tensor({0})), "captured 'at' has 0 elements in dimension 0"));
  CHECK(has(with(tensor({8, 5, 300}), tensor({7})),
            "captured 'bias' has shape [8, 5, 300], the expression has 4 indices"));
  Tensor odd = tensor({3, 8, 5, 300});
  odd.address = 66;
  CHECK(has(with(odd, tensor({7})), "captured 'bias' lies at 0x42, a multiple of 4 is needed"));
  odd = tensor({3, 8, 5, 300}), odd.dtype = DType::bf16;
  CHECK(has(with(odd, tensor({7})), "captured 'bias' is bf16, f32 is needed"));
  odd = tensor({3, 8, 5, 300}), odd.strides[2] = -5;
  CHECK(has(with(odd, tensor({7})), "captured 'bias' has stride -5 in dimension 2"));
  CHECK(has(refusal(m, paged(),
                    [&](auto& a) {
                      a.captured[0] = tensor({3, 8, 5, 300});
                    }),
            "the kernel needs captured 'at'"));
  // All that the table names may be more than any sequence has.
  CHECK(refusal(m, paged(), [&](auto& a) {
          a.max_seqlen_k = 0;
          a.captured = {tensor({3, 8, 5, 300}), tensor({7}), std::nullopt, std::nullopt};
        }).empty());
}

TEST_CASE("sinks and bit masks") {
  Manifest m = decode_manifest(OperandKind::paged);
  CHECK(has(refusal(m, paged(), [](auto& a) { a.sink = Tensor::dense(64, DType::f32, {8}); }),
            "sink was given"));
  m.params = {{ParamKind::pointer, "sink", {}}, {ParamKind::pointer, "mask_bits", {}}};
  const auto with = [&](std::vector<std::int64_t> sink, std::vector<std::int64_t> mask) {
    AttentionArgs args = paged();
    args.sink = Tensor::dense(64, DType::f32, std::move(sink));
    args.mask_bits = Tensor::dense(64, DType::i32, std::move(mask));
    return refusal(m, args, [](AttentionArgs&) {});
  };
  CHECK(with({8}, {3, 8, 5, 10}).empty());
  CHECK(with({8}, {1, 1, 5, 10}).empty());
  CHECK(has(with({2}, {1, 1, 5, 10}), "sink has shape [2], [heads_q] = [8]"));
  CHECK(has(with({8}, {1, 1, 5, 9}), "mask_bits has shape"));
  AttentionArgs args = paged();
  args.sink = Tensor::dense(64, DType::f32, {8});
  args.mask_bits = Tensor::dense(64, DType::i32, {3, 1, 5, 10});
  const Problem p = make_problem(m, args);
  CHECK(p.mask_stride_batch == 50);
  CHECK(p.mask_stride_head == 0);
  CHECK(p.mask_words == 10);
}
