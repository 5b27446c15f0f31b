// A schedule is one main loop: it composes systems, owns roles, barriers and order, and nothing else.
// registry.cpp lists every schedule of every target; the planner picks one by the config's target and
// operation.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/generator.hpp>
#include <kiln/source.hpp>
#include <nlohmann/json.hpp>
#include "generator/layout/proof.hpp"
#include "generator/schedules/common/timeline.hpp"

namespace kiln {

using Violations = std::vector<Violation>;

/// One planned kernel: systems constructed, every constant known.
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual const Config& resolved() const = 0;
  /// The `systems` object of `kiln plan`: per system used, `k` and `v` objects of derived constants
  /// (documented names).
  virtual nlohmann::ordered_json systems() const = 0;
  virtual Resources resources() const = 0;
  virtual KernelSource emit() const = 0;
  /// The kernel whose keys are a part of a sequence (include/kiln/part_kernels.hpp); nothing where there is none.
  virtual std::optional<KernelSource> emit_part() const { return std::nullopt; }
  /// Level L1: every shared-memory map and register map of the kernel, checked by enumeration. Made at the first call,
  /// which takes about a millisecond; from any thread.
  const std::vector<layout::Proof>& layout_proofs() const {
    std::call_once(proved_, [this] { proofs_ = make_layout_proofs(); });
    return proofs_;
  }
  /// A model of the main loop over time, for pictures; empty where a schedule has none.
  virtual Timeline timeline() const { return {}; }
  /// KV tiles a block from which on the end of the work goes to the blocks that are done first; 0: never.
  virtual int dealt_from_tiles() const { return 0; }
  /// V of a key that the mask hides from a row may hold anything (generator/systems/hidden_values.hpp).
  virtual bool guards_hidden_values() const { return false; }

 private:
  virtual std::vector<layout::Proof> make_layout_proofs() const { return {}; }

  mutable std::once_flag proved_;
  mutable std::vector<layout::Proof> proofs_;
};

struct ScheduleEntry {
  std::string_view name;
  Target target;
  Operation operation;
  /// Fills every unset key of `config`, checks the rules that need the filled values, and builds the plan.
  /// Appends to `out` and returns nullptr when a rule is broken. Never throws for user errors.
  std::unique_ptr<Schedule> (*make)(Config config, Violations& out);
  /// Whether it is the default of a config that names none; null: of every one.
  bool (*is_default)(const Config& config) = nullptr;
};

/// All schedules; of those of a (target, operation) the first that says so is the default of a config.
std::span<const ScheduleEntry> schedules();

}  // namespace kiln
