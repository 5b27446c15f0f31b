// Synchronisation of all kinds, cooperative groups, libcu++ and CUB from the toolkit's headers.
#include <algorithm>
#include <numeric>

#include "tests/emulator/programs/harness.hpp"

using namespace programs;

TEST_CASE("program: spin lock") {
  run_program("spin_lock", [](Session& s) {
    const auto data = s.zeros<int>(2);
    s.launch({6}, {32}, s.zeros<int>(1), data, 5);
    CHECK(s.get<int>(data, 2) == std::vector<int>{30, 465});
  });
}

TEST_CASE("program: ring with named barriers") {
  run_program("named_barriers", [](Session& s) {
    const auto in = integers(64 * 7, 1000);
    const auto out = s.empty<int>(64 * 7);
    s.launch({1}, {128}, s.put(in), out, 7);
    std::vector<int> want;
    for (std::size_t i = 0; i < 64 * 7; ++i) want.push_back(in[i / 64 * 64 + 63 - i % 64] * 3 + 1);
    CHECK(s.get<int>(out, want.size()) == want);
  });
}

TEST_CASE("program: a grid that synchronises") {
  run_program("cg_grid", [](Session& s) {
    constexpr int kCount = 1000;
    auto want = integers(kCount, 1000);
    const auto a = s.put(want), b = s.empty<int>(kCount);
    s.launch({6}, {64}, a, b, kCount);
    for (int round = 0; round < 3; ++round) {
      std::vector<int> moved(want.size());
      for (int i = 0; i < kCount; ++i)
        moved[static_cast<std::size_t>((i + kCount / 2 + 1) % kCount)] =
            want[static_cast<std::size_t>(i)] + 1;
      for (int i = 0; i < kCount; ++i)
        want[static_cast<std::size_t>(i)] = moved[static_cast<std::size_t>(kCount - 1 - i)];
    }
    CHECK(s.get<int>(a, kCount) == want);
  });
}

TEST_CASE("program: groups of lanes with masks of their own, and tiles of two warps") {
  run_program("cg_partitions", [](Session& s) {
    const auto in = integers(128, 100);
    const auto labels = s.empty<int>(128), tiles = s.empty<int>(128);
    const auto ballots = s.empty<unsigned>(128);
    s.launch({1}, {128}, s.put(in), labels, ballots, tiles);
    std::vector<int> want_labels(128), want_tiles(128);
    std::vector<unsigned> want_ballots(128);
    for (std::size_t i = 0; i < 128; ++i)
      for (std::size_t j = 0; j < 128; ++j) {
        if (i / 32 == j / 32 && in[i] % 3 == in[j] % 3) want_labels[i] += in[j];
        if (i / 16 == j / 16 && in[j] % 2 != 0) want_ballots[i] |= 1u << j % 16;
        if (i / 64 == j / 64) want_tiles[i] += in[j];
      }
    CHECK(s.get<int>(labels, 128) == want_labels);
    CHECK(s.get<unsigned>(ballots, 128) == want_ballots);
    CHECK(s.get<int>(tiles, 128) == want_tiles);
  });
}

TEST_CASE("program: cooperative groups") {
  run_program("cg_groups", [](Session& s) {
    const auto in = integers(256, 1000);
    const auto sums = s.empty<int>(32), scans = s.empty<int>(256), ranks = s.empty<int>(256),
               greatest = s.empty<int>(2);
    s.launch({2}, {128}, s.put(in), sums, scans, ranks, greatest);
    std::vector<int> want_sums(32), want_scans(256), want_ranks(256, -1), want_greatest(2);
    for (std::size_t i = 0; i < 256; ++i) {
      want_sums[i / 8] += in[i];
      want_scans[i] = in[i] + (i % 16 ? want_scans[i - 1] : 0);
      want_greatest[i / 128] = std::max(want_greatest[i / 128], in[i]);
    }
    for (std::size_t warp = 0; warp < 8; ++warp) {
      int rank = 0;
      for (std::size_t i = 32 * warp; i < 32 * warp + 32; ++i) {
        if (in[i] % 2 != 0) want_ranks[i] = rank++;
      }
    }
    CHECK(s.get<int>(sums, 32) == want_sums);
    CHECK(s.get<int>(scans, 256) == want_scans);
    CHECK(s.get<int>(ranks, 256) == want_ranks);
    CHECK(s.get<int>(greatest, 2) == want_greatest);
  });
}

TEST_CASE("program: cooperative groups' memcpy_async") {
  run_program("cg_memcpy_async", [](Session& s) {
    const auto in = integers(256 * 5, 1000);
    const auto out = s.empty<int>(256 * 5);
    s.launch({1}, {256}, s.put(in), out, 5);
    std::vector<int> want;
    for (std::size_t i = 0; i < 256 * 5; ++i)
      want.push_back(in[i / 256 * 256 + 255 - i % 256] + in[i / 256 * 256 + (i % 256 ^ 1)]);
    CHECK(s.get<int>(out, want.size()) == want);
  });
}

