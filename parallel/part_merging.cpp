// The ways of merging the parts of a decode step: part_merging.hpp says what each does.
#include "parallel/part_merging.hpp"

#include <kiln/context_parallel.hpp>

#include "base/integers.hpp"
#include "generator/emit/part_merge.hpp"

namespace kiln::parallel {
namespace {

constexpr std::uint64_t kFloat = sizeof(float);

/// `floats` and the padding that makes them a multiple of 16 bytes.
constexpr std::int64_t padded(std::int64_t floats) {
  return align_up(floats, 4);
}

DeviceBuffer take_floats(const DecodeGroup& group, std::int64_t floats, const char* what) {
  return group.runtime.allocate(static_cast<std::size_t>(floats) * sizeof(float), what);
}

class GatheredParts final : public PartMerging {
 public:
  explicit GatheredParts(const DecodeGroup& group)
      : g_(group),
        merge_(group.runtime.load(make_part_merge_kernel(group.config, group.transport->size(), false))),
        parts_(take_floats(group,
                           part_floats(group.max_rows, group.heads, group.ov_depth) * group.transport->size(),
                           "results of ranks")) {}

  Part own_part(std::int64_t rows) const override {
    const std::int64_t floats = rows * g_.heads * g_.ov_depth;
    const std::uint64_t at =
        parts_.address() + static_cast<std::uint64_t>(g_.transport->rank()) * bytes(rows);
    return {Tensor::dense(at, DType::f32, {rows, g_.heads, g_.ov_depth}),
            Tensor::dense(at + static_cast<std::uint64_t>(floats) * kFloat, DType::f32, {g_.heads, rows})};
  }
  void finish(std::int64_t rows, const Result& result, std::uint64_t stream) override {
    if (g_.transport->size() > 1) g_.transport->collect(parts_.address(), bytes(rows), stream);
    merge(*merge_, {rows, g_.heads, parts_.address(), result.o, result.lse, result.sink}, stream);
  }

 private:
  std::size_t bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(part_floats(rows, g_.heads, g_.ov_depth)) * kFloat;
  }
  DecodeGroup g_;
  std::shared_ptr<Kernel> merge_;
  DeviceBuffer parts_;
};

/// What the ways have in common that send each rank its share alone: the own part, and this rank's share of all parts.
class Shares : public PartMerging {
 protected:
  /// `share`: floats of this rank's largest share of a part.
  Shares(const DecodeGroup& group, std::int64_t share)
      : g_(group),
        merge_(group.runtime.load(make_placed_merge_kernel(group.config, group.transport->size()))),
        part_(
            take_floats(group, part_floats(group.max_rows, group.heads, group.ov_depth), "result of a rank")),
        shares_(take_floats(group, share * group.transport->size(), "shares of results of ranks")) {}

  std::uint64_t part_at(std::int64_t floats) const {
    return part_.address() + static_cast<std::uint64_t>(floats) * kFloat;
  }
  std::uint64_t share_at(std::int64_t floats) const {
    return shares_.address() + static_cast<std::uint64_t>(floats) * kFloat;
  }
  static std::size_t bytes_of(std::int64_t floats) { return static_cast<std::size_t>(floats) * kFloat; }
  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                std::uint64_t stream) const {
    g_.transport->start(sends, receives, stream);
    g_.transport->finish(stream);
  }

  DecodeGroup g_;
  std::shared_ptr<Kernel> merge_;

 private:
  DeviceBuffer part_, shares_;
};

/// Rows of O are neighbours in memory, their log-sum-exps are not: a rank gets those of all rows, which are few bytes.
class SharedRows : public Shares {
 public:
  explicit SharedRows(const DecodeGroup& group)
      : Shares(group,
               share_floats(group, ceil_div(group.max_rows, group.transport->size()), group.max_rows)) {}

  Part own_part(std::int64_t rows) const override {
    return {Tensor::dense(part_at(0), DType::f32, {rows, g_.heads, g_.ov_depth}),
            Tensor::dense(part_at(rows * row()), DType::f32, {g_.heads, rows})};
  }
  void finish(std::int64_t rows, const Result& result, std::uint64_t stream) override {
    const Run own = rows_of(g_.transport->rank(), rows);
    const std::int64_t share = share_floats(g_, own.rows, rows), lses = g_.heads * rows;
    std::vector<Message> sends, receives;
    for (int peer = 0; peer < g_.transport->size(); ++peer) {
      const Run theirs = rows_of(peer, rows);
      if (theirs.rows > 0) {
        sends.push_back({part_at(theirs.first * row()), bytes_of(theirs.rows * row()), peer});
        sends.push_back({part_at(rows * row()), bytes_of(lses), peer});
      }
      if (own.rows > 0) {
        receives.push_back({share_at(peer * share), bytes_of(own.rows * row()), peer});
        receives.push_back({share_at(peer * share + padded(own.rows * row())), bytes_of(lses), peer});
      }
    }
    exchange(sends, receives, stream);
    SharesArgs args{.rows = own.rows, .heads = g_.heads, .share_floats = share};
    args.o = result.o, args.lse = result.lse, args.sink = result.sink;
    args.shares = share_at(0), args.lses = share_at(padded(own.rows * row()));
    args.row_floats = row(), args.head_floats = g_.ov_depth;
    args.lse_pitch = rows, args.lse_first = own.first;
    merge_shares(*merge_, args, stream);
  }

