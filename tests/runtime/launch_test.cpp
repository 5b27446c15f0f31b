// Packing and launching by the manifest, on the emulated device and on every CUDA device there is: small
// kernels copy out what they were given.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "runtime/device/device.hpp"
#include "tests/runtime/support.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

/// "emulated", and "cuda:0" where there is one; or just $KILN_TEST_DEVICE.
std::vector<std::string> devices() {
  if (const char* only = getenv("KILN_TEST_DEVICE")) return {only};
  std::vector<std::string> selectors{"emulated"};
  for (const DeviceInfo& info : list_cuda_devices()) selectors.push_back(info.selector);
  return selectors;
}

template <class T>
std::vector<T> read_all(const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.size() / sizeof(T));
  buffer.read(std::as_writable_bytes(std::span(values)));
  return values;
}
template <class T>
DeviceBuffer upload(Runtime& runtime, const std::vector<T>& values) {
  DeviceBuffer buffer = runtime.allocate(values.size() * sizeof(T));
  buffer.write(std::as_bytes(std::span(values)));
  return buffer;
}

/// Buffers of one problem with the arguments over them.
struct Given {
  DeviceBuffer q, k, v, o, lse, lengths_q, lengths_k;
  AttentionArgs args;
};

Given given_contiguous(Runtime& runtime, std::int64_t batch, std::int64_t sq, std::int64_t sk,
                       std::int64_t hq, std::int64_t hk, std::int64_t depth) {
  Given given;
  const auto make = [&](DeviceBuffer& buffer, Tensor& tensor, std::vector<std::int64_t> shape) {
    const auto count = static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
    std::vector<std::uint16_t> values(count);
    std::iota(values.begin(), values.end(), std::uint16_t{1});
    buffer = upload(runtime, values);
    tensor = Tensor::dense(buffer.address(), DType::bf16, std::move(shape));
  };
  make(given.q, given.args.q, {batch, sq, hq, depth});
  make(given.k, given.args.k, {batch, sk, hk, depth});
  make(given.v, given.args.v, {batch, sk, hk, depth});
  make(given.o, given.args.o, {batch, sq, hq, depth});
  return given;
}

const char* const kReport = R"(
extern "C" __global__ void kernel(const void* q, const void* k, const void* v, long long* o, const float* lse,
    int batch, int heads_q, int heads_kv, int seqlen_q, int seqlen_k, int num_m_blocks, int num_tiles, int total_q,
    int total_k, int section_heads, long long q_batch, long long k_seq, long long v_head, long long o_head,
    float scale_log2, float scale, int* tile_counter) {
  if (threadIdx.x != 0 || blockIdx.x + blockIdx.y + blockIdx.z != 0) return;
  long long values[] = {(long long)q, (long long)k, (long long)v, (long long)o, (long long)lse, batch, heads_q, heads_kv,
    seqlen_q, seqlen_k, num_m_blocks, num_tiles, total_q, total_k, section_heads, q_batch, k_seq, v_head, o_head,
    __float_as_int(scale_log2), __float_as_int(scale), *tile_counter, gridDim.x, gridDim.y, gridDim.z, blockDim.x};
#pragma unroll
  for (int i = 0; i < sizeof(values) / 8; ++i) o[i] = values[i];
}
)";

KernelSource report_source(GridRule::Kind grid) {
  KernelSource source = make_source("report", kReport);
  Manifest& manifest = source.manifest;
  manifest.target = "sm_80";
  manifest.num_threads = 64;
  manifest.smem_bytes = 60000;  // above the static limit, so that the attribute must be set
  manifest.grid = {grid, 16, 2};
  manifest.depth = manifest.ov_depth = 64;
  manifest.scale = 0.125;
  manifest.writes_lse = true;
  for (const char* role : {"q", "k", "v", "o", "lse"})
    manifest.params.push_back({ParamKind::pointer, role, {}});
  for (const char* role : {"batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k", "num_m_blocks",
                           "num_tiles", "total_q", "total_k", "section_heads"}) {
    manifest.params.push_back({ParamKind::i32, role, {}});
  }
  for (const char* role : {"q_stride_batch", "k_stride_seq", "v_stride_head", "o_stride_head"}) {
    manifest.params.push_back({ParamKind::i64, role, {}});
  }
  manifest.params.push_back({ParamKind::f32, "scale_log2", {}});
  manifest.params.push_back({ParamKind::f32, "scale", {}});
  manifest.params.push_back({ParamKind::pointer, "tile_counter", {}});
  return source;
}