TEST_CASE("program: cuda::pipeline") {
  run_program("cuda_pipeline", [](Session& s) {
    const auto in = eighths(128 * 9);
    const auto out = s.empty<float>(128);
    s.launch({1}, {128}, s.put(in), out, 9);
    std::vector<float> want(128);
    for (std::size_t t = 0; t < 128; ++t) {
      for (std::size_t i = 0; i < 9; ++i) want[t] += in[128 * i + (t + i) % 128];
    }
    CHECK(s.get<float>(out, 128) == want);
  });
}

TEST_CASE("program: cuda::barrier with split arrival") {
  run_program("cuda_barrier", [](Session& s) {
    auto values = integers(256, 1000);
    const auto out = s.put(values);
    s.launch({2}, {128}, out, 6);
    for (int i = 0; i < 6; ++i) {
      const auto old = values;
      for (std::size_t t = 0; t < 256; ++t) {
        values[t] =
            old[t] + old[t / 128 * 128 + (t % 128 + 1) % 128] + (i * 7 + static_cast<int>(t % 128)) % 5;
      }
    }
    CHECK(s.get<int>(out, 256) == values);
  });
}

TEST_CASE("program: CUB block reduction and scan") {
  run_program("cub_reduce_scan", [](Session& s) {
    const auto in = integers(1024, 1000);
    const auto total = s.empty<int>(2), prefix = s.empty<int>(1024);
    s.launch({2}, {128}, s.put(in), total, prefix);
    std::vector<int> want(1024), totals;
    for (int block = 0; block < 2; ++block) {
      const auto first = in.begin() + 512 * block;
      totals.push_back(std::accumulate(first, first + 512, 0));
      std::exclusive_scan(first, first + 512, want.begin() + 512 * block, 0);
    }
    CHECK(s.get<int>(total, 2) == totals);
    CHECK(s.get<int>(prefix, 1024) == want);
  });
}

TEST_CASE("program: CUB block radix sort") {
  run_program("cub_radix_sort", [](Session& s) {
    const auto in = integers(512, 1 << 24);
    const auto keys = s.put(in), values = s.empty<int>(512);
    s.launch({2}, {64}, keys, values);
    const auto sorted = s.get<int>(keys, 512), origin = s.get<int>(values, 512);
    for (std::size_t block = 0; block < 2; ++block) {
      std::vector<int> order(256);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return in[256 * block + static_cast<std::size_t>(a)] < in[256 * block + static_cast<std::size_t>(b)];
      });
      for (std::size_t i = 0; i < 256; ++i) {
        REQUIRE(origin[256 * block + i] == order[i]);
        REQUIRE(sorted[256 * block + i] == in[256 * block + static_cast<std::size_t>(order[i])]);
      }
    }
  });
}

TEST_CASE("program: CUB loads, stores, exchange and histogram") {
  run_program("cub_exchange", [](Session& s) {
    std::vector<unsigned char> in, want_striped(1024);
    std::vector<unsigned> want(64);
    for (const int value : integers(1024, 64)) {
      in.push_back(static_cast<unsigned char>(value));
      ++want[in.back()];
    }
    // Thread t's item i of a striped arrangement is element 128 i + t.
    for (std::size_t t = 0; t < 128; ++t) {
      for (std::size_t i = 0; i < 8; ++i) want_striped[8 * t + i] = in[128 * i + t];
    }
    const auto striped = s.empty<unsigned char>(1024), copy = s.empty<unsigned char>(1024),
               histogram = s.empty<unsigned>(64);
    s.launch({1}, {128}, s.put(in), striped, copy, histogram);
    CHECK(s.get<unsigned char>(striped, 1024) == want_striped);
    CHECK(s.get<unsigned char>(copy, 1024) == in);
    CHECK(s.get<unsigned>(histogram, 64) == want);
  });
}

TEST_CASE("program: CUB warp scan, reduction and exchange") {
  run_program("cub_warp", [](Session& s) {
    const auto in = integers(128, 1000);
    const auto scans = s.empty<int>(128), averages = s.empty<float>(8), exchanged = s.empty<int>(256);
    s.launch({1}, {128}, s.put(in), scans, averages, exchanged);
    std::vector<int> want_scans(128), blocked, want_exchanged(256);
    std::vector<float> want_averages(8);
    for (std::size_t i = 0; i < 128; ++i) {
      want_scans[i] = i % 32 ? want_scans[i - 1] + in[i - 1] : 0;
      want_averages[i / 16] += static_cast<float>(in[i]) / 16;
      blocked.push_back(in[i]);
      blocked.push_back(in[127 - i]);
    }
    // Lane l's item i of a striped warp is element 32 i + l of the warp's 64.
    for (std::size_t i = 0; i < 256; ++i)
      want_exchanged[i] = blocked[i / 64 * 64 + 32 * (i % 2) + i / 2 % 32];
    CHECK(s.get<int>(scans, 128) == want_scans);
    CHECK(max_difference(s.get<float>(averages, 8), want_averages) < 1e-3);
    CHECK(s.get<int>(exchanged, 256) == want_exchanged);
  });
}
