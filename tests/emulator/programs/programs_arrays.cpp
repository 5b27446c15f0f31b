// Matrices, grids, sorting and irregular work.
#include <algorithm>
#include <cmath>

#include "emulator/tensor/numeric.hpp"
#include "tests/emulator/programs/harness.hpp"

using namespace programs;
using kiln::emulator::bf16_to_f32;
using kiln::emulator::f16_to_f32;
using kiln::emulator::f32_to_bf16;
using kiln::emulator::f32_to_f16;

namespace {

std::size_t at(int row, int column, int columns) {
  return static_cast<std::size_t>(row * columns + column);
}

}  // namespace

TEST_CASE("program: transpose through a padded tile") {
  run_program("transpose_tiled", [](Session& s) {
    const auto in = eighths(70 * 45);
    const auto out = s.empty<float>(70 * 45);
    s.launch({2, 3}, {32, 8}, s.put(in), out, 70, 45);
    std::vector<float> want(70 * 45);
    for (int i = 0; i < 70; ++i) {
      for (int j = 0; j < 45; ++j) want[at(j, i, 70)] = in[at(i, j, 45)];
    }
    CHECK(s.get<float>(out, want.size()) == want);
  });
}

TEST_CASE("program: transpose by bulk copies") {
  run_program("transpose_bulk", [](Session& s) {
    const auto in = eighths(96 * 96);
    const auto out = s.empty<float>(96 * 96);
    s.launch({3, 3}, {128}, s.put(in), out, 96);
    std::vector<float> want(96 * 96);
    for (int i = 0; i < 96; ++i) {
      for (int j = 0; j < 96; ++j) want[at(j, i, 96)] = in[at(i, j, 96)];
    }
    CHECK(s.get<float>(out, want.size()) == want);
  });
}

TEST_CASE("program: tiled matrix product") {
  run_program("gemm_tiled", [](Session& s) {
    const int m = 35, n = 50, k = 41;
    const auto a = eighths(m * k, 1), b = eighths(k * n, 2);
    const auto c = s.empty<float>(m * n);
    s.launch({4, 3}, {16, 16}, s.put(a), s.put(b), c, m, n, k);
    std::vector<float> want(m * n);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        for (int x = 0; x < k; ++x) want[at(i, j, n)] += a[at(i, x, k)] * b[at(x, j, n)];
      }
    }
    CHECK(s.get<float>(c, want.size()) == want);
  });
}

TEST_CASE("program: matrix product by mma.sync over cp.async stages") {
  run_program("gemm_mma", [](Session& s) {
    const int m = 128, n = 64, k = 160;
    const auto a = eighths(m * k, 1), b = eighths(n * k, 2);
    std::vector<std::uint16_t> a_bits, b_bits;
    for (const float x : a) a_bits.push_back(f32_to_bf16(x));
    for (const float x : b) b_bits.push_back(f32_to_bf16(x));
    const auto c = s.empty<float>(m * n);
    s.launch({1, 2}, {128}, s.put(a_bits), s.put(b_bits), c, n, k);
    std::vector<float> want(m * n);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        for (int x = 0; x < k; ++x) want[at(i, j, n)] += a[at(i, x, k)] * b[at(j, x, k)];
      }
    }
    CHECK(s.get<float>(c, want.size()) == want);
  });
}

TEST_CASE("program: matrix product through nvcuda::wmma") {
  run_program("gemm_wmma", [](Session& s) {
    const int m = 32, n = 48, k = 64;
    const auto a = eighths(m * k, 1), b = eighths(k * n, 2);
    std::vector<std::uint16_t> a_bits, b_bits;
    for (const float x : a) a_bits.push_back(f32_to_f16(x));
    for (const float x : b) b_bits.push_back(f32_to_f16(x));
    std::vector<signed char> ia, ib;
    for (const int x : integers(m * k, 255, 3)) ia.push_back(static_cast<signed char>(x - 127));
    for (const int x : integers(n * k, 255, 4)) ib.push_back(static_cast<signed char>(x - 127));
    const auto c = s.empty<float>(m * n), ic = s.empty<int>(m * n);
    s.launch({3, 2}, {32}, s.put(a_bits), s.put(b_bits), c, s.put(ia), s.put(ib), ic, n, k);
    std::vector<float> want(m * n);
    std::vector<int> iwant(m * n);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        for (int x = 0; x < k; ++x) {
          want[at(i, j, n)] += 2 * a[at(i, x, k)] * b[at(x, j, n)];
          iwant[at(i, j, n)] += ia[at(i, x, k)] * ib[at(j, x, k)];
        }
      }
    }
    CHECK(s.get<float>(c, want.size()) == want);
    CHECK(s.get<int>(ic, iwant.size()) == iwant);
  });
}

