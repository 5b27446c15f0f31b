// O of ragged rows on sm_90a: tensor copies that end where a sequence does (create_ragged_tma_tile).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <kiln/kiln.hpp>

#include "tests/serving/emulated.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/problem/workload.hpp"

using namespace kiln;
using kiln::test::emulated;
using kiln::test::ints;
using kiln::test::upload;

namespace {

KernelSource kernel(int depth, const char* more = "") {
  return generate(make_plan(
      parse_config(fmt::format(R"({{"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": {},
                      "operand": {{"kind": "ragged"}}{}}})",
                               depth, more),
                   "test")));
}

}  // namespace

TEST_CASE("rows of O before, between and behind those of the sequences stay as they were") {
  constexpr std::int64_t kHeads = 2, kRoom = 40;  // rows around the tensor
  const std::vector<std::int32_t> offsets{0, 1, 1, 16, 32, 49, 81, 226};
  const std::int64_t total = offsets.back(), batch = static_cast<std::int64_t>(offsets.size()) - 1;
  for (const std::int64_t depth : {64, 80, 128, 256}) {
    CAPTURE(depth);
    const KernelSource source = kernel(static_cast<int>(depth));
    CHECK(source.text.find("copy_16_bytes") == std::string::npos);
    CHECK_FALSE(source.manifest.takes("o", KernelParam::Kind::pointer));
    std::vector<float> x = random_normal(static_cast<std::size_t>(total * kHeads * depth), 5, 0);
    round_to(DType::bf16, x);
    const DeviceBuffer d_x = upload(encode(DType::bf16, x)), d_offsets = ints(offsets);
    // Rows of three heads, of which O has the first two; every byte that is no part of O is 0x5a.
    const std::int64_t row = 3 * depth;
    std::vector<std::byte> bytes(static_cast<std::size_t>(2 * (total + 2 * kRoom) * row), std::byte{0x5a});
    DeviceBuffer d_o = upload(bytes);
    AttentionArgs args;
    args.q = args.k = args.v = Tensor::dense(d_x.address(), DType::bf16, {total, kHeads, depth});
    args.o = Tensor{d_o.address() + static_cast<std::uint64_t>(2 * kRoom * row),
                    DType::bf16,
                    {total, kHeads, depth},
                    {row, depth, 1}};
    args.cu_seqlens_q = args.cu_seqlens_k = Tensor::dense(d_offsets.address(), DType::i32, {batch + 1});
    args.max_seqlen_q = args.max_seqlen_k = 145;
    const auto report = emulated().load(source)->launch(args);
    for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    d_o.read(bytes);
    std::int64_t touched = 0, kept = 0;
    for (std::int64_t i = 0; i < total + 2 * kRoom; ++i) {
      for (std::int64_t c = 0; c < row; ++c) {
        const auto at = static_cast<std::size_t>(2 * (i * row + c));
        const bool same = bytes[at] == std::byte{0x5a} && bytes[at + 1] == std::byte{0x5a};
        const bool part = i >= kRoom && i < kRoom + total && c < kHeads * depth;
        touched += !part && !same;
        kept += part && same;
      }
    }
    CHECK(touched == 0);
    CHECK(kept == 0);
    // A sequence of one row is V's row.
    for (std::int64_t c = 0; c < kHeads * depth; ++c) {
      const auto at = static_cast<std::size_t>(2 * (kRoom * row + c));
      const std::vector<float> first = decode(DType::bf16, std::span(bytes).subspan(at, 2));
      REQUIRE(first[0] == x[static_cast<std::size_t>(c)]);
    }
  }
}
