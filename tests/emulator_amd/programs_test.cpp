// Ordinary HIP programs, compiled by clang for every target, run right under every policy and without
// findings.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "harness.hpp"

using namespace amd_test;

namespace {
template <class T>
std::vector<T> random_values(std::size_t n, std::uint64_t seed) {
  Random r(seed);
  std::vector<T> v(n);
  for (T& x : v) {
    if constexpr (std::is_floating_point_v<T>)
      x = static_cast<T>(r.unit());
    else
      x = static_cast<T>(r.next());
  }
  return v;
}
float bf16(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}
std::uint16_t to_bf16(float x) {
  std::uint32_t b = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
void check_close(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::fabs(static_cast<double>(got[i]) - want[i]) <= tolerance);
  }
}
}  // namespace

TEST_CASE("reduce") {
  each_way("reduce", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int n = 5000;
    std::vector<float> x(n);
    for (int i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i % 17);
    const auto px = d.upload(x, "x"), ps = d.upload(std::vector<float>{0}, "sum");
    run({4, 1, 1}, {256, 1, 1}, {arg(px), arg(ps), arg(n)});
    CHECK(d.download<float>(ps, 1)[0] == std::accumulate(x.begin(), x.end(), 0.0F));
  });
}

TEST_CASE("scan") {
  each_way("scan", kTargets, [](Device& d, const Run& run, const std::string&) {
    const auto x = random_values<std::int32_t>(2048, 3);
    const auto px = d.upload(x, "x"), py = d.reserve<std::int32_t>(2048, "y");
    run({2, 1, 1}, {1024, 1, 1}, {arg(px), arg(py)});
    const auto y = d.download<std::int32_t>(py, 2048);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 2048; ++i) {
      sum = (i % 1024 == 0 ? 0 : sum) + static_cast<std::uint32_t>(x[i]);
      REQUIRE(static_cast<std::uint32_t>(y[i]) == sum);
    }
  });
}

TEST_CASE("transpose" * doctest::test_suite("breadth")) {
  each_way("transpose", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int rows = 70, columns = 45;
    const auto x = random_values<float>(static_cast<std::size_t>(rows * columns), 4);
    const auto px = d.upload(x, "x"), py = d.reserve<float>(x.size(), "y");
    run({2, 3, 1}, {32, 8, 1}, {arg(px), arg(py), arg(rows), arg(columns)});
    const auto y = d.download<float>(py, x.size());
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c)
        REQUIRE(y[static_cast<std::size_t>(c * rows + r)] == x[static_cast<std::size_t>(r * columns + c)]);
    }
  });
}

TEST_CASE("gemm with bf16 matrix instructions") {
  each_way("gemm_mfma", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int m = 64, n = 128, k = 96;
    Random r(5);
    std::vector<std::uint16_t> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(n * k));
    for (auto& v : a) v = to_bf16(r.unit());
    for (auto& v : b) v = to_bf16(r.unit());
    const auto pa = d.upload(a, "a"), pb = d.upload(b, "b"),
               pc = d.reserve<float>(static_cast<std::size_t>(m * n), "c");
    const auto report = run({2, 1, 1}, {256, 1, 1}, {arg(pa), arg(pb), arg(pc), arg(n), arg(k)});
    CHECK(report.counters.matrix_flops == 2ULL * m * n * k);
    std::vector<double> want(static_cast<std::size_t>(m * n));
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j)
        for (int kk = 0; kk < k; ++kk)
          want[static_cast<std::size_t>(i * n + j)] +=
              static_cast<double>(bf16(a[static_cast<std::size_t>(i * k + kk)])) *
              bf16(b[static_cast<std::size_t>(j * k + kk)]);
    check_close(d.download<float>(pc, want.size()), want, 1e-4);
  });
}