TEST_CASE("program: merge sorts of warps and blocks") {
  run_program("cub_merge_sort", [](Session& s) {
    const auto in = integers(256, 1000);
    const auto out = s.empty<int>(256), block_out = s.empty<int>(256);
    s.launch({1}, {64}, s.put(in), out, block_out, 201);
    std::vector<int> want = in, block_want(in.begin(), in.begin() + 201);
    std::sort(want.begin(), want.begin() + 128);
    std::sort(want.begin() + 128, want.end());
    std::sort(block_want.begin(), block_want.end());
    CHECK(s.get<int>(out, 256) == want);
    auto got = s.get<int>(block_out, 256);
    got.resize(201);
    CHECK(got == block_want);
  });
}

TEST_CASE("program: saxpy on vectors") {
  run_program("saxpy", [](Session& s) {
    const auto x = eighths(1000, 1), y = eighths(1000, 2);
    const auto out = s.put(y);
    s.launch({2}, {64}, 3.0F, s.put(x), out, 250);
    std::vector<float> want;
    for (std::size_t i = 0; i < 1000; ++i) want.push_back(3.0F * x[i] + y[i]);
    CHECK(s.get<float>(out, 1000) == want);
  });
}

TEST_CASE("program: stencil with a halo") {
  run_program("stencil", [](Session& s) {
    const int width = 40, height = 25;
    const auto in = eighths(width * height);
    const auto out = s.empty<float>(width * height);
    s.launch({3, 2}, {16, 16}, s.put(in), out, width, height);
    std::vector<float> want;
    const auto get = [&](int x, int y) {
      return x >= 0 && x < width && y >= 0 && y < height ? in[at(y, x, width)] : 0.0F;
    };
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x)
        want.push_back(0.5F * get(x, y) +
                       0.125F * (get(x, y - 1) + get(x, y + 1) + get(x - 1, y) + get(x + 1, y)));
    }
    CHECK(s.get<float>(out, want.size()) == want);
  });
}

TEST_CASE("program: softmax") {
  run_program("softmax", [](Session& s) {
    const int rows = 9, columns = 77;
    const auto in = eighths(rows * columns);
    const auto out = s.empty<float>(rows * columns);
    s.launch({3}, {128}, s.put(in), out, rows, columns);
    std::vector<double> want;
    for (int row = 0; row < rows; ++row) {
      double sum = 0;
      for (int i = 0; i < columns; ++i) sum += std::exp(in[at(row, i, columns)]);
      for (int i = 0; i < columns; ++i) want.push_back(std::exp(in[at(row, i, columns)]) / sum);
    }
    CHECK(max_difference(s.get<float>(out, want.size()), want) < 1e-6);
  });
}

TEST_CASE("program: layer normalisation in half precision") {
  run_program("layer_norm", [](Session& s) {
    const int rows = 4, columns = 300;
    const auto in = eighths(rows * columns);
    std::vector<std::uint16_t> bits;
    for (const float x : in) bits.push_back(f32_to_f16(x));
    const auto out = s.empty<std::uint16_t>(bits.size());
    s.launch({rows}, {128}, s.put(bits), out, columns / 2);
    std::vector<double> want;
    for (int row = 0; row < rows; ++row) {
      double mean = 0, variance = 0;
      for (int i = 0; i < columns; ++i) mean += in[at(row, i, columns)] / columns;
      for (int i = 0; i < columns; ++i) variance += std::pow(in[at(row, i, columns)] - mean, 2) / columns;
      for (int i = 0; i < columns; ++i)
        want.push_back((in[at(row, i, columns)] - mean) / std::sqrt(variance + 1e-5));
    }
    std::vector<float> got;
    for (const std::uint16_t h : s.get<std::uint16_t>(out, bits.size())) got.push_back(f16_to_f32(h));
    CHECK(max_difference(got, want) < 1e-3);
  });
}

TEST_CASE("program: bitonic sort") {
  run_program("bitonic_sort", [](Session& s) {
    auto keys = integers(1024, 100000);
    const auto out = s.put(keys);
    s.launch({2}, {256}, out);
    std::sort(keys.begin(), keys.begin() + 512);
    std::sort(keys.begin() + 512, keys.end());
    CHECK(s.get<int>(out, 1024) == keys);
  });
}

TEST_CASE("program: sparse matrix times vector") {
  run_program("spmv", [](Session& s) {
    const int rows = 50;
    const auto lengths = integers(rows, 70, 1);
    std::vector<int> offsets{0};
    for (const int length : lengths) offsets.push_back(offsets.back() + length);
    const auto count = static_cast<std::size_t>(offsets.back());
    const auto columns = integers(count, 200, 2);
    const auto values = eighths(count, 3), x = eighths(200, 4);
    const auto y = s.empty<float>(rows);
    s.launch({13}, {128}, s.put(offsets), s.put(columns), s.put(values), s.put(x), y, rows);
    std::vector<float> want(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      for (int i = offsets[row]; i < offsets[row + 1]; ++i) {
        want[row] += values[static_cast<std::size_t>(i)] *
                     x[static_cast<std::size_t>(columns[static_cast<std::size_t>(i)])];
      }
    }
    CHECK(s.get<float>(y, rows) == want);
  });
}

