// CUTLASS's device-wide products of Ampere as one program: every tensor-core type, split-K in its two forms, batches,
// stream-K, groups, and an epilogue that is more than a sum.
#include <cutlass/epilogue/thread/linear_combination_relu.h>
#include <cutlass/gemm/device/gemm.h>
#include <cutlass/gemm/device/gemm_batched.h>
#include <cutlass/gemm/device/gemm_grouped.h>
#include <cutlass/gemm/device/gemm_splitk_parallel.h>
#include <cutlass/gemm/device/gemm_universal.h>
#include <cutlass/gemm/kernel/default_gemm_grouped.h>
#include <cutlass/layout/matrix.h>


#include "product.hpp"

namespace {

using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using cutlass::bfloat16_t;
using cutlass::half_t;
using cutlass::tfloat32_t;
using cutlass::gemm::GemmShape;
using cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle;
using Tensor = cutlass::arch::OpClassTensorOp;
using Ampere = cutlass::arch::Sm80;

template <class Out, class Sum, int Width>
using Linear = cutlass::epilogue::thread::LinearCombination<Out, Width, Sum, Sum>;

template <class In, class Out, class Sum, class Block, class Warp, class Mma, int Stages, class Finish, bool SplitK = false>
using Gemm = cutlass::gemm::device::Gemm<In, Row, In, Column, Out, Row, Sum, Tensor, Ampere, Block, Warp, Mma, Finish,
                                         GemmIdentityThreadblockSwizzle<>, Stages, 128 / cutlass::sizeof_bits<In>::value,
                                         128 / cutlass::sizeof_bits<In>::value, SplitK>;

template <class In, class Out, class Operator, class Sum = float>
void plain(const char* name, int m, int n, int k, int slices = 1) {
  Product<In, Out> p(m, n, k);
  typename Operator::Arguments arguments({m, n, k}, {p.a.device, k}, {p.b.device, k}, {p.c.device, n}, {p.d.device, n},
                                         {Sum(2), Sum(1)}, slices);
  launch<Operator>(name, arguments);
  outcome(name, p.wrong(2, 1));
}

void f16() {
  using Op = Gemm<half_t, half_t, float, GemmShape<128, 128, 32>, GemmShape<64, 64, 32>, GemmShape<16, 8, 16>, 3,
                  Linear<half_t, float, 8>>;
  plain<half_t, half_t, Op>("f16", 200, 136, 168);
}
void bf16() {
  using Op = Gemm<bfloat16_t, float, float, GemmShape<64, 128, 64>, GemmShape<32, 64, 64>, GemmShape<16, 8, 16>, 4,
                  Linear<float, float, 4>>;
  plain<bfloat16_t, float, Op>("bf16", 136, 128, 264);
}
void tf32() {
  using Op = Gemm<tfloat32_t, float, float, GemmShape<128, 64, 16>, GemmShape<64, 32, 16>, GemmShape<16, 8, 8>, 4,
                  Linear<float, float, 4>>;
  plain<tfloat32_t, float, Op>("tf32", 128, 72, 100);
}
void s8() {
  using Op = Gemm<std::int8_t, std::int32_t, std::int32_t, GemmShape<128, 128, 64>, GemmShape<64, 64, 64>,
                  GemmShape<16, 8, 32>, 3, Linear<std::int32_t, std::int32_t, 4>>;
  plain<std::int8_t, std::int32_t, Op, std::int32_t>("s8", 144, 128, 208);
}
void split_serial() {
  using Op = Gemm<half_t, float, float, GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>, 3,
                  Linear<float, float, 4>, true>;
  plain<half_t, float, Op>("split_serial", 128, 64, 512, 4);
}
void split_parallel() {
  using Op = cutlass::gemm::device::GemmSplitKParallel<half_t, Row, half_t, Column, float, Row, float, Tensor, Ampere,
                                                       GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>,
                                                       Linear<float, float, 4>>;
  plain<half_t, float, Op>("split_parallel", 64, 128, 512, 4);
}
void relu() {
  using Finish = cutlass::epilogue::thread::LinearCombinationRelu<half_t, 8, float, float>;
  using Op = Gemm<half_t, half_t, float, GemmShape<64, 64, 64>, GemmShape<32, 32, 64>, GemmShape<16, 8, 16>, 3, Finish>;
  Product<half_t, half_t> p(72, 64, 128);
  typename Op::Arguments arguments({p.m, p.n, p.k}, {p.a.device, p.k}, {p.b.device, p.k}, {p.c.device, p.n},
                                   {p.d.device, p.n}, {1.f, 1.f});
  launch<Op>("relu", arguments);
  outcome("relu", p.wrong(1, 1, [](double x, int, int) { return x > 0 ? x : 0; }));
}
void batched() {
  using Op = cutlass::gemm::device::GemmBatched<half_t, Row, half_t, Column, float, Row, float, Tensor, Ampere,
                                                GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>,
                                                Linear<float, float, 4>,
                                                cutlass::gemm::threadblock::GemmBatchedIdentityThreadblockSwizzle, 3, 8, 8>;
  Product<half_t, float> p(72, 64, 96, 3);
  typename Op::Arguments arguments({p.m, p.n, p.k}, {p.a.device, p.k}, p.m * p.k, {p.b.device, p.k}, p.n * p.k,
                                   {p.c.device, p.n}, p.m * p.n, {p.d.device, p.n}, p.m * p.n, {1.f, -1.f}, p.batch);
  launch<Op>("batched", arguments);
  outcome("batched", p.wrong(1, -1));
}
template <class Swizzle>
void universal(const char* name, cutlass::gemm::GemmUniversalMode mode, int m, int n, int k, int count) {
  using Op = cutlass::gemm::device::GemmUniversal<half_t, Row, half_t, Column, float, Row, float, Tensor, Ampere,
                                                  GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>,
                                                  Linear<float, float, 4>, Swizzle, 3, 8, 8>;
  Product<half_t, float> p(m, n, k, mode == cutlass::gemm::GemmUniversalMode::kBatched ? count : 1);
  typename Op::Arguments arguments(mode, {m, n, k}, count, {2.f, 1.f}, p.a.device, p.b.device, p.c.device, p.d.device,
                                   std::int64_t(m) * k, std::int64_t(n) * k, std::int64_t(m) * n, std::int64_t(m) * n, k,
                                   k, n, n);
  launch<Op>(name, arguments);
  outcome(name, p.wrong(2, 1));
}
void universal_batched() {
  universal<GemmIdentityThreadblockSwizzle<>>("universal_batched", cutlass::gemm::GemmUniversalMode::kBatched, 64, 72, 64, 3);
}
void stream_k() {
  // More tiles than multiprocessors take at once and no multiple of them: the last wave is split along K.
  universal<cutlass::gemm::threadblock::ThreadblockSwizzleStreamK>("stream_k", cutlass::gemm::GemmUniversalMode::kGemm, 320,
                                                                   256, 512, 1);
}
void grouped() {
  using Kernel = typename cutlass::gemm::kernel::DefaultGemmGrouped<
      half_t, Row, cutlass::ComplexTransform::kNone, 8, half_t, Column, cutlass::ComplexTransform::kNone, 8, float, Row,
      float, Tensor, Ampere, GemmShape<64, 64, 32>, GemmShape<32, 32, 32>, GemmShape<16, 8, 16>, Linear<float, float, 4>,
      cutlass::gemm::threadblock::GemmBatchedIdentityThreadblockSwizzle, 3>::GemmKernel;
  using Op = cutlass::gemm::device::GemmGrouped<Kernel>;
  Product<half_t, float> x(64, 72, 96), y(136, 64, 32), z(8, 128, 200);
  std::vector<cutlass::gemm::GemmCoord> sizes;
  std::vector<half_t*> as, bs;
  std::vector<float*> cs, ds;
  std::vector<std::int64_t> inner, outer;
  for (auto* p : {&x, &y, &z}) {
    sizes.emplace_back(p->m, p->n, p->k);
    as.push_back(p->a.device);
    bs.push_back(p->b.device);
    cs.push_back(p->c.device);
    ds.push_back(p->d.device);
    inner.push_back(p->k);
    outer.push_back(p->n);
  }
  Array<cutlass::gemm::GemmCoord> size(sizes);
  Array<half_t*> a(as), b(bs);
  Array<float*> c(cs), d(ds);
  Array<std::int64_t> lda(inner), ldb(inner), ldc(outer), ldd(outer);
  const int blocks = Op::sufficient(sizes.data(), int(sizes.size()));
  typename Op::Arguments arguments(size.device, int(sizes.size()), blocks, {1.f, 1.f}, a.device, b.device, c.device, d.device,
                                   lda.device, ldb.device, ldc.device, ldd.device, sizes.data());
  launch<Op>("grouped", arguments);
  outcome("grouped", x.wrong(1, 1) + y.wrong(1, 1) + z.wrong(1, 1));
}

constexpr Case kCases[] = {{"f16", f16},
                           {"bf16", bf16},
                           {"tf32", tf32},
                           {"s8", s8},
                           {"split_serial", split_serial},
                           {"split_parallel", split_parallel},
                           {"relu", relu},
                           {"batched", batched},
                           {"universal_batched", universal_batched},
                           {"stream_k", stream_k},
                           {"grouped", grouped}};

}  // namespace

int main(int count, char** names) {
  return run_cases(kCases, count, names);
}