std::int64_t bits(float value) {
  std::int32_t word = 0;
  std::memcpy(&word, &value, 4);
  return word;
}

}  // namespace

TEST_CASE("every role reaches the kernel, and both grid rules give the grid they promise") {
  for (const std::string& selector : devices()) {
    CAPTURE(selector);
    RuntimeOptions options = quiet();
    options.device = selector;
    Runtime runtime(options);
    for (const GridRule::Kind grid : {GridRule::Kind::tiles, GridRule::Kind::persistent}) {
      const auto kernel = runtime.load(report_source(grid));
      Given given = given_contiguous(runtime, 3, 40, 50, 8, 2, 64);
      given.lse = runtime.allocate(3 * 8 * 40 * 4);
      given.args.lse = Tensor::dense(given.lse.address(), DType::f32, {3, 8, 40});
      kernel->launch(given.args);
      const auto got = read_all<std::int64_t>(given.o);
      const std::int64_t persistent = std::min(72, runtime.device().num_sms * 2);
      const bool tiles = grid == GridRule::Kind::tiles;
      const auto address = [](const DeviceBuffer& buffer) {
        return static_cast<std::int64_t>(buffer.address());
      };
      const std::vector<std::int64_t> expected = {address(given.q),
                                                  address(given.k),
                                                  address(given.v),
                                                  address(given.o),
                                                  address(given.lse),
                                                  3,
                                                  8,
                                                  2,
                                                  40,
                                                  50,
                                                  3,
                                                  72,
                                                  120,
                                                  150,
                                                  24,
                                                  40 * 8 * 64,
                                                  2 * 64,
                                                  64,
                                                  64,
                                                  bits(0.125f * 1.44269504f),
                                                  bits(0.125f),
                                                  0,
                                                  tiles ? 3 : persistent,
                                                  tiles ? 8 : 1,
                                                  tiles ? 3 : 1,
                                                  64};
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(got[i] == expected[i]);
      }
      given.args.scale = 2.0;
      CHECK(kernel->time(given.args, 1, 2).us.size() == 2);
      CHECK(read_all<std::int64_t>(given.o)[20] == bits(2.0f));
    }
  }
}

