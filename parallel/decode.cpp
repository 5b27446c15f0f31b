// Decode of one rank: its part of every cache, then all parts merged in the order of ranks, on every rank alike.
#include <kiln/context_parallel.hpp>
#include <kiln/error.hpp>
#include <kiln/generator.hpp>

#include <fmt/format.h>

#include "parallel/parts.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::bad_input, "context parallel decode: " + what);
}

Config part_config(const Config& user) {
  if (user.operation != Operation::decode) refuse("the config is no decode config");
  if (!user.operand || user.operand->kind == OperandKind::contiguous)
    refuse("operands are ragged, paged or continuous, whose log-sum-exps are [heads, rows]");
  const auto mask = user.mask ? user.mask->kind : MaskConfig::Kind::none;
  if (mask != MaskConfig::Kind::none && mask != MaskConfig::Kind::causal)
    refuse("a mask that depends on key positions does not split over caches; none and causal (one query) do");
  const auto kind = user.score_mod ? user.score_mod->kind : ScoreMod::Kind::none;
  if (kind != ScoreMod::Kind::none && kind != ScoreMod::Kind::softcap)
    refuse("a score modifier that depends on key positions does not split over caches; softcap does");
  if (user.sink.value_or(false)) refuse("a sink would count on every rank");
  Config part = user;
  part.mask.reset();
  part.out_dtype = DType::f32;
  part.lse = true;
  part.name = config_name(user) + "_part";
  return part;
}

}  // namespace

struct ContextDecode::Impl {
  std::shared_ptr<Transport> transport;
  std::shared_ptr<Kernel> part, merge;
  std::int64_t heads_q = 0, max_rows = 0;
  bool one_query = false;
  DeviceBuffer parts;  ///< of all ranks, in order
  DeviceBuffer lse;    ///< where the caller wants none

  std::uint64_t part_at(int rank, std::int64_t floats) const {
    return parts.address() + static_cast<std::uint64_t>(rank * floats) * sizeof(float);
  }
};

ContextDecode::ContextDecode(Runtime& runtime, const Config& config, std::shared_ptr<Transport> transport,
                             std::int64_t heads_q, std::int64_t max_rows)
    : impl_(std::make_unique<Impl>()) {
  const Config part = part_config(config);
  if (heads_q < 1 || max_rows < 1) refuse("heads_q and max_rows are at least 1");
  impl_->one_query = config.mask && config.mask->kind == MaskConfig::Kind::causal;
  impl_->part = runtime.load(generate(make_plan(part)));
  impl_->merge = runtime.load(make_part_merge_kernel(config, transport->size(), false));
  impl_->heads_q = heads_q, impl_->max_rows = max_rows;
  const auto floats = parallel::part_floats(max_rows, heads_q, impl_->part->manifest().ov_depth);
  impl_->parts = runtime.allocate(static_cast<std::size_t>(floats * transport->size()) * sizeof(float),
                                  "results of ranks");
  impl_->lse = runtime.allocate(static_cast<std::size_t>(max_rows * heads_q) * sizeof(float), "log-sum-exps");
  impl_->transport = std::move(transport);
}

ContextDecode::~ContextDecode() = default;

void ContextDecode::launch(const AttentionArgs& args, const LaunchOptions& options) {
  Impl& d = *impl_;
  if (args.q.shape.size() != 3 || args.q.shape[1] != d.heads_q || args.q.shape[0] > d.max_rows)
    refuse(fmt::format("q is [rows, {}, depth] with at most {} rows", d.heads_q, d.max_rows));
  if (d.one_query && args.max_seqlen_q > 1)
    refuse(fmt::format("max_seqlen_q is {}; a causal mask splits over caches for one query a sequence",
                       args.max_seqlen_q));
  const std::int64_t rows = args.q.shape[0];
  if (rows == 0) return;
  const int ov_depth = d.part->manifest().ov_depth;
  const Tensor dense = Tensor::dense(args.o.address, args.o.dtype, {rows, d.heads_q, ov_depth});
  if (args.o.shape != dense.shape || args.o.strides != dense.strides ||
      args.o.dtype != d.merge->manifest().out_dtype)
    refuse(fmt::format("o is a dense {} tensor [{}, {}, {}]", to_string(d.merge->manifest().out_dtype), rows,
                       d.heads_q, ov_depth));
  const std::int64_t floats = parallel::part_floats(rows, d.heads_q, ov_depth);
  AttentionArgs own = args;
  own.o = Tensor::dense(d.part_at(d.transport->rank(), floats), DType::f32, dense.shape);
  own.lse =
      Tensor::dense(own.o.address + static_cast<std::uint64_t>(rows * d.heads_q * ov_depth) * sizeof(float),
                    DType::f32, {d.heads_q, rows});
  parallel::launch(*d.part, own, options);
  if (d.transport->size() > 1)
    d.transport->collect(d.parts.address(), static_cast<std::size_t>(floats) * sizeof(float), options.stream);
  const std::uint64_t lse = args.lse ? args.lse->address : d.lse.address();
  parallel::merge(*d.merge, {rows, d.heads_q, d.parts.address(), args.o.address, lse}, options.stream);
}

}  // namespace kiln
