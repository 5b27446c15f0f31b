#include "parallel/prefill_tables.hpp"

#include <algorithm>
#include <tuple>

namespace kiln::parallel {
namespace {

/// Whether some row of `q` sees some key of `k`.
bool sees(const MaskConfig& mask, const Run& q, const Run& k) {
  if (q.rows == 0 || k.rows == 0) return false;
  switch (mask.kind) {
    case MaskConfig::Kind::none:
    case MaskConfig::Kind::custom:
    case MaskConfig::Kind::window:
      return true;
    case MaskConfig::Kind::causal:
      return k.first < q.end();
    case MaskConfig::Kind::sliding_window:
      return k.first < q.end() && k.end() > q.first - mask.size + 1;
    case MaskConfig::Kind::chunked:
      return k.first < q.end() && k.end() > q.first / mask.size * mask.size;
  }
  return true;
}

class Builder {
 public:
  Builder(const MaskConfig& mask, std::span<const std::int64_t> lengths, int rank, int ranks)
      : mask_(mask), lengths_(lengths), rank_(rank), ranks_(ranks) {
    t_.batch = static_cast<std::int64_t>(lengths.size());
    t_.sharding = mask.kind == MaskConfig::Kind::causal ? Sharding::zigzag : Sharding::contiguous;
  }

  PrefillTables build() {
    const std::int64_t granule = mask_.kind == MaskConfig::Kind::chunked ? mask_.size : 1;
    for (int rank = 0; rank < ranks_; ++rank) {
      auto& runs = runs_.emplace_back();
      for (const std::int64_t length : lengths_)
        runs.push_back(runs_of(t_.sharding, length, rank, ranks_, granule));
      add_pieces(runs);
    }
    for (const std::int64_t length : lengths_) t_.total_rows += length;
    t_.runs = runs_[static_cast<std::size_t>(rank_)];
    for (const std::size_t which : {0, 1}) {
      std::tie(t_.q_offsets[which], t_.run_rows[which], t_.longest[which]) = add_offsets(t_.runs, which);
      t_.whole[which] = whole(which);
    }
    for (int step = 0; step < ranks_; ++step) add_step((rank_ + ranks_ - step) % ranks_);
    return std::move(t_);
  }

 private:
  using Runs = std::vector<std::array<Run, 2>>;

  void add_pieces(const Runs& runs) {
    auto& pieces = t_.pieces.emplace_back();
    std::int64_t local = 0;
    for (const std::size_t which : {0, 1}) {
      std::int64_t start = 0;
      for (std::size_t b = 0; b < runs.size(); ++b) {
        const Run& run = runs[b][which];
        if (run.rows > 0) pieces.push_back({local, start + run.first, run.rows});
        local += run.rows;
        start += lengths_[b];
      }
    }
    t_.rank_rows.push_back(local);
    t_.most_rows = std::max(t_.most_rows, local);
  }

  /// Offsets of one run of all sequences: where they are, their sum and the longest.
  std::tuple<std::size_t, std::int64_t, std::int64_t> add_offsets(const Runs& runs, std::size_t which) {
    const std::size_t at = t_.numbers.size();
    std::int64_t sum = 0, longest = 0;
    t_.numbers.push_back(0);
    for (const auto& run : runs) {
      sum += run[which].rows;
      longest = std::max(longest, run[which].rows);
      t_.numbers.push_back(static_cast<std::int32_t>(sum));
    }
    return {at, sum, longest};
  }

  /// The key position behind the last query row, from the first key on.
  template <class FirstKey>
  std::size_t add_ends(std::size_t which, FirstKey first_key) {
    const std::size_t at = t_.numbers.size();
    for (std::size_t b = 0; b < t_.runs.size(); ++b)
      t_.numbers.push_back(static_cast<std::int32_t>(t_.runs[b][which].end() - first_key(b)));
    return at;
  }

  PairTable whole(std::size_t which) {
    PairTable pair;
    pair.which = which;
    pair.k_offsets = t_.numbers.size();
    std::int64_t sum = 0;
    t_.numbers.push_back(0);
    for (const std::int64_t length : lengths_) {
      t_.numbers.push_back(static_cast<std::int32_t>(sum += length));
      pair.longest_k = std::max(pair.longest_k, length);
    }
    pair.key_rows = sum;
    pair.ends = add_ends(which, [](std::size_t) { return std::int64_t{0}; });
    return pair;
  }

  void add_step(int source) {
    const Runs& theirs = runs_[static_cast<std::size_t>(source)];
    std::int64_t first_row = 0;
    for (const std::size_t keys : {0, 1}) {
      const auto [k_offsets, key_rows, longest_k] = add_offsets(theirs, keys);
      for (const std::size_t which : {0, 1}) {
        bool seen = false;
        for (std::size_t b = 0; b < theirs.size(); ++b)
          seen = seen || sees(mask_, t_.runs[b][which], theirs[b][keys]);
        if (!seen) continue;
        PairTable pair;
        pair.which = which, pair.source = source;
        pair.k_offsets = k_offsets, pair.key_rows = key_rows, pair.longest_k = longest_k;
        pair.first_key_row = first_row;
        pair.ends = add_ends(which, [&](std::size_t b) { return theirs[b][keys].first; });
        t_.pairs.push_back(pair);
      }
      first_row += key_rows;
    }
  }

  const MaskConfig& mask_;
  std::span<const std::int64_t> lengths_;
  int rank_, ranks_;
  std::vector<Runs> runs_;
  PrefillTables t_;
};

}  // namespace

PrefillTables make_tables(const MaskConfig& mask, std::span<const std::int64_t> lengths, int rank,
                          int ranks) {
  return Builder(mask, lengths, rank, ranks).build();
}

}  // namespace kiln::parallel