TEST_CASE("tensor maps: contiguous boxes end at their sequence, ragged ones at the last row of all") {
  const std::string body = R"(
struct alignas(64) Map { char bytes[128]; };
__device__ unsigned smem_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void kernel(const __grid_constant__ Map map, unsigned short* o) {
  __shared__ alignas(128) unsigned short tile[8 * 64];
  __shared__ unsigned long long barrier;
  const unsigned bar = smem_address(&barrier), dst = smem_address(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(bar) : "memory");
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
      :: "r"(dst), "l"(&map), "r"(bar), "r"(0), "r"(C1), "r"(C2), "r"(C3) : "memory");
  }
  __syncthreads();
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @p bra D; bra W; D: }" :: "r"(bar) : "memory");
  for (int i = threadIdx.x; i < 8 * 64; i += 32) o[i] = tile[i];
}
)";
  const auto with = [&](int c1, int c2, int c3) {
    std::string text = body;
    const auto put = [&](const std::string& name, int value) {
      text.replace(text.find(name), 2, std::to_string(value));
    };
    put("C1", c1);
    put("C2", c2);
    put("C3", c3);
    KernelSource source = make_source("maps", text);
    source.manifest.depth = source.manifest.ov_depth = 64;
    source.manifest.grid.block_rows = 1 << 20;
    source.manifest.scale = 1;
    source.manifest.params = {{ParamKind::tensor_map, "k", {}}, {ParamKind::pointer, "o", {}}};
    return source;
  };
  for (const std::string& selector : devices()) {
    CAPTURE(selector);
    RuntimeOptions options = quiet();
    options.device = selector;
    Runtime runtime(options);
    if (selector != "emulated" && runtime.device().target != "sm_90a") continue;

    // Rows 3.. of head 1 of batch 1; its sequence has 5 rows, so rows 5.. of the box are zeros.
    Given given = given_contiguous(runtime, 2, 16, 5, 2, 2, 64);
    KernelSource source = with(3, 1, 1);
    source.manifest.params[0].map = {{{"depth", 64}, {"seq", 8}, {"head", 1}, {"batch", 1}}, 0, 128};
    runtime.load(source)->launch(given.args);
    auto got = read_all<std::uint16_t>(given.o);
    for (int row = 0; row < 8; ++row) {
      for (int column : {0, 63}) {
        const int expected = row + 3 < 5 ? 1 + ((5 + row + 3) * 2 + 1) * 64 + column : 0;
        CHECK(got[static_cast<std::size_t>(row * 64 + column)] == expected);
      }
    }

    // Ragged: rows 4.. of head 1, across sequences; there are 9 rows in all.
    Given ragged = given_contiguous(runtime, 1, 16, 9, 2, 2, 64);
    for (Tensor* tensor : {&ragged.args.q, &ragged.args.k, &ragged.args.v, &ragged.args.o}) {
      tensor->shape.erase(tensor->shape.begin());
      tensor->strides.erase(tensor->strides.begin());
    }
    ragged.lengths_q = upload<std::int32_t>(runtime, {0, 9, 16});
    ragged.lengths_k = upload<std::int32_t>(runtime, {0, 7, 9});
    ragged.args.cu_seqlens_q = Tensor::dense(ragged.lengths_q.address(), DType::i32, {3});
    ragged.args.cu_seqlens_k = Tensor::dense(ragged.lengths_k.address(), DType::i32, {3});
    ragged.args.max_seqlen_q = 9;
    ragged.args.max_seqlen_k = 7;
    source = with(4, 1, 0);
    source.manifest.operand = OperandKind::ragged;
    source.manifest.params[0].map = {{{"depth", 64}, {"seq", 8}, {"head", 1}, {"batch", 1}}, 0, 256};
    runtime.load(source)->launch(ragged.args);
    got = read_all<std::uint16_t>(ragged.o);
    for (int row = 0; row < 8; ++row) {
      for (int column : {0, 63}) {
        const int expected = row < 5 ? 1 + ((row + 4) * 2 + 1) * 64 + column : 0;
        CHECK(got[static_cast<std::size_t>(row * 64 + column)] == expected);
      }
    }

    // Pages of 6 rows: rows 2.. of head 1 of page 3; the box ends with its page, not in the next.
    Given paged = given_contiguous(runtime, 4, 16, 6, 2, 2, 64);
    paged.lengths_q = upload<std::int32_t>(runtime, {0, 9, 16});
    paged.lengths_k = upload<std::int32_t>(runtime, {6, 6, 0, 1, 2, 3});
    for (Tensor* tensor : {&paged.args.q, &paged.args.o})
      *tensor = Tensor::dense(tensor->address, DType::bf16, {16, 2, 64});
    paged.args.cu_seqlens_q = Tensor::dense(paged.lengths_q.address(), DType::i32, {3});
    paged.args.seqlens_k = Tensor::dense(paged.lengths_k.address(), DType::i32, {2});
    paged.args.page_table = Tensor::dense(paged.lengths_k.address() + 8, DType::i32, {2, 2});
    paged.args.max_seqlen_q = 9;
    source = with(2, 1, 3);
    source.manifest.operand = OperandKind::paged;
    source.manifest.page_size = 6;
    source.manifest.params[0].map = {{{"depth", 64}, {"seq", 8}, {"head", 1}, {"page", 1}}, 0, 256};
    runtime.load(source)->launch(paged.args);
    got = read_all<std::uint16_t>(paged.o);
    for (int row = 0; row < 8; ++row) {
      const int expected = row < 4 ? (1 + ((3 * 6 + row + 2) * 2 + 1) * 64) % 65536 : 0;
      CHECK(got[static_cast<std::size_t>(row * 64)] == expected);
    }
  }
}