TEST_CASE("gemm in f32" * doctest::test_suite("breadth")) {
  each_way("gemm_f32", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int m = 20, n = 37, k = 50;
    const auto a = random_values<float>(static_cast<std::size_t>(m * k), 6),
               b = random_values<float>(static_cast<std::size_t>(k * n), 7);
    const auto pa = d.upload(a, "a"), pb = d.upload(b, "b"),
               pc = d.reserve<float>(static_cast<std::size_t>(m * n), "c");
    run({3, 2, 1}, {256, 1, 1}, {arg(pa), arg(pb), arg(pc), arg(m), arg(n), arg(k)});
    std::vector<double> want(static_cast<std::size_t>(m * n));
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j)
        for (int kk = 0; kk < k; ++kk)
          want[static_cast<std::size_t>(i * n + j)] +=
              static_cast<double>(a[static_cast<std::size_t>(i * k + kk)]) *
              b[static_cast<std::size_t>(kk * n + j)];
    check_close(d.download<float>(pc, want.size()), want, 1e-4);
  });
}

TEST_CASE("histogram" * doctest::test_suite("breadth")) {
  each_way("histogram", kTargets, [](Device& d, const Run& run, const std::string&) {
    const auto x = random_values<std::uint8_t>(3000, 8);
    const auto px = d.upload(x, "x"), pb = d.upload(std::vector<std::uint32_t>(256), "bins");
    run({3, 1, 1}, {256, 1, 1}, {arg(px), arg(pb), arg(3000)});
    std::vector<std::uint32_t> want(256);
    for (const auto v : x) ++want[v];
    CHECK(d.download<std::uint32_t>(pb, 256) == want);
  });
}

TEST_CASE("softmax") {
  each_way("softmax", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int rows = 5, columns = 150;
    const auto x = random_values<float>(static_cast<std::size_t>(rows * columns), 9);
    const auto px = d.upload(x, "x"), py = d.reserve<float>(x.size(), "y");
    run({5, 1, 1}, {64, 1, 1}, {arg(px), arg(py), arg(columns)});
    std::vector<double> want(x.size());
    for (std::size_t r = 0; r < 5; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < 150; ++c)
        sum += want[r * 150 + c] = std::exp(static_cast<double>(x[r * 150 + c]));
      for (std::size_t c = 0; c < 150; ++c) want[r * 150 + c] /= sum;
    }
    check_close(d.download<float>(py, x.size()), want, 1e-6);
  });
}

TEST_CASE("sparse matrix times vector" * doctest::test_suite("breadth")) {
  each_way("spmv", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int rows = 100;
    Random r(10);
    std::vector<int> start{0}, column;
    std::vector<float> value;
    for (int i = 0; i < rows; ++i) {
      for (std::uint32_t k = r.next() % 9; k > 0; --k) {
        column.push_back(static_cast<int>(r.next() % rows));
        value.push_back(r.unit());
      }
      start.push_back(static_cast<int>(column.size()));
    }
    const auto x = random_values<float>(rows, 11);
    const auto py = d.reserve<float>(rows, "y");
    run({2, 1, 1}, {64, 1, 1},
        {arg(d.upload(start, "start")), arg(d.upload(column, "column")), arg(d.upload(value, "value")),
         arg(d.upload(x, "x")), arg(py), arg(rows)});
    std::vector<double> want(rows);
    for (std::size_t i = 0; i < rows; ++i)
      for (int k = start[i]; k < start[i + 1]; ++k)
        want[i] += static_cast<double>(value[static_cast<std::size_t>(k)]) *
                   x[static_cast<std::size_t>(column[static_cast<std::size_t>(k)])];
    check_close(d.download<float>(py, rows), want, 1e-5);
  });
}

TEST_CASE("mandelbrot in f64" * doctest::test_suite("breadth")) {
  each_way("mandelbrot", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int width = 64, height = 6, limit = 50;
    const auto po = d.reserve<int>(width * height, "out");
    run({height, 1, 1}, {64, 1, 1}, {arg(po), arg(width), arg(limit)});
    const auto got = d.download<int>(po, width * height);
    int different = 0;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const double cr = -2.0 + 3.0 * x / width, ci = -1.0 + 2.0 * y / width;
        double zr = 0, zi = 0;
        int n = 0;
        while (n < limit && zr * zr + zi * zi < 4.0) {
          const double t = zr * zr - zi * zi + cr;
          zi = 2 * zr * zi + ci;
          zr = t;
          ++n;
        }
        different += n != got[static_cast<std::size_t>(y * width + x)];
      }
    }
    CHECK(different <= 2);  // the compiler fuses multiplications and additions
  });
}

