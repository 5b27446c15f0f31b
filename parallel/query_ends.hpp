// Where the queries of sequences stand among this rank's keys, where their parts follow one another in the order of
// ranks: found on the device from the lengths of all ranks.
#pragma once

#include <memory>

#include <kiln/runtime.hpp>
#include <kiln/transport.hpp>

namespace kiln::parallel {

class QueryEnds {
 public:
  /// `most_sequences` of a launch.
  QueryEnds(Runtime& runtime, const Config& config, std::shared_ptr<Transport> transport,
            std::int64_t most_sequences);
  /// AttentionArgs::query_ends of a launch whose lengths are those of this rank's keys. One exchange.
  Tensor find(const AttentionArgs& args, std::uint64_t stream);

 private:
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<Kernel> kernel_;
  std::int64_t most_sequences_;
  bool starts_;          ///< lengths are differences of cu_seqlens_k
  DeviceBuffer tables_;  ///< lengths of all ranks
  DeviceBuffer ends_;
};

}  // namespace kiln::parallel