TEST_CASE("what serving adds reaches the kernel; counters are zero, the workspace is its own") {
  const char* const body = R"(
extern "C" __global__ void kernel(long long* o, const int* page_table, const int* seqlens_k, int page_table_stride,
    int num_pages, int page_size, long long k_page, long long v_batch, int* item_counters, float* workspace,
    const float* k_scale, long long k_scale_page) {
  float* const mine = workspace + blockIdx.x * 32;
  mine[threadIdx.x] = threadIdx.x;
  if (threadIdx.x != 0 || blockIdx.x != 0) return;
  int counters = 0;
  for (int i = 0; i < 12; ++i) counters += item_counters[i] != 0;
  long long values[] = {page_table[21], seqlens_k[1], page_table_stride, num_pages, page_size, k_page, v_batch, counters,
    gridDim.x, (long long)workspace % 16, k_scale == nullptr, k_scale_page};
#pragma unroll
  for (int i = 0; i < sizeof(values) / 8; ++i) o[i] = values[i];
}
)";
  KernelSource source = make_source("serving", body);
  Manifest& manifest = source.manifest;
  manifest.target = "sm_80";
  manifest.operand = OperandKind::paged;
  manifest.page_size = 16;
  manifest.grid = {GridRule::Kind::stream_k, 16, 2, 64};
  manifest.depth = manifest.ov_depth = 64;
  manifest.workspace_bytes_per_block = 128;
  manifest.scale = 1;
  manifest.quantization = Quantization{Quantization::Granularity::per_token, 0, DType::f32};
  for (const char* role : {"o", "page_table", "seqlens_k"})
    manifest.params.push_back({ParamKind::pointer, role, {}});
  for (const char* role : {"page_table_stride", "num_pages", "page_size"})
    manifest.params.push_back({ParamKind::i32, role, {}});
  for (const char* role : {"k_stride_page", "v_stride_batch"})
    manifest.params.push_back({ParamKind::i64, role, {}});
  for (const char* role : {"item_counters", "workspace", "k_scale"})
    manifest.params.push_back({ParamKind::pointer, role, {}});
  manifest.params.push_back({ParamKind::i64, "k_scale_stride_page", {}});

  for (const std::string& selector : devices()) {
    CAPTURE(selector);
    RuntimeOptions options = quiet();
    options.device = selector;
    Runtime runtime(options);
    const auto kernel = runtime.load(source);
    Given given = given_contiguous(runtime, 7, 3, 16, 8, 2, 64);
    std::vector<std::int32_t> table(60, 5);
    table[21] = 77;
    const DeviceBuffer entries = upload(runtime, table), lengths = upload<std::int32_t>(runtime, {3, 200, 0}),
                       offsets = upload<std::int32_t>(runtime, {0, 5, 10, 21}),
                       scales = runtime.allocate(7 * 16 * 2 * 4);
    for (Tensor* tensor : {&given.args.q, &given.args.o})
      *tensor = Tensor::dense(tensor->address, DType::bf16, {21, 8, 64});
    given.args.page_table = Tensor::dense(entries.address(), DType::i32, {3, 20});
    given.args.seqlens_k = Tensor::dense(lengths.address(), DType::i32, {3});
    given.args.cu_seqlens_q = Tensor::dense(offsets.address(), DType::i32, {4});
    given.args.k_scale = Tensor::dense(scales.address(), DType::f32, {7, 16, 2});
    given.args.max_seqlen_q = 5;
    given.args.max_seqlen_k = 200;
    for (int launch = 0; launch < 2; ++launch) {
      const auto report = kernel->launch(given.args);
      if (report) CHECK(report->findings.empty());
      // 12 items (2 of 16 rows, 2 heads, 3 sequences) of at most 4 KV tiles.
      const std::int64_t grid = std::min(48, runtime.device().num_sms * 2);
      const std::vector<std::int64_t> expected{77, 200, 20, 7, 16, 16 * 2 * 64, 0, 0, grid, 0, 0, 32};
      const auto got = read_all<std::int64_t>(given.o);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(got[i] == expected[i]);
      }
    }
  }
}

