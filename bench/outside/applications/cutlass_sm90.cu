// CUTLASS's products of Hopper as one program: tensor copies, warp specialisation, clusters, persistent and stream-K
// schedules, an epilogue that is a tree of operations, and groups whose tensor maps the kernel writes.
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/thread/activation.h>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>


#include "product.hpp"

namespace {

using cute::_1;
using cute::_128;
using cute::_2;
using cute::_64;
using cute::Shape;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using cutlass::bfloat16_t;
using cutlass::half_t;
using Tensor = cutlass::arch::OpClassTensorOp;
using Hopper = cutlass::arch::Sm90;

template <class In, class Out, class Tile, class Cluster, class Loop, class Finish, class Scheduler = void,
          class Operation = cutlass::epilogue::fusion::LinearCombination<Out, float, Out, float>,
          class Sizes = cute::Shape<int, int, int, int>, class RowA = Row, class ColumnB = Column, class RowC = Row>
struct Make {
  static constexpr int kIn = 128 / cutlass::sizeof_bits<In>::value, kOut = 128 / cutlass::sizeof_bits<Out>::value;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      Hopper, Tensor, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float, float, Out, RowC, kOut, Out,
      RowC, kOut, Finish, Operation>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      Hopper, Tensor, In, RowA, kIn, In, ColumnB, kIn, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      Loop>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Sizes, Mainloop, Epilogue, Scheduler>;
  using Operator = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
};

cutlass::KernelHardwareInfo hardware() {
  cutlass::KernelHardwareInfo info;
  info.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count(0);
  return info;
}

template <class Op, class In, class Out>
typename Op::Arguments arguments_of(Product<In, Out>& p, float alpha, float beta) {
  using Kernel = typename Op::GemmKernel;
  const auto stride = [&]<class S>(S s, int rows, int columns) {
    return cutlass::make_cute_packed_stride(s, cute::make_shape(rows, columns, p.batch));
  };
  typename Op::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                   {p.m, p.n, p.k, p.batch},
                                   {p.a.device, stride(typename Kernel::StrideA{}, p.m, p.k), p.b.device,
                                    stride(typename Kernel::StrideB{}, p.n, p.k)},
                                   {{},
                                    p.c.device,
                                    stride(typename Kernel::StrideC{}, p.m, p.n),
                                    p.d.device,
                                    stride(typename Kernel::StrideD{}, p.m, p.n)},
                                   hardware()};
  arguments.epilogue.thread.alpha = alpha;
  arguments.epilogue.thread.beta = beta;
  return arguments;
}

template <class Op, class In, class Out>
void plain(const char* name, int m, int n, int k, int batch = 1) {
  Product<In, Out> p(m, n, k, batch);
  launch<Op>(name, arguments_of<Op>(p, 2, 1));
  outcome(name, p.wrong(2, 1));
}

using cutlass::epilogue::TmaWarpSpecialized;
using cutlass::epilogue::TmaWarpSpecializedCooperative;
using cutlass::gemm::KernelTmaWarpSpecialized;
using cutlass::gemm::KernelTmaWarpSpecializedCooperative;
using cutlass::gemm::KernelTmaWarpSpecializedPingpong;