TEST_CASE("bitonic sort" * doctest::test_suite("breadth")) {
  each_way("bitonic", kTargets, [](Device& d, const Run& run, const std::string&) {
    auto keys = random_values<std::int32_t>(1024, 12);
    const auto p = d.upload(keys, "keys");
    run({2, 1, 1}, {256, 1, 1}, {arg(p)});
    std::sort(keys.begin(), keys.begin() + 512);
    std::sort(keys.begin() + 512, keys.end());
    CHECK(d.download<std::int32_t>(p, 1024) == keys);
  });
}

TEST_CASE("stencil" * doctest::test_suite("breadth")) {
  each_way("stencil", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int width = 100, height = 7;
    const auto x = random_values<float>(width * height, 13);
    const auto px = d.upload(x, "x"), py = d.reserve<float>(x.size(), "y");
    run({2, height, 1}, {64, 1, 1}, {arg(px), arg(py), arg(width), arg(height)});
    std::vector<double> want(x.size());
    const auto at = [&](int c, int r) {
      return c < 0 || r < 0 || c >= width || r >= height
                 ? 0.0
                 : static_cast<double>(x[static_cast<std::size_t>(r * width + c)]);
    };
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < width; ++c)
        want[static_cast<std::size_t>(r * width + c)] =
            0.5 * at(c, r) + 0.125 * (at(c, r - 1) + at(c, r + 1) + at(c - 1, r) + at(c + 1, r));
    check_close(d.download<float>(py, x.size()), want, 1e-6);
  });
}

TEST_CASE("n-body" * doctest::test_suite("breadth")) {
  each_way("nbody", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int n = 256;
    const auto body = random_values<float>(4 * n, 14);
    const auto pb = d.upload(body, "body"), pa = d.reserve<float>(4 * n, "acceleration");
    run({2, 1, 1}, {128, 1, 1}, {arg(pb), arg(pa), arg(n)});
    std::vector<double> want(4 * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        double delta[3], squares = 0.01;
        for (std::size_t k = 0; k < 3; ++k) {
          delta[k] = static_cast<double>(body[4 * j + k]) - body[4 * i + k];
          squares += delta[k] * delta[k];
        }
        for (std::size_t k = 0; k < 3; ++k)
          want[4 * i + k] += body[4 * j + 3] * std::pow(squares, -1.5) * delta[k];
      }
    }
    check_close(d.download<float>(pa, 4 * n), want, 0.05);
  });
}

TEST_CASE("stream compaction" * doctest::test_suite("breadth")) {
  each_way("compact", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int n = 700;
    std::vector<std::int32_t> x(n);
    std::iota(x.begin(), x.end(), 1);
    const auto px = d.upload(x, "x"), po = d.reserve<std::int32_t>(n, "out"),
               pc = d.upload(std::vector<std::uint32_t>{0}, "count");
    run({3, 1, 1}, {256, 1, 1}, {arg(px), arg(po), arg(pc), arg(n)});
    REQUIRE(d.download<std::uint32_t>(pc, 1)[0] == 233);
    auto got = d.download<std::int32_t>(po, 233);
    std::sort(got.begin(), got.end());
    for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == static_cast<int>(3 * (i + 1)));
  });
}

