// Prefill of one rank: K and V of all ranks come to its query rows, round a ring or all at once.
#include <kiln/context_parallel.hpp>
#include <kiln/error.hpp>
#include <kiln/generator.hpp>

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generator/config/quantization.hpp"
#include "parallel/parts.hpp"
#include "parallel/prefill_tables.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::bad_input, "context parallel prefill: " + what);
}

void check_prefill_config(const Config& c) {
  if (c.operation != Operation::prefill) refuse("the config is no prefill config");
  if (!c.operand || c.operand->kind != OperandKind::ragged) refuse("\"operand\" is ragged");
  if (c.mask && c.mask->kind == MaskConfig::Kind::window) refuse("masks of two sides are not supported yet");
  if (scales_by_head(c.operand->quantization))
    refuse("scales of tokens are token_major, so that those of rows move with them");
}

Config float_config(const Config& user) {
  Config c = user;
  c.out_dtype = DType::f32;
  c.lse = true;
  c.sink = false;  // the last merge has it
  c.name = config_name(user) + "_floats";
  return c;
}

/// The kernel for one sequence; none where a key of the config is for ragged operands alone.
std::optional<KernelSource> single_source(const Config& user) {
  Config c = user;
  c.operand->kind = OperandKind::contiguous;
  c.name = config_name(user) + "_single";
  try {
    return generate(make_plan(c));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_config) throw;
    return std::nullopt;
  }
}

/// Of K, V and, where their rows have scales of their own, those of K and of V.
using KeyTensors = std::array<std::uint64_t, 4>;

}  // namespace

struct ContextPrefill::Impl {
  Runtime& runtime;
  Config config;
  ContextParallelOptions options;
  std::shared_ptr<Transport> transport;
  parallel::PrefillTables tables;
  bool gathers = false;

  std::shared_ptr<Kernel> whole, single, part, add, convert, end;
  DeviceBuffer numbers;     ///< the tables, on the device
  DeviceBuffer other_keys;  ///< gathered K and V, or two steps' K and V of others
  /// Ring: what was merged so far of run 0, one part more, one part more of run 1, what was merged of it, log-sum-exps
  /// that nobody wants. So a run's two are merged as neighbours.
  DeviceBuffer results;
  std::array<std::int64_t, 2> sum_at{}, next_at{};  ///< in floats
  std::int64_t unwanted_at = 0;

  Impl(Runtime& r, const Config& c, std::shared_ptr<Transport> t, const ContextParallelOptions& o)
      : runtime(r), config(c), options(o), transport(std::move(t)) {}

  const Manifest& manifest() const { return computing()->manifest(); }
  /// Where K and V are gathered and the batch is one sequence, a run is a problem without offsets, whose kernel is
  /// faster: its keys end where its last row stands.
  bool is_single() const { return gathers && tables.batch == 1 && single; }
  /// Shapes of rows, and of log-sum-exps, that computing() takes.
  std::vector<std::int64_t> shape(std::vector<std::int64_t> of) const {
    if (is_single()) of.insert(of.begin(), 1);
    return of;
  }
  /// Keys that run `which` is computed over where all are gathered.
  std::int64_t gathered_keys(std::size_t which) const {
    const bool bounded = config.mask && config.mask->kind != MaskConfig::Kind::none;
    return is_single() && bounded ? tables.runs[0][which].end() : tables.total_rows;
  }
  const std::shared_ptr<Kernel>& computing() const { return !gathers ? part : is_single() ? single : whole; }
  /// Scales of a row and head of K or V of so many columns; 0: rows have none of their own.
  std::int64_t scales_of_row(int columns) const {
    const std::optional<Quantization>& q = config.operand->quantization;
    if (!scales_by_row(q)) return 0;
    return q->granularity == Quantization::Granularity::per_block ? ceil_div(columns, q->block) : 1;
  }
  /// Bytes of a row of each of the tensors that keys are; 0: there is none.
  std::array<std::int64_t, 4> row_bytes() const {
    const Manifest& m = manifest();
    const auto size = static_cast<std::int64_t>(size_of(m.kv_dtype));
    return {options.heads_kv * m.depth * size, options.heads_kv * m.ov_depth * size,
            options.heads_kv * scales_of_row(m.depth) * 4, options.heads_kv * scales_of_row(m.ov_depth) * 4};
  }
  std::int64_t key_bytes(std::int64_t rows) const;
  KeyTensors keys_at(std::uint64_t base, std::int64_t rows) const;
  KeyTensors rows_behind(KeyTensors keys, std::int64_t rows) const;
  KeyTensors own_keys(const Args& args) const;
  void add_rows(std::vector<Message>& to, const KeyTensors& keys, std::int64_t rows, int rank) const;

