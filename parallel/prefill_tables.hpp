// A batch spread over ranks, in numbers: runs and rows of every rank, which parts a rank computes, and the tables of
// lengths and positions that their launches read.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <kiln/context_parallel.hpp>

namespace kiln::parallel {

/// Rows of one run of one sequence: where the rank has them, and where the whole batch has them.
struct Piece {
  std::int64_t local = 0, global = 0, rows = 0;
};

/// One launch: run `which` of this rank's queries of all sequences against one run of the keys of rank `source`.
struct PairTable {
  std::size_t which = 0;
  int source = 0;
  std::size_t k_offsets = 0, ends = 0;  ///< in `numbers`: [batch + 1], [batch]
  std::int64_t first_key_row = 0, key_rows = 0, longest_k = 0;
};

struct PrefillTables {
  Sharding sharding = Sharding::contiguous;
  std::int64_t batch = 0, total_rows = 0, most_rows = 0;  ///< of all ranks together; of any rank
  std::vector<std::array<Run, 2>> runs;                   ///< of this rank, by sequence
  std::array<std::int64_t, 2> run_rows{}, longest{};      ///< of this rank's runs
  std::array<std::size_t, 2> q_offsets{};
  std::vector<std::int64_t> rank_rows;
  std::vector<std::vector<Piece>> pieces;  ///< by rank, in the order of its memory
  std::array<PairTable, 2> whole;          ///< each run against whole sequences
  std::vector<PairTable> pairs;  ///< in the order of launches; those in which nothing is seen are left out
  std::vector<std::int32_t> numbers;

  std::int64_t rows() const { return run_rows[0] + run_rows[1]; }
  const PairTable* last_pair(std::size_t which) const {
    for (std::size_t i = pairs.size(); i-- > 0;)
      if (pairs[i].which == which) return &pairs[i];
    return nullptr;
  }
};

PrefillTables make_tables(const MaskConfig& mask, std::span<const std::int64_t> lengths, int rank, int ranks);

}  // namespace kiln::parallel