TEST_CASE("layer normalisation" * doctest::test_suite("breadth")) {
  each_way("layernorm", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int rows = 3, columns = 200;
    Random r(15);
    std::vector<std::uint16_t> x(rows * columns);
    for (auto& v : x) v = to_bf16(r.unit());
    const auto gain = random_values<float>(columns, 16);
    const auto px = d.upload(x, "x"), pg = d.upload(gain, "gain"),
               py = d.reserve<std::uint16_t>(x.size(), "y");
    run({rows, 1, 1}, {64, 1, 1}, {arg(px), arg(pg), arg(py), arg(columns)});
    const auto y = d.download<std::uint16_t>(py, x.size());
    for (std::size_t row = 0; row < rows; ++row) {
      double sum = 0, squares = 0;
      for (std::size_t c = 0; c < columns; ++c)
        sum += bf16(x[row * columns + c]), squares += std::pow(bf16(x[row * columns + c]), 2);
      const double mean = sum / columns, scale = 1 / std::sqrt(squares / columns - mean * mean + 1e-5);
      for (std::size_t c = 0; c < columns; ++c) {
        REQUIRE(bf16(y[row * columns + c]) ==
                doctest::Approx((bf16(x[row * columns + c]) - mean) * scale * gain[c]).epsilon(0.01));
      }
    }
  });
}

TEST_CASE("game of life" * doctest::test_suite("breadth")) {
  each_way("life", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int width = 90, height = 12;
    auto x = random_values<std::uint8_t>(width * height, 17);
    for (auto& v : x) v &= 1;
    const auto px = d.upload(x, "x"), py = d.reserve<std::uint8_t>(x.size(), "y");
    run({2, height, 1}, {64, 1, 1}, {arg(px), arg(py), arg(width), arg(height)});
    const auto y = d.download<std::uint8_t>(py, x.size());
    for (int r = 0; r < height; ++r) {
      for (int c = 0; c < width; ++c) {
        int n = 0;
        for (int dr = -1; dr <= 1; ++dr)
          for (int dc = -1; dc <= 1; ++dc)
            if (dr != 0 || dc != 0)
              n += x[static_cast<std::size_t>((r + dr + height) % height * width + (c + dc + width) % width)];
        const auto at = static_cast<std::size_t>(r * width + c);
        REQUIRE(y[at] == (n == 3 || (n == 2 && x[at])));
      }
    }
  });
}

TEST_CASE("private array in scratch") {
  each_way("private_array", kTargets, [](Device& d, const Run& run, const std::string&) {
    const auto x = random_values<std::int32_t>(128, 18);
    const auto px = d.upload(x, "x"), py = d.reserve<std::int32_t>(128, "y");
    run({2, 1, 1}, {64, 1, 1}, {arg(px), arg(py), arg(20)});
    const auto y = d.download<std::int32_t>(py, 128);
    for (std::size_t t = 0; t < 128; ++t) {
      int stack[32];
      for (int i = 0; i < 32; ++i) stack[i] = i * 3;
      for (int i = 0; i < 20; ++i) {
        const auto k = (static_cast<std::uint32_t>(x[t]) + static_cast<std::uint32_t>(i) * 7) & 31;
        stack[k] = stack[(k + 5) & 31] + i;
      }
      std::uint32_t sum = 0;
      for (std::uint32_t i = 0; i < 32; ++i)
        sum += static_cast<std::uint32_t>(stack[(i * static_cast<std::uint32_t>(x[t])) & 31]) * (i + 1);
      REQUIRE(static_cast<std::uint32_t>(y[t]) == sum);
    }
  });
}

TEST_CASE("64-bit integers and a function call") {
  each_way("hash", kTargets, [](Device& d, const Run& run, const std::string&) {
    std::vector<std::uint64_t> x(64);
    Random r(19);
    for (auto& v : x) v = std::uint64_t{r.next()} << 33 | r.next();
    const std::uint64_t divisor = 1234567891;
    const auto px = d.upload(x, "x"), py = d.reserve<std::uint64_t>(64, "y");
    run({1, 1, 1}, {64, 1, 1}, {arg(px), arg(py), arg(divisor)});
    const auto y = d.download<std::uint64_t>(py, 64);
    for (std::uint64_t t = 0; t < 64; ++t) {
      std::uint64_t h = x[t];
      for (std::uint64_t i = 0; i < 4; ++i) {
        h ^= (x[(t + i) % 64] / divisor + x[t] % (divisor + i)) * 0x9e3779b97f4a7c15ULL;
        h = std::rotl(h, 27) * 5 + 0x52dce729;
      }
      REQUIRE(y[t] == h);
    }
  });
}