  void choose_way(std::span<const std::int64_t> lengths);
  void load();
  void take_memory();
  AttentionArgs pair_args(const Args& args, std::size_t which, const parallel::PairTable& pair,
                          const KeyTensors& keys, std::int64_t key_rows) const;
  void add_scales(const Args& args, const KeyTensors& keys, std::int64_t key_rows, AttentionArgs& one) const;
  void launch_gather(const Args& args, std::uint64_t stream);
  void launch_ring(const Args& args, std::uint64_t stream);
  std::array<std::uint64_t, 2> streams_of_runs(std::uint64_t stream);
  void join(const std::array<std::uint64_t, 2>& streams);
  void ring_part(const Args& args, std::size_t which, const parallel::PairTable& pair, const KeyTensors& from,
                 bool last, std::uint64_t stream);
  void check(const Args& args) const;
  void check_row_scales(const Args& args) const;
  std::uint64_t lse_of(const Args& args, std::size_t which) const;
  bool merged[2] = {false, false};  ///< runs that have a result already, while a launch is made
};

namespace {

std::uint64_t moved(std::uint64_t address, std::int64_t bytes) {
  return address + static_cast<std::uint64_t>(bytes);
}

}  // namespace

/// Of `rows` rows, each tensor up to whole 16 bytes.
std::int64_t ContextPrefill::Impl::key_bytes(std::int64_t rows) const {
  std::int64_t bytes = 0;
  for (const std::int64_t row : row_bytes()) bytes += align_up(rows * row, 16);
  return bytes;
}

/// Of `rows` rows, the tensors one behind the other.
KeyTensors ContextPrefill::Impl::keys_at(std::uint64_t base, std::int64_t rows) const {
  KeyTensors keys{};
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = base, base = moved(base, align_up(rows * row_bytes()[i], 16));
  return keys;
}

KeyTensors ContextPrefill::Impl::rows_behind(KeyTensors keys, std::int64_t rows) const {
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = moved(keys[i], rows * row_bytes()[i]);
  return keys;
}

KeyTensors ContextPrefill::Impl::own_keys(const Args& args) const {
  const auto scales = [](const std::optional<Tensor>& tensor) { return tensor ? tensor->address : 0; };
  return {args.k.address, args.v.address, scales(args.k_scale), scales(args.v_scale)};
}

void ContextPrefill::Impl::add_rows(std::vector<Message>& to, const KeyTensors& keys, std::int64_t rows,
                                    int rank) const {
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (const std::int64_t row = row_bytes()[i]; row > 0)
      to.push_back({keys[i], static_cast<std::size_t>(rows * row), rank});
}

void ContextPrefill::Impl::choose_way(std::span<const std::int64_t> lengths) {
  if (options.way != PrefillWay::automatic) {
    gathers = options.way == PrefillWay::gather;
    return;
  }
  PrefillShape shape;
  shape.lengths.assign(lengths.begin(), lengths.end());
  shape.heads_q = options.heads_q, shape.heads_kv = options.heads_kv;
  shape.depth = config.depth, shape.ov_depth = config.ov_depth.value_or(config.depth);
  shape.kv_bytes = static_cast<int>(size_of(config.kv_dtype.value_or(config.dtype)));
  shape.causal = config.mask && config.mask->kind != MaskConfig::Kind::none;
  const PrefillEstimate estimate = estimate_prefill(shape, transport->size(), options.costs);
  gathers = estimate.gather_us <= estimate.ring_us &&
            estimate.gather_bytes <= static_cast<double>(options.most_gathered_bytes);
}

void ContextPrefill::Impl::load() {
  if (gathers) {
    if (tables.batch == 1 && !single)
      if (const auto source = single_source(config)) single = runtime.load(*source);
    if (!is_single() && !whole) whole = runtime.load(make_part_kernel(config));
    return;
  }
  if (part) return;
  part = runtime.load(make_part_kernel(float_config(config)));
  add = runtime.load(make_part_merge_kernel(config, 1, true));
  convert = runtime.load(make_part_merge_kernel(config, 1, false));
  end = runtime.load(make_part_merge_kernel(config, 2, false));
}