 protected:
  std::int64_t row() const { return g_.heads * g_.ov_depth; }
  Run rows_of(int rank, std::int64_t rows) const {
    return runs_of(Sharding::contiguous, rows, rank, g_.transport->size())[0];
  }

 private:
  static std::int64_t share_floats(const DecodeGroup& group, std::int64_t own, std::int64_t rows) {
    return padded(own * group.heads * group.ov_depth) + padded(group.heads * rows);
  }
};

class SpreadRows final : public SharedRows {
 public:
  using SharedRows::SharedRows;
  void finish(std::int64_t rows, const Result& result, std::uint64_t stream) override {
    const std::size_t row_bytes = static_cast<std::size_t>(row()) * size_of(merge_->manifest().out_dtype);
    const auto message = [&](int rank, int peer) -> Message {
      const Run run = rows_of(rank, rows);
      return {result.o + static_cast<std::uint64_t>(run.first) * row_bytes,
              static_cast<std::size_t>(run.rows) * row_bytes, peer};
    };
    const int own = g_.transport->rank();
    SharedRows::finish(rows, {message(own, own).address, result.lse, result.sink}, stream);
    std::vector<Message> sends, receives;
    for (int peer = 0; peer < g_.transport->size(); ++peer) {
      if (peer == own) continue;
      sends.push_back(message(own, peer)), receives.push_back(message(peer, peer));
    }
    exchange(sends, receives, stream);
  }
};

/// The part has its heads one after another, so that those of a rank are neighbours in memory, as their log-sum-exps
/// are.
class SharedHeads final : public Shares {
 public:
  explicit SharedHeads(const DecodeGroup& group)
      : Shares(group, part_floats(group.max_rows, group.heads / group.transport->size(), group.ov_depth)),
        own_(group.heads / group.transport->size()) {}

  Part own_part(std::int64_t rows) const override {
    Tensor o = Tensor::dense(part_at(0), DType::f32, {rows, g_.heads, g_.ov_depth});
    o.strides = {g_.ov_depth, rows * g_.ov_depth, 1};
    return {o, Tensor::dense(part_at(rows * g_.heads * g_.ov_depth), DType::f32, {g_.heads, rows})};
  }
  void finish(std::int64_t rows, const Result& result, std::uint64_t stream) override {
    const std::int64_t lses = own_ * rows, floats = lses * g_.ov_depth,
                       share = part_floats(rows, own_, g_.ov_depth);
    std::vector<Message> sends, receives;
    for (int peer = 0; peer < g_.transport->size(); ++peer) {
      sends.push_back({part_at(peer * floats), bytes_of(floats), peer});
      sends.push_back({part_at(rows * g_.heads * g_.ov_depth + peer * lses), bytes_of(lses), peer});
      receives.push_back({share_at(peer * share), bytes_of(floats), peer});
      receives.push_back({share_at(peer * share + floats), bytes_of(lses), peer});
    }
    exchange(sends, receives, stream);
    SharesArgs args{.rows = rows, .heads = own_, .share_floats = share, .o = result.o, .lse = result.lse};
    if (result.sink != 0)
      args.sink = result.sink + static_cast<std::uint64_t>(g_.transport->rank() * own_) * kFloat;
    args.shares = share_at(0), args.lses = share_at(floats);
    args.row_floats = g_.ov_depth, args.head_floats = rows * g_.ov_depth;
    args.lse_pitch = rows;
    merge_shares(*merge_, args, stream);
  }

 private:
  std::int64_t own_;
};

}  // namespace

std::unique_ptr<PartMerging> make_gathered_parts(const DecodeGroup& group) {
  return std::make_unique<GatheredParts>(group);
}
std::unique_ptr<PartMerging> make_shared_rows(const DecodeGroup& group) {
  return std::make_unique<SharedRows>(group);
}
std::unique_ptr<PartMerging> make_spread_rows(const DecodeGroup& group) {
  return std::make_unique<SpreadRows>(group);
}
std::unique_ptr<PartMerging> make_shared_heads(const DecodeGroup& group) {
  return std::make_unique<SharedHeads>(group);
}

}  // namespace kiln::parallel
