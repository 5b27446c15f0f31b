// Keys of caches under test.
#pragma once

#include "runtime/support/hash.hpp"

namespace kiln::test {

/// A key of its own for each number.
inline Hash128 key_of(int n) {
  Hasher hasher;
  hasher.field(static_cast<std::uint64_t>(n));
  return hasher.digest();
}

}  // namespace kiln::test
