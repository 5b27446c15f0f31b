#include "workbench/problem/pages.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include <kiln/error.hpp>

namespace kiln {
namespace {

constexpr std::int32_t kNoPage = 0x40000000;  // of unused entries: a pool of so many pages exists nowhere
constexpr std::int64_t kMostPages = 1 << 24, kSparePages = 16;  // that a pool may have besides those in use

std::int64_t pages_of(std::int64_t length, std::int64_t page_size) {
  return (length + page_size - 1) / page_size;
}

// Fisher-Yates by hand: std::shuffle's order is the library's own.
std::vector<std::int32_t> permutation(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed ^ 0x9a6e5);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

void copy_rows(std::span<const std::byte> rows, std::size_t row_bytes, std::int64_t first,
               std::vector<std::byte>& out, std::int64_t to, std::int64_t count) {
  if (count <= 0) return;
  std::memcpy(out.data() + static_cast<std::size_t>(to) * row_bytes,
              rows.data() + static_cast<std::size_t>(first) * row_bytes,
              static_cast<std::size_t>(count) * row_bytes);
}

}  // namespace

PageTable random_pages(const std::vector<std::int64_t>& lengths, std::int64_t page_size, std::uint64_t seed) {
  PageTable table;
  table.page_size = page_size;
  std::int64_t used = 0, longest = 0;
  for (const std::int64_t length : lengths) {
    used += pages_of(length, page_size);
    longest = std::max(longest, pages_of(length, page_size));
  }
  table.num_pages = used + 1 + used / 8;
  table.max_pages = longest + 1;
  const std::vector<std::int32_t> order = permutation(table.num_pages, seed);
  auto next = order.begin();
  for (const std::int64_t length : lengths) {
    const std::int64_t pages = pages_of(length, page_size);
    table.entries.insert(table.entries.end(), next, next + pages);
    table.entries.insert(table.entries.end(), static_cast<std::size_t>(table.max_pages - pages), kNoPage);
    next += pages;
  }
  return table;
}

PageTable random_blocks(const std::vector<std::int64_t>& lengths, std::uint64_t seed) {
  PageTable table;
  table.page_size = lengths.empty() ? 1 : *std::max_element(lengths.begin(), lengths.end()) + 3;
  table.num_pages = static_cast<std::int64_t>(lengths.size()) + 2;
  table.max_pages = 1;
  const std::vector<std::int32_t> order = permutation(table.num_pages, seed);
  table.entries.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(lengths.size()));
  return table;
}

PageTable given_pages(const std::vector<std::int64_t>& lengths, std::int64_t page_size,
                      std::int64_t max_pages, const std::vector<std::int64_t>& entries, const char* name) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::bad_input, std::string(name) + ": " + what);
  };
  PageTable table{page_size, 1, max_pages, {}};
  table.entries.assign(entries.size(), kNoPage);
  std::map<std::int64_t, std::size_t> used;  // page -> its entry
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::int64_t pages = pages_of(lengths[b], page_size);
    if (pages > max_pages) {
      fail("request " + std::to_string(b) + " has " + std::to_string(lengths[b]) + " keys, " +
           std::to_string(max_pages) + " pages of " + std::to_string(page_size) + " hold fewer");
    }
    for (std::int64_t i = 0; i < pages; ++i) {
      const std::size_t at = b * static_cast<std::size_t>(max_pages) + static_cast<std::size_t>(i);
      const std::int64_t page = entries[at];
      if (page < 0 || page >= kMostPages) {
        fail("entry [" + std::to_string(b) + ", " + std::to_string(i) + "] is " + std::to_string(page) +
             ", page numbers are 0 to " + std::to_string(kMostPages - 1));
      }
      if (!used.emplace(page, at).second) fail("page " + std::to_string(page) + " is used twice");
    }
  }
  // The pool is as large as what is used: where numbers have gaps pages are renumbered, in their order.
  const bool gaps =
      !used.empty() && used.rbegin()->first >= 2 * static_cast<std::int64_t>(used.size()) + kSparePages;
  std::int64_t next = 0;
  for (const auto& [page, at] : used) {
    const std::int64_t number = gaps ? next++ : page;
    table.entries[at] = static_cast<std::int32_t>(number);
    table.num_pages = std::max(table.num_pages, number + 2);
  }
  return table;
}

std::vector<std::byte> pack_pages(std::span<const std::byte> rows, std::size_t row_bytes,
                                  const std::vector<std::int64_t>& lengths, const PageTable& table,
                                  std::byte poison) {
  std::vector<std::byte> out(static_cast<std::size_t>(table.num_pages * table.page_size) * row_bytes, poison);
  std::int64_t first = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::span<const std::int32_t> pages = table.of(static_cast<std::int64_t>(b));
    for (std::int64_t row = 0; row < lengths[b]; row += table.page_size) {
      const std::int64_t page = pages[static_cast<std::size_t>(row / table.page_size)];
      copy_rows(rows, row_bytes, first + row, out, page * table.page_size,
                std::min(table.page_size, lengths[b] - row));
    }
    first += lengths[b];
  }
  return out;
}

std::vector<std::byte> pack_padded(std::span<const std::byte> rows, std::size_t row_bytes,
                                   const std::vector<std::int64_t>& lengths, std::int64_t rows_per_sequence,
                                   std::byte poison) {
  std::vector<std::byte> out(lengths.size() * static_cast<std::size_t>(rows_per_sequence) * row_bytes,
                             poison);
  std::int64_t first = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    copy_rows(rows, row_bytes, first, out, static_cast<std::int64_t>(b) * rows_per_sequence, lengths[b]);
    first += lengths[b];
  }
  return out;
}

std::int64_t padded_rows(std::int64_t rows) {
  return (rows + 3) / 4 * 4;
}

std::vector<std::byte> pack_by_head(std::span<const std::byte> rows, std::int64_t heads,
                                    const std::vector<std::int64_t>& groups, std::byte poison) {
  std::int64_t total = 0, first = 0, to = 0;
  for (const std::int64_t count : groups) total += heads * padded_rows(count);
  std::vector<std::byte> out(static_cast<std::size_t>(total) * sizeof(float), poison);
  for (const std::int64_t count : groups) {
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t head = 0; head < heads; ++head)
        copy_rows(rows, sizeof(float), (first + row) * heads + head, out,
                  to + head * padded_rows(count) + row, 1);
    }
    first += count;
    to += heads * padded_rows(count);
  }
  return out;
}

std::vector<std::byte> pack_columns(std::span<const std::byte> rows, std::size_t bytes, std::size_t row_bytes,
                                    std::size_t offset, std::byte poison) {
  const std::size_t count = bytes == 0 ? 0 : rows.size() / bytes;
  std::vector<std::byte> out(count * row_bytes, poison);
  place_columns(rows, bytes, row_bytes, offset, out);
  return out;
}

void place_columns(std::span<const std::byte> columns, std::size_t bytes, std::size_t row_bytes,
                   std::size_t offset, std::vector<std::byte>& rows) {
  for (std::size_t i = 0; i * row_bytes < rows.size(); ++i)
    std::memcpy(rows.data() + i * row_bytes + offset, columns.data() + i * bytes, bytes);
}

std::byte poison_of(DType dtype) {
  return dtype == DType::int8 || dtype == DType::fp8_e4m3fnuz ? std::byte{0x80} : std::byte{0xff};
}

}  // namespace kiln