void ContextPrefill::Impl::take_memory() {
  numbers = runtime.allocate(tables.numbers.size() * sizeof(std::int32_t), "tables of parts");
  numbers.write(std::as_bytes(std::span(tables.numbers)));
  const std::int64_t bytes = gathers ? key_bytes(tables.total_rows) : 2 * key_bytes(tables.most_rows);
  other_keys = runtime.allocate(static_cast<std::size_t>(bytes + 16), "K and V of others");
  results = DeviceBuffer();
  if (gathers) return;
  const auto floats = [&](std::size_t which) {
    return parallel::part_floats(tables.run_rows[which], options.heads_q, manifest().ov_depth);
  };
  next_at = {floats(0), 2 * floats(0)};
  sum_at = {0, next_at[1] + floats(1)};
  unwanted_at = sum_at[1] + floats(1);
  const std::int64_t unwanted = std::max(tables.run_rows[0], tables.run_rows[1]) * options.heads_q;
  results =
      runtime.allocate(static_cast<std::size_t>(unwanted_at + unwanted) * sizeof(float), "results of parts");
}

AttentionArgs ContextPrefill::Impl::pair_args(const Args& args, std::size_t which,
                                              const parallel::PairTable& pair, const KeyTensors& from,
                                              std::int64_t key_rows) const {
  const Manifest& m = manifest();
  const std::int64_t rows = tables.run_rows[which], first = which == 0 ? 0 : tables.run_rows[0];
  const auto q_row = options.heads_q * m.depth * static_cast<std::int64_t>(size_of(m.dtype));
  const auto table = [&](std::size_t at, std::int64_t count) {
    return Tensor::dense(numbers.address() + at * sizeof(std::int32_t), DType::i32, {count});
  };
  const std::int64_t batch = tables.batch;
  AttentionArgs one;
  one.q =
      Tensor::dense(moved(args.q.address, first * q_row), m.dtype, shape({rows, options.heads_q, m.depth}));
  one.k = Tensor::dense(from[0], m.kv_dtype, shape({key_rows, options.heads_kv, m.depth}));
  one.v = Tensor::dense(from[1], m.kv_dtype, shape({key_rows, options.heads_kv, m.ov_depth}));
  add_scales(args, from, key_rows, one);
  one.scale = args.scale;
  if (is_single()) return one;
  one.cu_seqlens_q = table(tables.q_offsets[which], batch + 1);
  one.cu_seqlens_k = table(pair.k_offsets, batch + 1);
  if (m.takes("seqlens_k")) one.seqlens_k = table(pair.ends, batch);
  one.max_seqlen_q = tables.longest[which];
  one.max_seqlen_k = pair.longest_k;
  return one;
}

void ContextPrefill::Impl::add_scales(const Args& args, const KeyTensors& from, std::int64_t key_rows,
                                      AttentionArgs& one) const {
  one.q_scale = args.q_scale, one.k_scale = args.k_scale, one.v_scale = args.v_scale;
  if (!scales_by_row(config.operand->quantization)) return;
  const auto of_rows = [&](std::uint64_t at, int columns) {
    std::vector<std::int64_t> extents{key_rows, options.heads_kv};
    if (config.operand->quantization->granularity == Quantization::Granularity::per_block)
      extents.push_back(scales_of_row(columns));
    return Tensor::dense(at, DType::f32, shape(extents));
  };
  one.k_scale = of_rows(from[2], manifest().depth), one.v_scale = of_rows(from[3], manifest().ov_depth);
}

std::uint64_t ContextPrefill::Impl::lse_of(const Args& args, std::size_t which) const {
  const std::int64_t before = which == 0 ? 0 : tables.run_rows[0] * options.heads_q;
  return moved(args.lse->address, before * 4);
}

// The runs of a rank beside each other: run 1, which sees more keys where a mask is causal, first, and the blocks of run 0
// on multiprocessors that have no more of it. One after the other each would end with a part of them idle.
std::array<std::uint64_t, 2> ContextPrefill::Impl::streams_of_runs(std::uint64_t stream) {
  const bool both = tables.run_rows[0] > 0 && tables.run_rows[1] > 0;
  return {stream, both ? transport->fork(stream) : stream};
}

void ContextPrefill::Impl::join(const std::array<std::uint64_t, 2>& streams) {
  if (streams[1] != streams[0]) transport->join(streams[0]);
}