void specialized() {
  using M = Make<half_t, half_t, Shape<_64, _128, _64>, Shape<_1, _1, _1>, KernelTmaWarpSpecialized, TmaWarpSpecialized>;
  plain<M::Operator, half_t, half_t>("specialized", 128, 136, 328);
}
void pingpong() {
  using M = Make<half_t, half_t, Shape<_64, _128, _64>, Shape<_2, _1, _1>, KernelTmaWarpSpecializedPingpong,
                 TmaWarpSpecialized>;
  plain<M::Operator, half_t, half_t>("pingpong", 256, 256, 320, 2);
}
void cooperative() {
  using M = Make<bfloat16_t, float, Shape<_128, _128, _64>, Shape<_2, _1, _1>, KernelTmaWarpSpecializedCooperative,
                 TmaWarpSpecializedCooperative>;
  plain<M::Operator, bfloat16_t, float>("cooperative", 256, 256, 512);
}
void both_ways() {
  using M = Make<half_t, float, Shape<_128, _64, _64>, Shape<_2, _2, _1>, KernelTmaWarpSpecializedCooperative,
                 TmaWarpSpecializedCooperative>;
  plain<M::Operator, half_t, float>("both_ways", 256, 128, 256);
}
void stream_k() {
  using M = Make<half_t, float, Shape<_128, _128, _64>, Shape<_2, _1, _1>, KernelTmaWarpSpecializedCooperative,
                 TmaWarpSpecializedCooperative, cutlass::gemm::StreamKScheduler>;
  using Op = M::Operator;
  Product<half_t, float> p(256, 384, 1024);
  auto arguments = arguments_of<Op>(p, 2, 1);
  arguments.hw_info.sm_count = 8;  // fewer than there are: tiles do not divide evenly
  launch<Op>("stream_k", arguments);
  outcome("stream_k", p.wrong(2, 1));
}
void fused() {
  using Operation = cutlass::epilogue::fusion::LinCombPerRowBiasEltAct<cutlass::epilogue::thread::ReLu, float, float, float>;
  using M = Make<half_t, float, Shape<_128, _128, _64>, Shape<_1, _2, _1>, KernelTmaWarpSpecializedCooperative,
                 TmaWarpSpecializedCooperative, void, Operation>;
  using Op = M::Operator;
  Product<half_t, float> p(128, 256, 192);
  Array<float> bias(numbers<float>(128, 50));
  auto arguments = arguments_of<Op>(p, 1, 1);
  arguments.epilogue.thread.bias_ptr = bias.device;
  launch<Op>("fused", arguments);
  outcome("fused", p.wrong(1, 1, [&](double x, int i, int) { return std::max(0.0, x + bias.host[std::size_t(i)]); }));
}

template <class S>
Array<S>* strides(std::initializer_list<Product<half_t, float>*> all, int Product<half_t, float>::*rows,
                  int Product<half_t, float>::*columns) {
  std::vector<S> out;
  for (auto* p : all) out.push_back(cutlass::make_cute_packed_stride(S{}, cute::make_shape(p->*rows, p->*columns, 1)));
  return new Array<S>(out);
}

void grouped() {
  using P = Product<half_t, float>;
  using Groups = cutlass::gemm::GroupProblemShape<Shape<int, int, int>>;
  using M = Make<half_t, float, Shape<_128, _128, _64>, Shape<_2, _1, _1>,
                 cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative,
                 cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative, void,
                 cutlass::epilogue::fusion::LinearCombination<float, float, float, float>, Groups, Row*, Column*, Row*>;
  using Op = M::Operator;
  using Kernel = Op::GemmKernel;
  P x(256, 128, 192), y(128, 256, 64), z(64, 72, 328);
  std::vector<Groups::UnderlyingProblemShape> shapes;
  std::vector<const half_t*> as, bs;
  std::vector<const float*> cs;
  std::vector<float*> ds;
  for (P* p : {&x, &y, &z}) {
    shapes.push_back(cute::make_shape(p->m, p->n, p->k));
    as.push_back(p->a.device);
    bs.push_back(p->b.device);
    cs.push_back(p->c.device);
    ds.push_back(p->d.device);
  }
  Array<Groups::UnderlyingProblemShape> shape(shapes);
  Array<const half_t*> a(as), b(bs);
  Array<const float*> c(cs);
  Array<float*> d(ds);
  auto* const sa = strides<Kernel::InternalStrideA>({&x, &y, &z}, &P::m, &P::k);
  auto* const sb = strides<Kernel::InternalStrideB>({&x, &y, &z}, &P::n, &P::k);
  auto* const sc = strides<Kernel::InternalStrideC>({&x, &y, &z}, &P::m, &P::n);
  auto* const sd = strides<Kernel::InternalStrideD>({&x, &y, &z}, &P::m, &P::n);
  typename Op::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGrouped,
                                   {3, shape.device, shapes.data()},
                                   {a.device, sa->device, b.device, sb->device},
                                   {{}, c.device, sc->device, d.device, sd->device},
                                   hardware()};
  arguments.epilogue.thread.alpha = 1;
  arguments.epilogue.thread.beta = 1;
  launch<Op>("grouped", arguments);
  outcome("grouped", x.wrong(1, 1) + y.wrong(1, 1) + z.wrong(1, 1));
  delete sa, delete sb, delete sc, delete sd;
}

constexpr Case kCases[] = {{"specialized", specialized}, {"pingpong", pingpong}, {"cooperative", cooperative},
                           {"both_ways", both_ways},     {"stream_k", stream_k}, {"fused", fused},
                           {"grouped", grouped}};

}  // namespace

int main(int count, char** names) {
  return run_cases(kCases, count, names);
}
