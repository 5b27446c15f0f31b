// What a row of scores has beside its O: the log-sum-exp that leaves with it, and the sink that its sum counts in. A
// kernel without either emits nothing for it.
#pragma once

#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/source.hpp>

#include "generator/emit/prelude.hpp"

namespace kiln {

class RowResults {
 public:
  RowResults() = default;
  explicit RowResults(const Config& resolved) : lse_(*resolved.lse), sink_(*resolved.sink) {}

  bool lse() const { return lse_; }
  bool sink() const { return sink_; }
  void add_pointers(std::vector<KernelParam>& params) const {
    if (lse_) params.push_back({KernelParam::Kind::pointer, "lse", {}});
    if (sink_) params.push_back({KernelParam::Kind::pointer, "sink", {}});
  }
  /// How far the rows of one head's log-sum-exps reach, where all sequences share them.
  void add_total(std::vector<KernelParam>& params, bool ragged) const {
    if (lse_ && ragged) params.push_back({KernelParam::Kind::i32, "total_q", {}});
  }
  void use(Prelude& prelude) const {
    if (lse_) prelude.use("log2_approx");
  }

 private:
  bool lse_ = false, sink_ = false;
};

}  // namespace kiln
