// One loop over all cores, for host-side work on whole tensors.
#pragma once

#include <cstddef>
#include <functional>

namespace kiln {

/// Calls body(begin, end) for consecutive blocks of at most `grain` indices of [0, count), from several
/// threads. Returns when all are done; the first exception is rethrown. The result must not depend on the
/// order of blocks.
void parallel_blocks(std::size_t count, std::size_t grain,
                     const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace kiln
