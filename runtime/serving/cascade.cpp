// Shared-prefix decode from kernels that know nothing of it: tables and lengths are divided, results merged.
#include <kiln/cascade.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <kiln/error.hpp>
#include <kiln/generator.hpp>

#include "generator/modifiers/modifier.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/targets/target.hpp"

namespace kiln {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::bad_input, what);
}

bool fits(const PagedShape& shape) {
  const auto lengths = [](std::span<const std::int64_t> values) {
    return std::all_of(values.begin(), values.end(), [](std::int64_t x) { return x >= 0 && x <= INT32_MAX; });
  };
  if (!lengths(shape.lengths_q) || !lengths(shape.lengths_k)) return false;
  const auto batch = static_cast<std::int64_t>(shape.lengths_k.size());
  return shape.lengths_q.size() == shape.lengths_k.size() && shape.page_size > 0 && shape.max_pages > 0 &&
         static_cast<std::int64_t>(shape.table.size()) == batch * shape.max_pages;
}

std::span<const std::int32_t> row(const PagedShape& shape, std::int64_t sequence) {
  return shape.table.subspan(static_cast<std::size_t>(sequence * shape.max_pages),
                             static_cast<std::size_t>(shape.max_pages));
}

// Whole pages of keys that every query of the sequence sees.
std::int64_t full_pages(const PagedShape& shape, std::int64_t sequence) {
  const auto b = static_cast<std::size_t>(sequence);
  return std::clamp<std::int64_t>((shape.lengths_k[b] - shape.lengths_q[b]) / shape.page_size, 0,
                                  shape.max_pages);
}

// Legal rows of packed queries, most first: more rows read the shared keys fewer times.
Config with_most_rows(Config config) {
  for (const int rows : {64, 32, 16}) {
    config.BM = rows;
    try {
      make_plan(config);
      return config;
    } catch (const Error&) {
      continue;
    }
  }
  config.BM.reset();
  return config;
}

// On sm_90a the prefixes are cut into parts, which the merge adds up: no block stays behind to do so. 64
// sequences of four query heads a KV head over eight of these make 128 items then.
constexpr int kParts = 4;

/// Settles the stages so that a block of the prefixes and one of the suffixes fit a multiprocessor; false
/// where they do not.
bool fit_side_by_side(CascadeConfigs& configs) {
  const TargetInfo& target = target_info(configs.suffix.target);
  const bool given = configs.suffix.num_kv_stages.has_value();
  const Config prefix = make_plan(configs.prefix).resolved();
  // Registers, too: 64 rows and 64 keys of 16-bit caches leave some (DecodePlan::room_beside).
  if (prefix.BM != 64 || prefix.BN != 64 || size_of(*prefix.kv_dtype) != 2 || prefix.depth > 128 ||
      *prefix.ov_depth > 128 || prefix.score_mod->kind != ScoreMod::Kind::none)
    return false;
  for (const int stages : {3, 2}) {
    CascadeConfigs tried = configs;
    if (!given) tried.prefix.num_kv_stages = stages, tried.suffix.num_kv_stages = 2;
    try {
      const Manifest suffix =
          generate(make_plan(tried.suffix)).manifest;  // launched to share multiprocessors
      const int bytes = make_prefix_kernel(tried.prefix).manifest.smem_bytes +
                        (suffix.stages ? suffix.stages->shared_smem_bytes : suffix.smem_bytes) +
                        2 * target.smem_reserved;
      if (bytes > target.processor_smem()) continue;
      configs = tried;
      return true;
    } catch (const Error&) {
      continue;  // more stages than fit
    }
  }
  return false;
}

}  // namespace

