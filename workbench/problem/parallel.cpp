// Blocks are handed out by a counter, so uneven ones (causal rows) balance by themselves.
#include "workbench/problem/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln {

void parallel_blocks(std::size_t count, std::size_t grain,
                     const std::function<void(std::size_t, std::size_t)>& body) {
  const std::size_t blocks = (count + grain - 1) / grain;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    for (std::size_t block; (block = next++) < blocks;) {
      try {
        body(block * grain, std::min(count, (block + 1) * grain));
      } catch (...) {
        const std::scoped_lock lock(failure_mutex);
        if (!failure) failure = std::current_exception();
        next = blocks;
      }
    }
  };
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < std::min(cores, blocks); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kiln
