// Decode of one rank: its part of every cache, then all parts merged in the order of ranks.
#include <kiln/context_parallel.hpp>
#include <kiln/error.hpp>
#include <kiln/generator.hpp>

#include <fmt/format.h>

#include "generator/config/defaults.hpp"
#include "parallel/part_merging.hpp"
#include "parallel/query_ends.hpp"

namespace kiln {
namespace {

using parallel::refuse_decode;

MaskConfig::Kind mask_of(const Config& user) {
  return user.mask ? user.mask->kind : MaskConfig::Kind::none;
}

void check_decode_config(const Config& user) {
  if (user.operation != Operation::decode) refuse_decode("the config is no decode config");
  if (!user.operand || user.operand->kind == OperandKind::contiguous)
    refuse_decode("operands are ragged, paged or continuous, whose log-sum-exps are [heads, rows]");
  if (mask_of(user) == MaskConfig::Kind::custom)
    refuse_decode("the bits of a custom mask do not split over caches; causal masks and windows do");
  if (user.mask && user.mask->left_padding)
    refuse_decode("left padding does not split over caches: leave keys that are none out of them");
  if (user.score_mod && user.score_mod->kind == ScoreMod::Kind::expr)
    refuse_decode(
        "a score expression counts the rows and keys of a part; softcap and ALiBi split over caches");
}

bool has_alibi(const Config& user) {
  return user.score_mod && user.score_mod->kind == ScoreMod::Kind::alibi;
}

/// What both kernels of a part have; the sink is the merge's.
Config part_config(const Config& user, const char* name) {
  Config part = user;
  part.out_dtype = DType::f32;
  part.lse = true;
  part.sink = false;
  part.name = config_name(user) + name;
  return part;
}

std::shared_ptr<Kernel> load_seeing_all(Runtime& runtime, const Config& user) {
  Config part = part_config(user, "_part");
  part.mask.reset();
  return runtime.load(generate(make_plan(part)));
}

}  // namespace

struct ContextDecode::Impl {
  std::shared_ptr<Transport> transport;
  std::shared_ptr<Kernel>
      all;  ///< every query sees every key; none where the place of a query says what it sees
  std::shared_ptr<Kernel> placed;  ///< takes query_ends; none without a mask or ALiBi
  ContextDecodeOptions options;
  DecodeStep shape;  ///< of the most rows, without the cache
  bool has_sink = false;
  DType out = DType::f32;
  std::unique_ptr<parallel::QueryEnds> ends;  ///< with `placed`: for launches that do not have them
  std::unique_ptr<parallel::PartMerging> merging,
      spread;            ///< spread: where `merging` gathers, and both may be taken
  DeviceBuffer queries;  ///< of all ranks, for DecodeResult::queries
  DeviceBuffer lse;      ///< where the caller wants none

