// A matrix product D = act(alpha A B + beta C) on the host, for CUTLASS's on the device. A is row-major, B is
// column-major, C and D are row-major.
#pragma once

#include "check.hpp"

template <class In, class Out>
struct Product {
  int m, n, k, batch;
  Array<In> a, b;
  Array<Out> c, d;
  Product(int m_, int n_, int k_, int batch_ = 1)
      : m(m_),
        n(n_),
        k(k_),
        batch(batch_),
        a(numbers<In>(std::size_t(batch_) * m_ * k_, 2)),
        b(numbers<In>(std::size_t(batch_) * n_ * k_, 2)),
        c(numbers<Out>(std::size_t(batch_) * m_ * n_, 4)),
        d(std::size_t(batch_) * m_ * n_) {}

  /// How many elements of d are wrong. `finish` makes the result of a sum and its row and column.
  template <class Finish>
  std::size_t wrong(float alpha, float beta, Finish finish) {
    CHECK(cudaDeviceSynchronize());
    d.read();
    std::size_t bad = 0;
    for (int l = 0; l < batch; ++l)
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          const std::size_t at = (std::size_t(l) * m + i) * n + j;
          double sum = 0;
          for (int x = 0; x < k; ++x)
            sum += double(float(a.host[(std::size_t(l) * m + i) * k + x])) *
                   double(float(b.host[(std::size_t(l) * n + j) * k + x]));
          const Out want = Out(float(finish(alpha * sum + beta * double(float(c.host[at])), i, j)));
          bad += float(want) == float(d.host[at]) ? 0 : 1;
        }
    return bad;
  }
  std::size_t wrong(float alpha, float beta) {
    return wrong(alpha, beta, [](double x, int, int) { return x; });
  }
};

/// Runs a device-wide operator of CUTLASS.
template <class Operator, class Arguments>
void launch(const char* name, const Arguments& arguments) {
  Operator op;
  if (op.can_implement(arguments) != cutlass::Status::kSuccess) {
    std::printf("%s: cannot be implemented\n", name);
    std::exit(2);
  }
  Array<char> workspace(Operator::get_workspace_size(arguments) + 1);
  cutlass::Status status = op.initialize(arguments, workspace.device);
  if (status == cutlass::Status::kSuccess) status = op.run();
  if (status != cutlass::Status::kSuccess) {
    std::printf("%s: %s (%s)\n", name, cutlassGetStatusString(status),
                cudaGetErrorString(cudaGetLastError()));
    std::exit(2);
  }
  CHECK(cudaDeviceSynchronize());
}
