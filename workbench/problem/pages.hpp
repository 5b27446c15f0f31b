// Page tables of a workload, and host-side packing of K, V and their scales into pages or padded rows. What
// no kernel may use is poison: NaN bit patterns in rows, page numbers far outside the pool in the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <kiln/types.hpp>

namespace kiln {

struct PageTable {
  std::int64_t page_size = 0;         ///< rows of a page
  std::int64_t num_pages = 0;         ///< of the pool
  std::int64_t max_pages = 0;         ///< entries of a sequence
  std::vector<std::int32_t> entries;  ///< [batch, max_pages]
  std::span<const std::int32_t> of(std::int64_t request) const {
    return std::span(entries).subspan(static_cast<std::size_t>(request * max_pages),
                                      static_cast<std::size_t>(max_pages));
  }
};

/// Every sequence on pages of its own, scattered over a pool that has some more, by `seed`. Table rows are
/// longer than any sequence needs.
PageTable random_pages(const std::vector<std::int64_t>& lengths, std::int64_t page_size, std::uint64_t seed);

/// One block a sequence with room for the longest (continuous batching).
PageTable random_blocks(const std::vector<std::int64_t>& lengths, std::uint64_t seed);

/// A table read from a file, for sequences of these lengths. Throws Error (bad_input) naming `name`: too few
/// entries, a used entry that is negative, too large for a pool, or used twice. Numbers far beyond the count
/// of used pages are replaced by the next free ones, in their order, so that the pool is as large as what is
/// used.
PageTable given_pages(const std::vector<std::int64_t>& lengths, std::int64_t page_size,
                      std::int64_t max_pages, const std::vector<std::int64_t>& entries, const char* name);

/// Rows of all sequences, one after the other, on their pages: [num_pages, page_size] rows. Everything else
/// is `poison`.
std::vector<std::byte> pack_pages(std::span<const std::byte> rows, std::size_t row_bytes,
                                  const std::vector<std::int64_t>& lengths, const PageTable& table,
                                  std::byte poison);

/// The same in [batch, rows_per_sequence] rows.
std::vector<std::byte> pack_padded(std::span<const std::byte> rows, std::size_t row_bytes,
                                   const std::vector<std::int64_t>& lengths, std::int64_t rows_per_sequence,
                                   std::byte poison);

/// Floats [.., heads] of groups of `rows` rows each, in the order [group, heads, rows], a head's rows
/// followed by `poison` up to a multiple of 4: `padded_rows`.
std::vector<std::byte> pack_by_head(std::span<const std::byte> rows, std::int64_t heads,
                                    const std::vector<std::int64_t>& groups, std::byte poison);
std::int64_t padded_rows(std::int64_t rows);

/// Rows of `bytes` in rows of `row_bytes`, `offset` bytes from their start. Everything else is `poison`.
std::vector<std::byte> pack_columns(std::span<const std::byte> rows, std::size_t bytes, std::size_t row_bytes,
                                    std::size_t offset, std::byte poison);

/// Columns of `bytes` a row into rows of `row_bytes`, `offset` bytes from their start.
void place_columns(std::span<const std::byte> columns, std::size_t bytes, std::size_t row_bytes,
                   std::size_t offset, std::vector<std::byte>& rows);

/// What unused rows of a type are filled with: NaN, or for int8 its lowest value.
std::byte poison_of(DType dtype);

}  // namespace kiln
