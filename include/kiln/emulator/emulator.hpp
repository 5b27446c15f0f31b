// The emulated device: runs the PTX that a kernel compiler produced, on the CPU, and reports what it did and
// what it did wrong. Three values make a run: GlobalMemory (the device's memory), Module (a decoded PTX
// program) and Launch (one grid). Knows nothing of kiln: any PTX for sm_75 .. sm_90a can be run with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/emulator/tensor_map.hpp>

namespace kiln::emulator {

/// The one exception type: malformed or unsupported PTX, an illegal launch, a host-side misuse of device
/// memory. what() is one line; `line()` is the 1-based line of the PTX text, or 0 when the error is not about
/// one.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int line = 0) : std::runtime_error(message), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

/// The machine lacks a library or memory that the emulated device needs: nothing is wrong with the program.
class MissingLibrary : public Error {
 public:
  using Error::Error;
};

/// When asynchronous work (cp.async, bulk and tensor copies, wgmma) completes.
enum class Policy {
  eager,   ///< as it is issued
  lazy,    ///< as late as the program's own waits allow
  random,  ///< some time in between, by the launch's seed
};

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  /// x * y * z, or the largest number where that has more than 64 bits.
  std::uint64_t count() const {
    const std::uint64_t plane = std::uint64_t{x} * y, most = ~std::uint64_t{0};
    return z != 0 && plane > most / z ? most : plane * z;
  }
};

/// Global memory of one device: allocations with guard gaps between them, and for every byte whether it is
/// allocated and whether it was written. Host calls throw Error when they leave an allocation. Not
/// synchronised with running launches.
class GlobalMemory {
 public:
  /// `capacity` bounds the address space, not what is used: memory of the host is taken only where bytes are
  /// touched.
  explicit GlobalMemory(std::size_t capacity = std::size_t{1} << 36);
  ~GlobalMemory();
  GlobalMemory(GlobalMemory&&) noexcept;
  GlobalMemory& operator=(GlobalMemory&&) noexcept;