std::vector<PrefixGroup> find_prefix_groups(const PagedShape& shape, std::int64_t min_keys) {
  if (!fits(shape)) fail("table and lengths do not go together");
  std::vector<PrefixGroup> groups;
  const std::int64_t least = std::max<std::int64_t>((min_keys + shape.page_size - 1) / shape.page_size, 1);
  for (std::int64_t b = 0; b < static_cast<std::int64_t>(shape.lengths_k.size()); ++b) {
    const std::int64_t mine = full_pages(shape, b);
    if (!groups.empty()) {
      PrefixGroup& last = groups.back();
      const std::int64_t theirs =
          last.count == 1 ? full_pages(shape, last.first) : last.keys / shape.page_size;
      const auto a = row(shape, last.first), c = row(shape, b);
      const std::int64_t most = std::min(mine, theirs);
      const std::int64_t same = std::mismatch(a.begin(), a.begin() + most, c.begin()).first - a.begin();
      // A sequence that shares much less than the group does would cost it more than it gains.
      if (same >= least && (last.count == 1 || 2 * same >= theirs)) {
        last.count += 1;
        last.keys = same * shape.page_size;
        continue;
      }
    }
    groups.push_back({b, 1, 0});
  }
  return groups;
}

CascadeConfigs cascade_configs(const Config& config) {
  const auto refuse = [](const std::string& what) { fail("no cascade: " + what); };
  if (config.operation != Operation::decode) refuse("the config is no decode config");
  if (!config.operand || !operand_form(config.operand->kind).pages())
    refuse("only paged operands share pages");
  const auto kind = config.mask ? config.mask->kind : MaskConfig::Kind::none;
  if (kind != MaskConfig::Kind::none && kind != MaskConfig::Kind::causal)
    refuse("a mask that depends on key positions does not split by keys; none and causal do");
  if (config.score_mod && modifier_kind(*config.score_mod).by_place)
    refuse("a score modifier that depends on key positions does not split by keys; softcap does");
  CascadeConfigs configs{config, config};
  const std::string name = config_name(config);
  configs.suffix.lse = configs.prefix.lse = true;
  configs.suffix.name = name + "_suffix";
  configs.prefix.name = name + "_prefix";
  configs.prefix.mask.reset();  // every query sees every shared key
  configs.prefix.sink.reset();  // counted once, with the suffix
  configs.prefix.group.reset();
  configs.prefix = with_most_rows(configs.prefix);
  if (config.target == Target::sm_90a) {
    configs.prefix.split_kv = kParts;
    configs.side_by_side = fit_side_by_side(configs);
  }
  return configs;
}

Cascade::Cascade(Runtime& runtime, const Config& config, std::int64_t max_batch, std::int64_t max_pages,
                 std::int64_t max_rows, std::int64_t heads_q)
    : max_batch_(max_batch), max_pages_(max_pages), max_rows_(max_rows), heads_q_(heads_q) {
  if (max_batch < 1 || max_pages < 1 || max_rows < 1 || heads_q < 1)
    fail("a cascade needs room for a sequence of a page, a row and a head");
  const CascadeConfigs configs = cascade_configs(config);
  const int parts = config.target == Target::sm_90a ? kParts : 1;
  side_by_side_ = configs.side_by_side;
  num_sms_ = runtime.device().num_sms;
  prefix_ = runtime.load(make_prefix_kernel(configs.prefix));
  suffix_ = runtime.load(generate(make_plan(configs.suffix)));
  merge_ = runtime.load(make_merge_kernel(configs.suffix, parts));
  ov_depth_ = suffix_->manifest().ov_depth;
  out_dtype_ = suffix_->manifest().out_dtype;
  page_size_ = suffix_->manifest().page_size;
  const auto ints = [&](std::int64_t count, const char* name) {
    return runtime.allocate(static_cast<std::size_t>(count) * sizeof(std::int32_t), name);
  };
  group_offsets_ = ints(max_batch + 1, "group offsets");
  offsets_ = ints(max_batch + 1, "query offsets");
  prefix_keys_ = ints(max_batch, "shared keys");
  suffix_keys_ = ints(max_batch, "own keys");
  prefix_table_ = ints(max_batch * max_pages, "shared pages");
  suffix_table_ = ints(max_batch * max_pages, "own pages");
  const auto values = static_cast<std::size_t>(max_rows * heads_q);
  const auto results = static_cast<std::size_t>(parts);
  prefix_o_ = runtime.allocate(results * values * static_cast<std::size_t>(ov_depth_) * size_of(out_dtype_),
                               "O of prefixes");
  lse_ = runtime.allocate((1 + results) * values * sizeof(float), "log-sum-exps");
}

