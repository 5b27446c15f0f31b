// How many heads a problem has where nobody says it.
#pragma once

#include <cstdint>
#include <optional>

#include <kiln/config.hpp>

namespace kiln {

struct HeadCounts {
  std::int64_t q = 1, kv = 1;
};

/// The counts that are `asked` for, else those that the kernel is made for. What both leave open follows
/// `usual`: its counts, or where one count is known its query heads per KV head, as far as they divide.
HeadCounts head_counts(const Config& resolved, const std::optional<std::int64_t>& asked_q,
                       const std::optional<std::int64_t>& asked_kv, const HeadCounts& usual);

}  // namespace kiln
