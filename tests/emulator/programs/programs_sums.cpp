// Reductions, scans, histograms, compaction.
#include <algorithm>
#include <numeric>

#include "tests/emulator/programs/harness.hpp"

using namespace programs;

TEST_CASE("program: reduction by a tree in shared memory") {
  run_program("reduce_shared", [](Session& s) {
    const auto in = eighths(5000);
    const auto partial = s.empty<float>(7);
    s.launch({7}, {256}, s.put(in), partial, 5000);
    const auto sums = s.get<float>(partial, 7);
    CHECK(std::accumulate(sums.begin(), sums.end(), 0.0) == std::accumulate(in.begin(), in.end(), 0.0));
  });
}

TEST_CASE("program: reduction by shuffles and an atomic") {
  run_program("reduce_shuffle", [](Session& s) {
    const auto in = integers(3000, 1000);
    const auto total = s.zeros<int>(1);
    s.launch({12}, {256}, s.put(in), total, 3000);
    CHECK(s.get<int>(total, 1)[0] == std::accumulate(in.begin(), in.end(), 0));
  });
}

TEST_CASE("program: reduction finished by the last block") {
  run_program("reduce_last_block", [](Session& s) {
    const auto in = integers(2000, 1000);
    const auto total = s.empty<int>(1);
    s.launch({16}, {128}, s.put(in), s.empty<int>(16), total, 2000);
    CHECK(s.get<int>(total, 1)[0] == std::accumulate(in.begin(), in.end(), 0));
  });
}

TEST_CASE("program: hardware warp reductions") {
  run_program("reduce_hardware", [](Session& s) {
    const auto in = integers(256, 1 << 20);
    const auto sums = s.empty<int>(8), low = s.empty<int>(8), high = s.empty<int>(8);
    s.launch({2}, {128}, s.put(in), sums, low, high);
    for (std::size_t warp = 0; warp < 8; ++warp) {
      const auto first = in.begin() + static_cast<std::ptrdiff_t>(32 * warp);
      CHECK(s.get<int>(sums, 8)[warp] == std::accumulate(first, first + 32, 0));
      CHECK(s.get<int>(low, 8)[warp] == *std::min_element(first, first + 32));
      CHECK(s.get<int>(high, 8)[warp] == *std::max_element(first, first + 32));
    }
  });
}

TEST_CASE("program: scan with two buffers") {
  run_program("scan_double_buffer", [](Session& s) {
    const auto in = integers(600, 100);
    const auto out = s.empty<int>(600);
    s.dynamic_shared_bytes = 2 * 200 * 4;
    s.launch({3}, {200}, s.put(in), out, 200);
    std::vector<int> want(600);
    for (int block = 0; block < 3; ++block)
      std::partial_sum(in.begin() + 200 * block, in.begin() + 200 * (block + 1), want.begin() + 200 * block);
    CHECK(s.get<int>(out, 600) == want);
  });
}

TEST_CASE("program: work-efficient scan") {
  run_program("scan_blelloch", [](Session& s) {
    const auto in = integers(1024, 100);
    const auto out = s.empty<int>(1024);
    s.launch({2}, {256}, s.put(in), out);
    std::vector<int> want(1024);
    for (int block = 0; block < 2; ++block)
      std::exclusive_scan(in.begin() + 512 * block, in.begin() + 512 * (block + 1),
                          want.begin() + 512 * block, 0);
    CHECK(s.get<int>(out, 1024) == want);
  });
}

TEST_CASE("program: single-pass scan with decoupled look-back") {
  run_program("scan_lookback", [](Session& s) {
    const auto in = integers(1280, 100);
    const auto out = s.empty<int>(1280);
    s.launch({10}, {128}, s.put(in), out, s.zeros<unsigned>(1), s.empty<int>(10), s.empty<int>(10),
             s.zeros<int>(10));
    std::vector<int> want(1280);
    std::partial_sum(in.begin(), in.end(), want.begin());
    CHECK(s.get<int>(out, 1280) == want);
  });
}

TEST_CASE("program: histogram in shared memory") {
  run_program("histogram_shared", [](Session& s) {
    std::vector<unsigned char> in;
    std::vector<unsigned> want(256);
    for (const int value : integers(4001, 256)) {
      in.push_back(static_cast<unsigned char>(value * value % 251));
      ++want[in.back()];
    }
    const auto bins = s.zeros<unsigned>(256);
    s.launch({4}, {128}, s.put(in), bins, 4001);
    CHECK(s.get<unsigned>(bins, 256) == want);
  });
}

TEST_CASE("program: histogram with warp aggregation") {
  run_program("histogram_aggregated", [](Session& s) {
    const auto in = integers(1000, 10);
    std::vector<unsigned> want(10);
    for (const int key : in) ++want[static_cast<std::size_t>(key)];
    const auto bins = s.zeros<unsigned>(10);
    s.launch({8}, {128}, s.put(in), bins, 1000);
    CHECK(s.get<unsigned>(bins, 10) == want);
  });
}

TEST_CASE("program: histogram over the distributed shared memory of clusters") {
  run_program("histogram_cluster", [](Session& s) {
    const auto in = integers(2000, 256);
    std::vector<unsigned> want(256);
    for (const int key : in) ++want[static_cast<std::size_t>(key)];
    const auto bins = s.zeros<unsigned>(256);
    s.cluster = {4};
    s.dynamic_shared_bytes = 64 * 4;
    s.launch({8}, {96}, s.put(in), bins, 2000, 64);
    CHECK(s.get<unsigned>(bins, 256) == want);
  });
}

TEST_CASE("program: stream compaction") {
  run_program("compact", [](Session& s) {
    const auto in = integers(900, 1000);
    std::vector<int> want;
    for (const int value : in) {
      if (value % 3 == 0) want.push_back(value);
    }
    const auto out = s.empty<int>(900), count = s.zeros<int>(1);
    s.launch({8}, {128}, s.put(in), out, count, 900);
    REQUIRE(s.get<int>(count, 1)[0] == static_cast<int>(want.size()));
    auto got = s.get<int>(out, want.size());
    std::sort(got.begin(), got.end());
    std::sort(want.begin(), want.end());
    CHECK(got == want);
  });
}