void Cascade::update(const PagedShape& shape, std::span<const PrefixGroup> groups) {
  const auto batch = static_cast<std::int64_t>(shape.lengths_k.size());
  if (!fits(shape) || shape.max_pages != max_pages_ || batch > max_batch_ || shape.page_size != page_size_)
    fail("the batch does not fit the cascade: " + std::to_string(batch) + " sequences of " +
         std::to_string(shape.max_pages) + " pages of " + std::to_string(shape.page_size) + " keys");
  std::vector<std::int32_t> group_offsets{0}, offsets{0}, prefix_keys, suffix_keys, prefix_table,
      suffix_table(shape.table.begin(), shape.table.end());
  std::int64_t longest_group = 0, longest_prefix = 0, longest_q = 0, longest_suffix = 0, next = 0;
  for (const PrefixGroup& group : groups) {
    if (group.first != next || group.count < 1 || group.count > batch - next || group.keys < 0 ||
        group.keys % shape.page_size != 0)
      fail("groups follow each other, cover the batch and share whole pages; the one at sequence " +
           std::to_string(group.first) + " does not");
    const std::int64_t pages = group.keys / shape.page_size;
    const auto first = row(shape, group.first);
    for (std::int64_t b = next; b < next + group.count; ++b) {
      const auto at = static_cast<std::size_t>(b);
      const auto mine = row(shape, b);
      if (pages > full_pages(shape, b) || !std::equal(first.begin(), first.begin() + pages, mine.begin()))
        fail("sequence " + std::to_string(b) + " does not share the " + std::to_string(group.keys) +
             " keys of its group");
      std::copy(mine.begin() + pages, mine.end(), suffix_table.begin() + b * max_pages_);
      offsets.push_back(offsets.back() + static_cast<std::int32_t>(shape.lengths_q[at]));
      suffix_keys.push_back(static_cast<std::int32_t>(shape.lengths_k[at] - group.keys));
      longest_q = std::max(longest_q, shape.lengths_q[at]);
      longest_suffix = std::max<std::int64_t>(longest_suffix, suffix_keys.back());
    }
    // Neighbours that share nothing are one item without keys: somebody has to say that there are none.
    if (group.keys > 0 || prefix_keys.empty() || prefix_keys.back() > 0) {
      prefix_keys.push_back(static_cast<std::int32_t>(group.keys));
      prefix_table.insert(prefix_table.end(), first.begin(), first.end());
      group_offsets.push_back(0);
    }
    group_offsets.back() = offsets.back();
    longest_prefix = std::max(longest_prefix, group.keys);
    next += group.count;
  }
  if (next != batch || offsets.back() > max_rows_)
    fail("the groups cover " + std::to_string(next) + " of " + std::to_string(batch) + " sequences with " +
         std::to_string(offsets.back()) + " query rows, the cascade takes " + std::to_string(max_rows_));
  const auto send = [](DeviceBuffer& buffer, const std::vector<std::int32_t>& values) {
    if (!values.empty()) buffer.write(std::as_bytes(std::span(values)));
  };
  send(group_offsets_, group_offsets), send(offsets_, offsets);
  send(prefix_keys_, prefix_keys), send(suffix_keys_, suffix_keys);
  send(prefix_table_, prefix_table), send(suffix_table_, suffix_table);
  batch_ = batch;
  groups_ = static_cast<std::int64_t>(prefix_keys.size());
  for (std::size_t g = 0; g + 1 < group_offsets.size(); ++g)
    longest_group = std::max<std::int64_t>(longest_group, group_offsets[g + 1] - group_offsets[g]);
  rows_ = offsets.back();
  longest_group_ = longest_group, longest_prefix_ = longest_prefix;
  longest_q_ = longest_q, longest_suffix_ = longest_suffix;
}