  std::uint64_t allocate(std::size_t bytes, std::string name = {}, std::size_t align = 256);
  void free(std::uint64_t address);
  void write(std::uint64_t address, std::span<const std::byte> bytes);
  void read(std::uint64_t address, std::span<std::byte> bytes) const;
  void fill(std::uint64_t address, std::byte value, std::size_t bytes);
  /// Marks bytes as written (they keep their value) or as never written (they become a pattern that is NaN in
  /// every format).
  void mark_initialized(std::uint64_t address, std::size_t bytes);
  void poison(std::uint64_t address, std::size_t bytes);
  bool is_initialized(std::uint64_t address, std::size_t bytes) const;
  std::size_t allocated_bytes() const;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Where an instruction was executed. Of `file` and `line`, the emitted source as `.loc` names it; empty and
/// 0 without `.loc`.
struct Site {
  std::string kernel;
  Dim3 block{0, 0, 0};
  int warp = -1, lane = -1;  ///< -1: not one warp (an asynchronous unit) or not one lane
  int ptx_line = 0;
  int ptx_column = 0, ptx_length = 0;  ///< of the statement in its line, from 1
  std::string ptx_text;
  std::string source_file;
  int source_line = 0, source_column = 0;
  std::string caller_file;                 ///< where the function of `source_line` was inlined
  int caller_line = 0, caller_column = 0;  ///< 0: it was not
};

/// How bad a finding is.
enum class Severity : std::uint8_t {
  error,      ///< wrong on hardware
  undefined,  ///< formally wrong; compilers and hardware of today make it good
  note,       ///< worth knowing, no fault
};
std::string_view to_string(Severity severity);

/// Something the program did wrong. `kind` is one of finding_kinds(). One mistake is one finding: what other
/// lanes, warps, blocks and iterations did alike is in `count`, and so are other instructions between the
/// same synchronisations (`places` counts those, `more` has the first few).
struct Finding {
  struct Place {
    Site site, other;
  };
  std::string kind;
  std::string message;
  Site site;
  bool has_other = false;
  Site other;  ///< the second party of a race, or who owns what was touched
  std::uint64_t count = 1;
  Severity severity = Severity::error;
  std::uint32_t places = 1;
  std::vector<Place> more = {};
};

/// Every value of Finding::kind, e.g. "out-of-bounds", "uninitialized-read", "shared-race", "deadlock".
std::span<const std::string_view> finding_kinds();

struct Counters {
  std::uint64_t warp_instructions = 0;
  std::uint64_t lane_instructions = 0;
  std::map<std::string, std::uint64_t>
      by_kind;                        ///< warp-instructions by kind: "integer", "float", "mma", "wgmma", ...
  std::uint64_t shared_accesses = 0;  ///< warp-level accesses of shared memory
  std::uint64_t shared_bank_conflicts = 0;  ///< extra passes those needed
  std::uint64_t global_accesses = 0;
  std::uint64_t global_sectors = 0;  ///< 32-byte sectors those touched
  std::uint64_t global_bytes_read = 0, global_bytes_written = 0;
  std::uint64_t async_bytes = 0;  ///< by cp.async and bulk copies
  std::uint64_t matrix_flops = 0;
};

struct Report {
  Counters counters;
  std::vector<Finding> findings;
  std::string output;  ///< what the kernel printed
  bool completed =
      true;  ///< false: stopped by a trap, a deadlock, the instruction budget or an unrecoverable access
  /// A thread let dependent launches begin (griddepcontrol.launch_dependents). Without it the next one begins after this
  /// one's end, and need not wait.
  bool released_dependents = false;
};

struct Parameter {
  std::string name;
  std::size_t bytes = 0, align = 0, offset = 0;
};

/// A decoded PTX program. Immutable and cheap to copy; safe to launch from several threads.
class Module {
 public:
  /// Parses and decodes. Throws Error with the line for malformed text and for instructions it does not know.
  static Module from_ptx(std::string_view text, std::string name = "module");
  /// The same for programs of which only some kernels may be run: one with instructions it does not know is an Error
  /// of its launch.
  static Module from_ptx_by_kernel(std::string_view text, std::string name = "module");

  const std::string& name() const;
  std::string target() const;  ///< of the .target directive, e.g. "sm_90a"
  std::vector<std::string> kernels() const;
  std::vector<Parameter> params(std::string_view kernel) const;
  /// Static shared memory of a kernel, in bytes.
  std::size_t static_smem_bytes(std::string_view kernel) const;
  /// Address of a module-scope .global or .const variable in `memory` (allocated there on first use); Error
  /// if there is none.
  std::uint64_t variable(GlobalMemory& memory, std::string_view name) const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

struct Launch {
  std::string kernel;  ///< may be empty when the module has only one
  Dim3 grid, block, cluster;
  std::uint32_t dynamic_smem_bytes = 0;
  /// One entry per parameter, in order, each exactly as long as the parameter.
  std::vector<std::vector<std::byte>> args;
  Policy policy = Policy::eager;
  std::uint64_t seed = 0;
  bool findings = true;                                       ///< false: only run (about twice as fast)
  std::uint64_t instruction_budget = std::uint64_t{1} << 36;  ///< warp-instructions of the whole grid
  int host_threads = 0;                                       ///< 0: as many as the host has
  int max_findings = 100;
  bool stop_at_finding = false;  ///< the first finding ends the launch
  std::uint32_t num_sms = 132;
  /// Begins while the launch before it runs: a thread that touches global memory waits (griddepcontrol.wait)
  /// first, and a block before it lets the next launch begin or ends.
  bool programmatic = false;
  /// What the launch before does not write, [begin, end) each: may be read before the wait. Or nothing of
  /// what this one touches: then only the end of a block has to come after it.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> early_reads = {};
  bool touches_early = false;
};

/// Runs one grid to its end. Throws Error for an illegal launch (unknown kernel, wrong arguments, too much
/// shared memory); everything the kernel itself does wrong is in the report.
Report launch(GlobalMemory& memory, const Module& module, const Launch& launch);

}  // namespace kiln::emulator