TEST_CASE("decoupled look-back scan") {
  each_way("lookback", kTargets, [](Device& d, const Run& run, const std::string&) {
    const std::uint32_t blocks = 6;
    std::vector<std::uint32_t> x(blocks * 256);
    Random r(20);
    for (auto& v : x) v = r.next() % 1000;
    const auto px = d.upload(x, "x"), py = d.reserve<std::uint32_t>(x.size(), "y");
    const auto ps = d.upload(std::vector<std::uint32_t>(blocks), "state"),
               pt = d.upload(std::vector<std::uint32_t>{0}, "ticket");
    run({blocks, 1, 1}, {256, 1, 1}, {arg(px), arg(py), arg(ps), arg(pt)});
    std::partial_sum(x.begin(), x.end(), x.begin());
    CHECK(d.download<std::uint32_t>(py, x.size()) == x);
  });
}

TEST_CASE("packed f16") {
  each_way("half_dot", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int pairs = 100;
    // Small integers: exact in f16.
    const auto half = [](int v) {
      return static_cast<std::uint16_t>(
          v == 0
              ? 0
              : (15 + std::ilogb(v)) << 10 | (static_cast<int>(std::ldexp(v, 10 - std::ilogb(v))) & 0x3ff));
    };
    std::vector<std::uint16_t> a(2 * 3 * pairs), b(2 * pairs);
    std::vector<float> want(3);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = half(static_cast<int>(i % 5));
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = half(static_cast<int>(i % 7));
      const auto w = static_cast<int>(i % b.size() % 5);
      want[i / b.size()] += static_cast<float>(static_cast<int>(i % 7) * w + w);
    }
    const auto pa = d.upload(a, "a"), pb = d.upload(b, "b"), py = d.reserve<float>(3, "y");
    run({3, 1, 1}, {64, 1, 1}, {arg(pa), arg(pb), arg(py), arg(pairs)});
    CHECK(d.download<float>(py, 3) == want);
  });
}

TEST_CASE("gemm with f64 matrix instructions") {
  each_way("dgemm_mfma", kTargets, [](Device& d, const Run& run, const std::string&) {
    const int m = 32, n = 16, k = 20;
    const auto a = random_values<double>(m * k, 21), b = random_values<double>(k * n, 22);
    const auto pa = d.upload(a, "a"), pb = d.upload(b, "b"), pc = d.reserve<double>(m * n, "c");
    run({1, 2, 1}, {64, 1, 1}, {arg(pa), arg(pb), arg(pc), arg(n), arg(k)});
    const auto c = d.download<double>(pc, m * n);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        double want = 0;
        for (std::size_t kk = 0; kk < k; ++kk) want += a[i * k + kk] * b[kk * n + j];
        REQUIRE(c[i * n + j] == doctest::Approx(want).epsilon(1e-12));
      }
    }
  });
}

TEST_CASE("loads to LDS with counted waits") {
  each_way("dma_copy", kTargets, [](Device& d, const Run& run, const std::string&) {
    const std::uint32_t tiles = 4,
                        valid = 3 * 1024 + 500;  // words; the rest of the last tile is outside of the buffer
    std::vector<std::uint32_t> x(tiles * 1024);
    std::iota(x.begin(), x.end(), 7U);
    const auto px = d.upload(x, "x"), py = d.reserve<std::uint32_t>(x.size(), "y");
    const auto report =
        run({1, 1, 1}, {256, 1, 1}, {arg(px), arg(py), arg(valid * 4), arg(static_cast<int>(tiles))});
    CHECK(report.counters.async_bytes == (tiles + 1) * 4096);
    const auto y = d.download<std::uint32_t>(py, x.size());
    for (std::uint32_t i = 0; i < y.size(); ++i) {
      const std::uint32_t from = i / 1024 * 1024 + 1023 - i % 1024;
      REQUIRE(y[i] == (from < valid ? x[from] : 0));
    }
  });
}
