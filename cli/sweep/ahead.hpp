// Results of steps that several threads compute while one takes them in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace kiln::cli {

/// Computes step(0), step(1), .. step(count - 1) on all cores, at most two for each core beyond what was taken, so that
/// few results wait in memory. `step` is called from several threads.
template <class Result>
class Ahead {
 public:
  Ahead(std::size_t count, std::function<Result(std::size_t)> step)
      : count_(count), cores_(std::max(1U, std::thread::hardware_concurrency())), step_(std::move(step)) {
    for (std::size_t i = 0; i < std::min(cores_, count); ++i) threads_.emplace_back([this] { work(); });
  }
  /// Waits for the steps under way; begins no others.
  ~Ahead() {
    {
      const std::scoped_lock lock(mutex_);
      next_ = count_;
    }
    changed_.notify_all();
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  /// The result of the next step, at most `count` times. Throws what the step threw.
  Result take() {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return done_.contains(taken_); };
    changed_.wait(lock, ready);
    Outcome outcome = std::move(done_.extract(taken_++).mapped());
    changed_.notify_all();
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    return std::move(*outcome.result);
  }

 private:
  struct Outcome {
    std::optional<Result> result;
    std::exception_ptr failure;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return next_ >= count_ || next_ < taken_ + 2 * cores_; });
      if (next_ >= count_) return;
      const std::size_t i = next_++;
      lock.unlock();
      Outcome outcome;
      try {
        outcome.result = step_(i);
      } catch (...) {
        outcome.failure = std::current_exception();
      }
      lock.lock();
      done_.emplace(i, std::move(outcome));
      changed_.notify_all();
    }
  }

  const std::size_t count_, cores_;
  const std::function<Result(std::size_t)> step_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, taken_ = 0;
  std::map<std::size_t, Outcome> done_;
  std::vector<std::jthread> threads_;  ///< last: they end before what they use
};

}  // namespace kiln::cli
