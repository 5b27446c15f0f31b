// Ranks of a group as threads on the emulated device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <kiln/transport.hpp>

#include "tests/parallel/whole.hpp"

namespace kiln::test {

/// Runs `work` as every rank of a group; the errors of the ranks, "" where there was none.
inline std::vector<std::string> as_group(int ranks, double timeout_seconds,
                                         const std::function<void(int, std::shared_ptr<Transport>)>& work) {
  LoopbackGroup group(ranks, timeout_seconds);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::shared_ptr<Transport> transport = group.join(rank, emulated());
      try {
        work(rank, transport);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
        transport->abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace kiln::test
