// How the parts of a decode step become its result: what is sent to whom, and who merges what. A rank's part is O in
// f32 and its log-sum-exps over its own keys, for all query rows and heads.
#pragma once

#include <memory>

#include <kiln/runtime.hpp>
#include <kiln/transport.hpp>

#include "parallel/parts.hpp"

namespace kiln::parallel {

/// What all ways are made from. `max_rows`: most query rows of a step, of all ranks.
struct DecodeGroup {
  Runtime& runtime;
  Config config;
  std::shared_ptr<Transport> transport;
  std::int64_t heads = 0, ov_depth = 0, max_rows = 0;
};

/// One way. Every rank uses the same one with the same `rows`.
class PartMerging {
 public:
  struct Part {
    Tensor o, lse;
  };
  /// Addresses of this rank's result: O dense in the config's out_dtype, its log-sum-exps, and the sinks of all heads
  /// (0: the config has none).
  struct Result {
    std::uint64_t o = 0, lse = 0, sink = 0;
  };
  virtual ~PartMerging() = default;
  /// Where the kernel writes this rank's part of a step of `rows` query rows.
  virtual Part own_part(std::int64_t rows) const = 0;
  /// Exchanges the parts and writes this rank's result.
  virtual void finish(std::int64_t rows, const Result& result, std::uint64_t stream) = 0;
};

/// Every rank collects all parts and merges all of them: one exchange.
std::unique_ptr<PartMerging> make_gathered_parts(const DecodeGroup& group);
/// A rank gets its rows of all parts, runs_of (contiguous) the rows of the step, and merges those: the result is them.
std::unique_ptr<PartMerging> make_shared_rows(const DecodeGroup& group);
/// The same, after which every rank collects the merged rows of all: two exchanges. Log-sum-exps are written for the
/// own rows only.
std::unique_ptr<PartMerging> make_spread_rows(const DecodeGroup& group);
/// A rank gets its heads of all parts, of as many neighbouring ones each, and merges those: the result is them.
std::unique_ptr<PartMerging> make_shared_heads(const DecodeGroup& group);

}  // namespace kiln::parallel