  int ranks() const { return transport->size(); }
  bool has_queries() const { return options.result == DecodeResult::queries; }
  std::int64_t own_heads() const {
    return options.result == DecodeResult::heads ? shape.heads_q / ranks() : shape.heads_q;
  }
  void make_merging(const parallel::DecodeGroup& group);
  void load(Runtime& runtime, const Config& user);
  void check(const AttentionArgs& args) const;
  Tensor collect_queries(const Tensor& own, std::uint64_t stream) const;
};

void ContextDecode::Impl::make_merging(const parallel::DecodeGroup& group) {
  if (options.result == DecodeResult::heads) {
    merging = parallel::make_shared_heads(group);
  } else if (has_queries()) {
    merging = parallel::make_shared_rows(group);
  } else {
    const DecodeEstimate most = estimate_decode(shape, ranks(), options.costs);
    const bool automatic = options.way == DecodeWay::automatic;
    if (options.way == DecodeWay::spread || (automatic && most.spread_us < most.gather_us))
      spread = parallel::make_spread_rows(group);
    if (options.way != DecodeWay::spread) merging = parallel::make_gathered_parts(group);
  }
}

void ContextDecode::Impl::load(Runtime& runtime, const Config& user) {
  const bool none = mask_of(user) == MaskConfig::Kind::none;
  if (!has_alibi(user) && (none || mask_of(user) == MaskConfig::Kind::causal))
    all = load_seeing_all(runtime, user);
  if (!has_alibi(user) && none) return;
  placed = runtime.load(make_part_kernel(part_config(user, "_placed")));
  ends = std::make_unique<parallel::QueryEnds>(runtime, user, transport, shape.rows);
}

void ContextDecode::Impl::check(const AttentionArgs& args) const {
  const std::int64_t given = args.q.shape.size() == 3 ? args.q.shape[0] : 0;
  const std::int64_t rows = has_queries() ? given * ranks() : given;
  if (args.q.shape.size() != 3 || args.q.shape[1] != shape.heads_q || rows > shape.rows)
    refuse_decode(fmt::format("q is [rows, {}, depth] with at most {} rows{}", shape.heads_q, shape.rows,
                              has_queries() ? " of all ranks" : ""));
  if (args.query_ends && !placed)
    refuse_decode("query_ends was given; without a mask or ALiBi every query sees every key");
  if (has_queries() && args.q.strides != Tensor::dense(0, args.q.dtype, args.q.shape).strides)
    refuse_decode("q is dense, to be collected");
  const Tensor dense = Tensor::dense(args.o.address, out, {given, own_heads(), shape.ov_depth});
  if (args.o.shape != dense.shape || args.o.strides != dense.strides || args.o.dtype != out)
    refuse_decode(fmt::format("o is a dense {} tensor [{}, {}, {}]", to_string(out), given, own_heads(),
                              shape.ov_depth));
  if (args.lse && merging == nullptr) refuse_decode("the way spread gives no lse; gather and automatic do");
  const auto heads = std::vector<std::int64_t>{shape.heads_q};
  if (has_sink != args.sink.has_value())
    refuse_decode(has_sink ? "the config has a sink, and none was given"
                           : "a sink was given, and the config has none");
  if (args.sink &&
      (args.sink->shape != heads || args.sink->dtype != DType::f32 || args.sink->strides[0] != 1))
    refuse_decode(fmt::format("sink is a dense f32 tensor [{}]", shape.heads_q));
}

/// Queries of all ranks, this rank's among them.
Tensor ContextDecode::Impl::collect_queries(const Tensor& own, std::uint64_t stream) const {
  const auto bytes =
      static_cast<std::size_t>(own.shape[0] * own.shape[1] * own.shape[2]) * size_of(own.dtype);
  std::vector<Message> sends, receives;
  for (int peer = 0; peer < ranks(); ++peer) {
    sends.push_back({own.address, bytes, peer});
    receives.push_back({queries.address() + static_cast<std::uint64_t>(peer) * bytes, bytes, peer});
  }
  transport->start(sends, receives, stream);
  transport->finish(stream);
  return Tensor::dense(queries.address(), own.dtype, {own.shape[0] * ranks(), own.shape[1], own.shape[2]});
}

ContextDecode::ContextDecode(Runtime& runtime, const Config& config, std::shared_ptr<Transport> transport,
                             std::int64_t heads_q, std::int64_t max_rows, const ContextDecodeOptions& options)
    : impl_(std::make_unique<Impl>()) {
  check_decode_config(config);
  if (heads_q < 1 || max_rows < 1) refuse_decode("heads_q and max_rows are at least 1");
  if (options.result == DecodeResult::heads && heads_q % transport->size() != 0)
    refuse_decode(fmt::format("{} heads do not go evenly to {} ranks", heads_q, transport->size()));
  if (options.result != DecodeResult::all && options.way != DecodeWay::automatic)
    refuse_decode("a way is for the result of all ranks; that of heads or queries has one of its own");
  Impl& d = *impl_;
  d.options = options;
  d.out = *with_shared_defaults(config).out_dtype, d.shape.out_bytes = static_cast<int>(size_of(d.out));
  d.has_sink = config.sink.value_or(false);
  d.transport = std::move(transport);
  d.shape.rows = max_rows;
  d.load(runtime, config);
  const Manifest& m = (d.all ? d.all : d.placed)->manifest();
  d.shape.heads_q = heads_q, d.shape.depth = m.depth, d.shape.ov_depth = m.ov_depth;
  d.shape.q_bytes = static_cast<int>(size_of(m.dtype));
  d.make_merging({runtime, config, d.transport, heads_q, d.shape.ov_depth, max_rows});
  d.lse = runtime.allocate(static_cast<std::size_t>(max_rows * heads_q) * sizeof(float), "log-sum-exps");
  if (d.has_queries())
    d.queries = runtime.allocate(static_cast<std::size_t>(max_rows * heads_q * m.depth) * size_of(m.dtype),
                                 "queries");
}

ContextDecode::~ContextDecode() = default;

DecodeWay ContextDecode::way(std::int64_t rows) const {
  const Impl& d = *impl_;
  if (d.spread == nullptr) return DecodeWay::gather;
  if (d.merging == nullptr) return DecodeWay::spread;
  DecodeStep shape = d.shape;
  shape.rows = rows;
  const DecodeEstimate estimate = estimate_decode(shape, d.ranks(), d.options.costs);
  return estimate.spread_us < estimate.gather_us ? DecodeWay::spread : DecodeWay::gather;
}

void ContextDecode::launch(const AttentionArgs& args, const LaunchOptions& options) {
  Impl& d = *impl_;
  d.check(args);
  if (args.q.shape[0] == 0) return;
  AttentionArgs own = args;
  if (d.has_queries()) own.q = d.collect_queries(args.q, options.stream);
  const std::int64_t rows = own.q.shape[0];
  const bool spread = d.spread != nullptr && !args.lse && way(rows) == DecodeWay::spread;
  parallel::PartMerging& merging = spread ? *d.spread : *d.merging;
  const parallel::PartMerging::Part part = merging.own_part(rows);
  own.o = part.o, own.lse = part.lse, own.sink.reset();
  const bool by_place = d.placed && (!d.all || args.query_ends || args.max_seqlen_q > 1);
  if (by_place && !args.query_ends) own.query_ends = d.ends->find(args, options.stream);
  parallel::launch(by_place ? *d.placed : *d.all, own, options);
  merging.finish(
      rows,
      {args.o.address, args.lse ? args.lse->address : d.lse.address(), args.sink ? args.sink->address : 0},
      options.stream);
}

}  // namespace kiln