TEST_CASE("memory: copies at offsets, fills, and refusals outside the buffer") {
  for (const std::string& selector : devices()) {
    CAPTURE(selector);
    RuntimeOptions options = quiet();
    options.device = selector;
    Runtime runtime(options);
    DeviceBuffer buffer = runtime.allocate(16, "numbers");
    buffer.fill(std::byte{7});
    const std::byte four[4]{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    buffer.write(four, 12);
    std::byte back[16];
    buffer.read(back);
    CHECK(back[0] == std::byte{7});
    CHECK(back[15] == std::byte{4});
    CHECK(error_of([&] { buffer.write(four, 13); }) == ErrorCode::bad_input);
    CHECK(error_of([&] { buffer.read(back, 1); }) == ErrorCode::bad_input);
    CHECK(error_of([&] { buffer.read(back, ~std::size_t{0}); }) == ErrorCode::bad_input);
    DeviceBuffer moved = std::move(buffer);
    CHECK(buffer.size() == 0);
    CHECK(moved.size() == 16);
    CHECK(runtime.allocate(0).address() != 0);
    runtime.synchronize();
  }
}

TEST_CASE("an empty problem launches nothing") {
  Runtime runtime(quiet());
  const auto kernel = runtime.load(report_source(GridRule::Kind::tiles));
  Given given = given_contiguous(runtime, 2, 0, 5, 8, 2, 64);
  given.lse = runtime.allocate(4);
  given.args.lse = Tensor::dense(given.lse.address(), DType::f32, {2, 8, 0});
  CHECK(kernel->launch(given.args) == nullptr);
}

TEST_CASE("a kernel loaded twice is the same, one of another config is not") {
  Runtime runtime(quiet());
  KernelSource source = report_source(GridRule::Kind::tiles);
  const auto first = runtime.load(source);
  CHECK(runtime.load(source) == first);
  source.manifest.name = "other";
  const auto second = runtime.load(source);
  CHECK(second != first);
  CHECK(second->binary().key == first->binary().key);
  CHECK(second->manifest().name == "other");
}

TEST_CASE(
    "a kernel that waits for the launch before may overlap with it, and the emulated device holds it to "
    "that") {
  for (const bool waits : {true, false}) {
    CAPTURE(waits);
    const std::string wait = waits ? R"(asm volatile("griddepcontrol.wait;" ::: "memory");)" : "";
    KernelSource source = make_source("dependent", "extern \"C\" __global__ void kernel(int* o) {\n" + wait +
                                                       "\no[threadIdx.x] = threadIdx.x;\n}\n");
    Manifest& manifest = source.manifest;
    manifest.target = "sm_90a";
    manifest.num_threads = 32;
    manifest.grid = {GridRule::Kind::tiles, 64, 1};
    manifest.depth = manifest.ov_depth = 64;
    manifest.scale = 1;
    manifest.params = {{ParamKind::pointer, "o", {}}};
    Runtime runtime(quiet());
    Given given = given_contiguous(runtime, 1, 1, 1, 1, 1, 64);
    const auto binary = runtime.compile(source);
    // Expected of the compiled program, and so the way to launch it.
    manifest.expectations = {{"griddepcontrol.wait", 1}};
    const auto report = runtime.load(binary, manifest)->launch(given.args);
    REQUIRE(report);
    // The store, and the end without a wait.
    REQUIRE(report->findings.size() == (waits ? 0 : 2));
    for (const auto& finding : report->findings) CHECK(finding.kind == "early-access");
    LaunchOptions options;
    options.before = LaunchBefore::unrelated;
    CHECK(runtime.load(binary, manifest)->launch(given.args, options)->findings.size() == (waits ? 0 : 1));
    options.max_blocks = -1;
    CHECK(error_of([&] { runtime.load(binary, manifest)->launch(given.args, options); }) ==
          ErrorCode::bad_input);
  }
}
