// From config to source: the whole generator in three calls. Pure: no files, no environment, no compiler, no
// device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// Resources a kernel needs, as planned.
struct Resources {
  int smem_bytes = 0;     ///< dynamic shared memory of a block
  int num_threads = 0;    ///< threads of a block
  int max_registers = 0;  ///< 32-bit registers a thread may hold in the hungriest role
};

class Schedule;  // generator/schedules/schedule.hpp

/// Every constant decided. Immutable; cheap to copy.
class Plan {
 public:
  explicit Plan(std::shared_ptr<const Schedule> schedule) : schedule_(std::move(schedule)) {}
  const Config& resolved() const;  ///< the config with every applicable key filled in
  Resources resources() const;
  std::string to_json(int indent = 2) const;  ///< {name, resolved, systems, resources}
  const Schedule& schedule() const { return *schedule_; }

 private:
  std::shared_ptr<const Schedule> schedule_;
};

/// Resolves defaults and checks every rule. Throws Error (bad_config) with all violations; emits nothing.
Plan make_plan(const Config& config);

/// Emits the kernel of a plan. Same plan, same bytes.
KernelSource generate(const Plan& plan);

/// Rotary embedding of new rows of K: which columns are turned together, (2i, 2i + 1) or (i, i + columns / 2).
struct AppendRotary {
  enum class Pairs { none, interleaved, halves };
  Pairs pairs = Pairs::none;
  bool fixed = false;  ///< all new rows of a sequence have the position of its first
};

/// The kernel that writes new rows of K and V into the paged or continuous cache which kernels of `config`
/// read: converts them to kv_dtype, and finds the scales of quantisation per token or per n elements.
/// Launched by append_kv (kv_cache.hpp). Throws Error (bad_input) for a config without pages or a type it
/// cannot store.
KernelSource make_append_kernel(const Config& config, const AppendRotary& rotary = {});

/// Version of kiln, "major.minor.patch".
std::string_view version();

}  // namespace kiln