void ContextPrefill::Impl::launch_gather(const Args& args, std::uint64_t stream) {
  const KeyTensors all = keys_at(other_keys.address(), tables.total_rows);
  const int own = transport->rank(), ranks = transport->size();
  std::vector<Message> sends, receives;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const parallel::Piece& piece : tables.pieces[static_cast<std::size_t>(own)])
      add_rows(sends, rows_behind(own_keys(args), piece.local), piece.rows, rank);
    for (const parallel::Piece& piece : tables.pieces[static_cast<std::size_t>(rank)])
      add_rows(receives, rows_behind(all, piece.global), piece.rows, rank);
  }
  transport->start(sends, receives, stream);
  transport->finish(stream);
  const auto streams = streams_of_runs(stream);
  const Manifest& m = manifest();
  for (const std::size_t which : {1, 0}) {
    const std::int64_t rows = tables.run_rows[which];
    if (rows == 0) continue;
    LaunchOptions launch_options;
    launch_options.stream = streams[which];
    AttentionArgs one = pair_args(args, which, tables.whole[which], all, gathered_keys(which));
    const std::int64_t first = which == 0 ? 0 : tables.run_rows[0];
    const auto o_row = options.heads_q * m.ov_depth * static_cast<std::int64_t>(size_of(m.out_dtype));
    one.o = Tensor::dense(moved(args.o.address, first * o_row), m.out_dtype,
                          shape({rows, options.heads_q, m.ov_depth}));
    if (args.lse) one.lse = Tensor::dense(lse_of(args, which), DType::f32, shape({options.heads_q, rows}));
    one.sink = args.sink;
    parallel::launch(*computing(), one, launch_options);
  }
  join(streams);
}

// One part of a run's result: the first is what others are merged into, the last leaves as O.
void ContextPrefill::Impl::ring_part(const Args& args, std::size_t which, const parallel::PairTable& pair,
                                     const KeyTensors& from, bool last, std::uint64_t stream) {
  const Manifest& m = manifest();
  const std::int64_t rows = tables.run_rows[which], heads = options.heads_q;
  const std::int64_t o_floats = rows * heads * m.ov_depth;
  const std::uint64_t sum = moved(results.address(), sum_at[which] * 4);
  const std::uint64_t next = moved(results.address(), next_at[which] * 4);
  const bool first = !merged[which];
  const std::uint64_t at = first ? sum : next;
  AttentionArgs one = pair_args(args, which, pair, from, pair.key_rows);
  one.o = Tensor::dense(at, DType::f32, {rows, heads, m.ov_depth});
  one.lse = Tensor::dense(moved(at, o_floats * 4), DType::f32, {heads, rows});
  LaunchOptions launch_options;
  launch_options.stream = stream;
  parallel::launch(*part, one, launch_options);
  if (last) {
    const auto o_row = heads * m.ov_depth * static_cast<std::int64_t>(size_of(end->manifest().out_dtype));
    const std::uint64_t o = moved(args.o.address, (which == 0 ? 0 : tables.run_rows[0]) * o_row);
    const std::uint64_t lse = args.lse ? lse_of(args, which) : moved(results.address(), unwanted_at * 4);
    const std::uint64_t sink = args.sink ? args.sink->address : 0;
    parallel::merge(first ? *convert : *end, {rows, heads, first ? sum : std::min(sum, next), o, lse, sink},
                    stream);
  } else if (!first) {
    parallel::merge(*add, {rows, heads, next, sum, moved(sum, o_floats * 4)}, stream);
  }
  merged[which] = true;
}

void ContextPrefill::Impl::launch_ring(const Args& args, std::uint64_t stream) {
  const int own = transport->rank(), ranks = transport->size();
  const std::int64_t step_bytes = key_bytes(tables.most_rows);
  KeyTensors at = own_keys(args);
  merged[0] = merged[1] = false;
  for (int step = 0; step < ranks; ++step) {
    const int source = (own + ranks - step) % ranks, later = (own + 2 * ranks - step - 1) % ranks;
    const auto rows = [&](int rank) { return tables.rank_rows[static_cast<std::size_t>(rank)]; };
    const KeyTensors next = keys_at(moved(other_keys.address(), step % 2 * step_bytes), rows(later));
    const bool goes_on = step + 1 < ranks;
    if (goes_on) {
      const int to = (own + 1) % ranks, from = (own + ranks - 1) % ranks;
      std::vector<Message> sends, receives;
      add_rows(sends, at, rows(source), to), add_rows(receives, next, rows(later), from);
      transport->start(sends, receives, stream);
    }
    const auto streams = streams_of_runs(stream);
    for (const std::size_t which : {1, 0}) {
      for (const parallel::PairTable& pair : tables.pairs) {
        if (pair.source != source || pair.which != which) continue;
        ring_part(args, which, pair, rows_behind(at, pair.first_key_row), &pair == tables.last_pair(which),
                  streams[which]);
      }
    }
    join(streams);
    if (goes_on) transport->finish(stream);
    at = next;
  }
}