TEST_CASE("program: all-pairs accelerations") {
  run_program("nbody", [](Session& s) {
    const int n = 128;
    const auto bodies = eighths(4 * n);
    const auto out = s.empty<float>(3 * n);
    s.launch({2}, {64}, s.put(bodies), out, n);
    std::vector<double> want;
    for (std::size_t i = 0; i < n; ++i) {
      double sum[3] = {};
      for (std::size_t j = 0; j < n; ++j) {
        double d[3], squares = 0.01F;
        for (std::size_t x = 0; x < 3; ++x) {
          d[x] = bodies[4 * j + x] - bodies[4 * i + x];
          squares += d[x] * d[x];
        }
        for (std::size_t x = 0; x < 3; ++x) sum[x] += d[x] * bodies[4 * j + 3] / std::pow(squares, 1.5);
      }
      want.insert(want.end(), sum, sum + 3);
    }
    CHECK(max_difference(s.get<float>(out, want.size()), want) < 2e-3);
  });
}

TEST_CASE("program: escape times") {
  run_program("mandelbrot", [](Session& s) {
    const int width = 50, height = 30, limit = 60;
    const auto out = s.empty<std::uint16_t>(width * height);
    s.launch({4, 4}, {16, 8}, out, width, height, limit);
    int wrong = 0;
    const auto got = s.get<std::uint16_t>(out, width * height);
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const double cx = -2.0 + 3.0 * x / width, cy = -1.25 + 2.5 * y / height;
        double zx = 0, zy = 0;
        int steps = 0;
        for (; zx * zx + zy * zy < 4.0 && steps < limit; ++steps) {
          const double next = zx * zx - zy * zy + cx;
          zy = 2.0 * zx * zy + cy;
          zx = next;
        }
        wrong += got[at(y, x, width)] != steps;
      }
    }
    CHECK(wrong <= 3);  // fused multiply-adds may move a point across the boundary
  });
}

TEST_CASE("program: persistent blocks on a work queue") {
  run_program("work_queue", [](Session& s) {
    const int items = 12;
    const auto out = s.empty<unsigned>(items * 64);
    s.launch({5}, {64}, s.zeros<unsigned>(1), out, items);
    std::vector<unsigned> want;
    for (unsigned n = 1; n <= items * 64; ++n) {
      unsigned digits[10] = {}, result = 0;
      for (unsigned rest = n; rest; rest /= 10) ++digits[rest % 10];
      if (n % 4 == 0) {
        for (unsigned x = n; x != 1; ++result) x = x % 2 ? 3 * x + 1 : x / 2;
      } else if (n % 4 == 1) {
        result = digits[n % 10];
      } else if (n % 4 == 2) {
        result = n / 7 * 7;
      } else {
        for (int bit = 0; bit < 32; ++bit) result |= ((n >> bit) & 1) << (31 - bit);
      }
      want.push_back(result);
    }
    CHECK(s.get<unsigned>(out, want.size()) == want);
  });
}

TEST_CASE("program: generations of life") {
  run_program("life", [](Session& s) {
    std::vector<unsigned char> board;
    for (const int value : integers(1024, 3)) board.push_back(value == 0);
    const auto out = s.put(board);
    s.launch({1}, {32, 32}, out, 5);
    for (int g = 0; g < 5; ++g) {
      const auto old = board;
      for (int i = 0; i < 1024; ++i) {
        int neighbours = 0;
        for (int d = 0; d < 9; ++d) {
          if (d != 4) neighbours += old[at((i / 32 + d / 3 + 31) % 32, (i % 32 + d % 3 + 31) % 32, 32)];
        }
        board[static_cast<std::size_t>(i)] =
            neighbours == 3 || (neighbours == 2 && old[static_cast<std::size_t>(i)]);
      }
    }
    CHECK(s.get<unsigned char>(out, 1024) == board);
  });
}

TEST_CASE("program: dot product of half-precision vectors") {
  run_program("half_dot", [](Session& s) {
    const auto a = eighths(1200, 1), b = eighths(1200, 2);
    std::vector<std::uint16_t> a_bits, b_bits;
    for (const float x : a) a_bits.push_back(f32_to_f16(x));
    for (const float x : b) b_bits.push_back(f32_to_f16(x));
    const auto total = s.zeros<double>(1);
    s.launch({5}, {128}, s.put(a_bits), s.put(b_bits), total, 600);
    const double weights[] = {1.0, 0.5, 0.25, 2.0};
    double want = 0;
    for (std::size_t i = 0; i < 1200; ++i) want += static_cast<double>(a[i]) * b[i] * weights[i / 2 % 4];
    CHECK(s.get<double>(total, 1)[0] == want);
  });
}