Tensor Cascade::lse() const {
  return Tensor::dense(lse_.address(), DType::f32, {heads_q_, rows_});
}

AttentionArgs Cascade::prefix_args(const AttentionArgs& args) const {
  AttentionArgs prefix = args;
  prefix.sink.reset();
  prefix.o = Tensor::dense(prefix_o_.address(), out_dtype_, {rows_, heads_q_, ov_depth_});
  prefix.lse = lse();
  prefix.lse->address += static_cast<std::uint64_t>(heads_q_ * rows_) * sizeof(float);
  prefix.cu_seqlens_q = Tensor::dense(group_offsets_.address(), DType::i32, {groups_ + 1});
  prefix.seqlens_k = Tensor::dense(prefix_keys_.address(), DType::i32, {groups_});
  prefix.page_table = Tensor::dense(prefix_table_.address(), DType::i32, {groups_, max_pages_});
  prefix.max_seqlen_q = longest_group_;
  prefix.max_seqlen_k = std::max<std::int64_t>(longest_prefix_, 1);
  return prefix;
}

std::shared_ptr<const EmulationReport> Cascade::prefixes(const AttentionArgs& args,
                                                         const LaunchOptions& options) {
  return prefix_->launch(prefix_args(args), options);
}

std::shared_ptr<const EmulationReport> Cascade::suffixes(const AttentionArgs& args,
                                                         const LaunchOptions& options) {
  AttentionArgs suffix = args;
  suffix.lse = lse();
  suffix.cu_seqlens_q = Tensor::dense(offsets_.address(), DType::i32, {batch_ + 1});
  suffix.seqlens_k = Tensor::dense(suffix_keys_.address(), DType::i32, {batch_});
  suffix.page_table = Tensor::dense(suffix_table_.address(), DType::i32, {batch_, max_pages_});
  suffix.max_seqlen_q = longest_q_;
  suffix.max_seqlen_k = std::max<std::int64_t>(longest_suffix_, 1);
  return suffix_->launch(suffix, options);
}

std::shared_ptr<const EmulationReport> Cascade::merge(const AttentionArgs& args,
                                                      const LaunchOptions& options) {
  // Rows of all sequences as one; the kernel reads no keys.
  const auto as_one = [](const Tensor& t) {
    Tensor one{t.address, t.dtype, {1}, {0}};
    one.shape.insert(one.shape.end(), t.shape.begin(), t.shape.end());
    one.strides.insert(one.strides.end(), t.strides.begin(), t.strides.end());
    if (t.shape.size() == 3) one.strides[0] = t.shape[0] * t.strides[0];
    return one;
  };
  AttentionArgs merge;
  merge.q = as_one(prefix_args(args).o);
  merge.o = merge.k = merge.v = as_one(args.o);
  merge.lse = Tensor::dense(lse_.address(), DType::f32, {1, heads_q_, rows_});
  return merge_->launch(merge, options);
}

std::vector<std::shared_ptr<const EmulationReport>> Cascade::launch(const AttentionArgs& args,
                                                                    const LaunchOptions& options) {
  // The tables are the cascade's own, and update() has long written them.
  LaunchOptions first = options, second = options;
  if (first.before == LaunchBefore::any) first.before = LaunchBefore::keeps_tables;
  second.before = LaunchBefore::keeps_tables;
  if (side_by_side_ && longest_prefix_ > 0) {
    // The prefixes compute and the suffixes read: a block of each on every multiprocessor. The suffixes begin
    // when the prefixes are on their way, and end after them, so that the merge, which waits for the one, has
    // both.
    second.before = LaunchBefore::unrelated;
    const int sms = options.emulator != nullptr ? options.emulator->num_sms : num_sms_;
    if (second.max_blocks == 0 || second.max_blocks > sms) second.max_blocks = sms;
  }
  return {prefixes(args, first), suffixes(args, second), merge(args, options)};
}

}  // namespace kiln