/// Scales that move with their rows; others are the kernel's to check.
void ContextPrefill::Impl::check_row_scales(const Args& args) const {
  const std::optional<Quantization>& q = config.operand->quantization;
  if (!scales_by_row(q)) return;
  const auto one = [&](const char* name, const std::optional<Tensor>& tensor, int columns) {
    std::vector<std::int64_t> extents{tables.rows(), options.heads_kv};
    if (q->granularity == Quantization::Granularity::per_block) extents.push_back(scales_of_row(columns));
    if (!tensor || tensor->dtype != DType::f32 || tensor->shape != extents ||
        tensor->strides != Tensor::dense(0, DType::f32, extents).strides)
      refuse(fmt::format("{} is a dense f32 tensor [{}]", name, fmt::join(extents, ", ")));
  };
  one("k_scale", args.k_scale, manifest().depth), one("v_scale", args.v_scale, manifest().ov_depth);
}

void ContextPrefill::Impl::check(const Args& args) const {
  const Manifest& m = manifest();
  const auto one = [&](const char* name, const Tensor& tensor, DType dtype, std::int64_t heads,
                       std::int64_t depth) {
    const Tensor dense = Tensor::dense(tensor.address, dtype, {tables.rows(), heads, depth});
    if (tensor.dtype == dtype && tensor.shape == dense.shape && tensor.strides == dense.strides) return;
    refuse(fmt::format("{} is a dense {} tensor [{}, {}, {}]", name, to_string(dtype), tables.rows(), heads,
                       depth));
  };
  one("q", args.q, m.dtype, options.heads_q, m.depth);
  one("k", args.k, m.kv_dtype, options.heads_kv, m.depth);
  one("v", args.v, m.kv_dtype, options.heads_kv, m.ov_depth);
  one("o", args.o, (gathers ? computing() : end)->manifest().out_dtype, options.heads_q, m.ov_depth);
  check_row_scales(args);
  const bool wanted = config.lse.value_or(false);
  if (wanted != args.lse.has_value())
    refuse(wanted ? "the config has \"lse\", and no lse was given"
                  : "lse was given; \"lse\": true in the config asks for it");
  const bool sink = config.sink.value_or(false);
  if (sink != args.sink.has_value())
    refuse(sink ? "the config has a sink, and none was given" : "a sink was given, and the config has none");
  const std::vector<std::int64_t> heads_of_sink{options.heads_q};
  if (sink &&
      (args.sink->dtype != DType::f32 || args.sink->shape != heads_of_sink || args.sink->strides[0] != 1))
    refuse(fmt::format("sink is a dense f32 tensor [{}]", options.heads_q));
}

ContextPrefill::ContextPrefill(Runtime& runtime, const Config& config, std::shared_ptr<Transport> transport,
                               const ContextParallelOptions& options) {
  check_prefill_config(config);
  if (options.heads_q < 1 || options.heads_kv < 1 || options.heads_q % options.heads_kv != 0)
    refuse("heads_q is a multiple of heads_kv, and both are at least 1");
  impl_ = std::make_unique<Impl>(runtime, config, std::move(transport), options);
  make_part_kernel(config);  // what it refuses is refused here
}

ContextPrefill::~ContextPrefill() = default;

void ContextPrefill::set_batch(std::span<const std::int64_t> lengths) {
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > std::numeric_limits<std::int32_t>::max() / 2)
      refuse(fmt::format("a length of {}; 0 to 2^30 are possible", length));
    total += length;
  }
  if (total > std::numeric_limits<std::int32_t>::max()) refuse("more than 2^31 rows in all");
  impl_->tables = parallel::make_tables(impl_->config.mask.value_or(MaskConfig{}), lengths,
                                        impl_->transport->rank(), impl_->transport->size());
  impl_->choose_way(lengths);
  impl_->load();
  impl_->take_memory();
}

std::int64_t ContextPrefill::rows() const {
  return impl_->tables.rows();
}

Run ContextPrefill::run(std::int64_t sequence, int which) const {
  return impl_->tables.runs.at(static_cast<std::size_t>(sequence)).at(static_cast<std::size_t>(which));
}

Sharding ContextPrefill::sharding() const {
  return impl_->tables.sharding;
}

PrefillWay ContextPrefill::way() const {
  return impl_->gathers ? PrefillWay::gather : PrefillWay::ring;
}

void ContextPrefill::launch(const Args& args, std::uint64_t stream) {
  impl_->check(args);
  if (impl_->tables.total_rows == 0) return;
  impl_->gathers ? impl_->launch_gather(args, stream) : impl_->launch_ring(args, stream);
}

}  // namespace kiln
