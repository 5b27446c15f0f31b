// Launches worked out for their shapes, and a kernel's memory of them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/launch/launch_key.hpp"
#include "runtime/launch/pack.hpp"

namespace kiln {

/// Tensors and numbers of a launch without their lists; `known` is false for tensors of more dimensions than
/// any has.
FlatLaunch flatten(const AttentionArgs& args);

/// All of a launch but addresses. Throws Error (bad_input) for arguments that break a rule.
struct PreparedLaunch {
  PreparedLaunch(const Manifest& manifest, const AttentionArgs& args, const LaunchOptions& options,
                 int num_sms);

  bool empty = false;  ///< no query rows: nothing to write
  LaunchGeometry geometry;
  std::int64_t items = 0;  ///< of SplitScratch
  PackedParams params;
  /// Operands that LaunchGeometry::tables lists, in its order.
  std::array<Operand, 5> tables{};
  std::size_t num_tables = 0;

  /// The geometry with tables at the addresses of a launch.
  LaunchGeometry geometry_at(const std::array<std::uint64_t, kOperands>& addresses) const;
};

/// The launches of a kernel that were used last. Not for several threads at once.
class PreparedLaunches {
 public:
  /// Null for a launch that is not known.
  std::shared_ptr<PreparedLaunch> find(const LaunchKey& key);
  void add(const LaunchKey& key, std::shared_ptr<PreparedLaunch> launch);
  std::uint64_t added() const { return added_; }

 private:
  static constexpr std::size_t kMost = 64;
  struct Entry {
    std::unique_ptr<LaunchKey> key;
    std::shared_ptr<PreparedLaunch> launch;
  };
  std::vector<Entry> entries_;  ///< most recent first
  std::uint64_t added_ = 0;
};

}  // namespace kiln
