// From source to result: compile, cache, load on a device, launch by the manifest. Knows nothing of tiles or
// swizzles. One build serves machines with and without drivers and compilers: all of them are opened at run
// time, on first use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <kiln/cache.hpp>
#include <kiln/embedded.hpp>
#include <kiln/error.hpp>
#include <kiln/source.hpp>
#include <kiln/types.hpp>

namespace kiln {

enum class LogLevel { error, warn, info, debug };
std::optional<LogLevel> log_level_from(std::string_view text);

/// How the emulated device completes asynchronous work, and what it looks for.
struct EmulatorOptions {
  enum class Policy { eager, lazy, random };
  Policy policy = Policy::eager;
  std::uint64_t seed = 0;  ///< warp order and random completion
  bool findings = true;    ///< look for races, uninitialised reads, ... (slower)
  int max_findings = 20;
  bool stop_at_finding = false;          ///< the first finding ends a launch (PTX)
  int host_threads = 0;                  ///< 0: all cores
  std::uint64_t instruction_budget = 0;  ///< warp instructions of a launch; 0: no limit
  int num_sms = 4;                       ///< multiprocessors it claims to have (persistent grids)
};

struct RuntimeOptions {
  std::string device;  ///< auto | cuda[:n] | hip[:n] | emulated; empty: $KILN_DEVICE, else auto
  std::optional<std::string> cache_dir;  ///< unset: Cache::default_directory(); "": memory only
  EmulatorOptions emulator;
  /// Of the device "emulated", said by name: NVIDIA kernels are compiled to PTX, which it runs, and no further. Takes
  /// half the time; their Binary has no image, registers, spills or stack.
  bool ptx_only = false;
  std::optional<LogLevel> log_level;                      ///< unset: $KILN_LOG, else warn
  std::function<void(LogLevel, const std::string&)> log;  ///< unset: standard error
};

/// A tensor in device memory. Strides in elements, one per dimension; the last dimension must be dense
/// (stride 1).
struct Tensor {
  std::uint64_t address = 0;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;

  /// A dense row-major tensor.
  static Tensor dense(std::uint64_t address, DType dtype, std::vector<std::int64_t> shape);
};

/// One problem. Contiguous operands are [batch, seqlen, heads, depth], ragged ones [total, heads, depth].
/// Paged K and V are [num_pages, page_size, heads_kv, depth], continuous ones [num_blocks, block_rows,
/// heads_kv, depth]: pages of which each sequence has one. Q, O and LSE of both have the ragged form. K and V
/// of a kernel that reads a part of each head row have all of it (Manifest::k_row, v_row) in place of depth.
struct AttentionArgs {
  Tensor q, k, v, o;
  std::optional<Tensor> lse;  ///< f32; [batch, heads_q, seqlen_q], ragged [heads_q, total_q]
  /// Ragged: i32 [batch + 1] on the device, first 0, last the total; and the longest length of each. Paged
  /// and continuous operands have cu_seqlens_q only, and for them max_seqlen_k 0 says: all that the page
  /// table can name.
  std::optional<Tensor> cu_seqlens_q, cu_seqlens_k;
  std::int64_t max_seqlen_q = 0, max_seqlen_k = 0;
  std::optional<double> scale;  ///< softmax scale; unset: the manifest's

  /// Paged: i32 [batch, max_pages], page of each page_size tokens; continuous: [batch, 1]. Entries past the
  /// keys of a sequence are never used.
  std::optional<Tensor> page_table;
  /// i32 [batch], keys of each sequence: paged and continuous; contiguous ones may have it (unset: all rows).
  std::optional<Tensor> seqlens_k;
  /// f32, dense but for the page or batch dimension. k_scale and v_scale by the kernel's granularity:
  /// per_tensor [1], per_head [heads_kv], per_sequence [batch, heads_kv], per_token the operand's shape without depth, n
  /// elements: the operand's shape with depth / n last. q_scale [1], per_sequence [batch, heads_kv]. Where the layout is head_major those per token are
  /// [batch, heads_kv, seqlen], [heads_kv, total] or [num_pages, heads_kv, page_size], and dense in the last
  /// dimension only; kernels that copy them as tiles (tensor_map in the manifest) want the address a multiple
  /// of 16 bytes and the other strides of 4 elements: pad rows of another length.
  std::optional<Tensor> q_scale, k_scale, v_scale;
  /// f32 [2], of a cache of fp4_e2m1: what all of K and all of V is multiplied by beside its scales.
  std::optional<Tensor> kv_factors;
  std::optional<Tensor> sink;  ///< f32 [heads_q]: one more logit in each softmax's denominator
  /// i32 words [batch or 1, heads_q or 1, seqlen_q, ceil(seqlen_k / 32)]: bit j % 32 of word j / 32 of a row
  /// set: key j is visible.
  std::optional<Tensor> mask_bits;
  /// Of a mask whose config leaves sides to the launch (MaskConfig::kAtLaunch): keys before and after the row's own
  /// position, -1: no bound; and the length of chunks, 0: none.
  struct Window {
    std::int64_t left = -1, right = -1, chunk = 0;
    bool operator==(const Window&) const = default;
  } window = {};
  /// i32 [batch], of a mask with left padding: the first key of each sequence that is one. Keys before it are hidden,
  /// and chunks begin with it.
  std::optional<Tensor> first_keys;
  /// i32 [batch], of a decode kernel for parts (part_kernels.hpp): the key position behind the last query row of each
  /// sequence, counted from the first key given.
  std::optional<Tensor> query_ends;
  /// Rotary columns of K, where they have a tensor of their own (Manifest::own_rope): in K's form, with its
  /// pages and rows, and strides of its own.
  std::optional<Tensor> k_rope;
  /// What the score expression names, in the order of Manifest::captured: any strides. An extent is 1, or where the
  /// index is b, h, q or k at least the number of sequences, query heads, query rows or keys. Other indices outside
  /// of an extent read the last element of the dimension.
  std::array<std::optional<Tensor>, 4> captured;
};

/// Memory on the runtime's device; freed with the object. write/read/fill are complete when they return.
class Device;
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::shared_ptr<Device> device, std::size_t bytes, const std::string& name);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceBuffer();

  std::uint64_t address() const { return address_; }
  std::size_t size() const { return bytes_; }
  void write(std::span<const std::byte> data, std::size_t offset = 0);
  void read(std::span<std::byte> data, std::size_t offset = 0) const;
  void fill(std::byte value);

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }
  std::shared_ptr<Device> device_;
  std::uint64_t address_ = 0;
  std::size_t bytes_ = 0;
};

/// What the emulated device saw in one launch.
struct EmulationReport {
  struct Finding {
    std::string kind;     ///< "race", "out_of_bounds", ...
    std::string message;  ///< one readable line with block, warp, lane and the other party
    int ptx_line = 0;
    std::string ptx_text;
    std::string source_file;  ///< NAME.cu
    int source_line = 0;
  };
  std::vector<Finding> findings;
  std::vector<std::pair<std::string, std::uint64_t>> counters;  ///< by name, in a fixed order
  std::string output;                                           ///< what the kernel printed
  bool completed =
      true;  ///< false: stopped by a trap, a deadlock or the instruction budget; results are incomplete
};

/// What the caller promises of the launch before on the stream. On sm_90a decode kernels may begin while that
/// one still runs, and wait for its end before they touch what it may write; all others begin after it.
enum class LaunchBefore {
  any,           ///< nothing: it may write whatever this launch reads
  keeps_tables,  ///< it writes none of this launch's lengths and page tables (seqlens_k, cu_seqlens,
                 ///< page_table, first_keys, query_ends)
  unrelated,  ///< it writes nothing that this launch reads or writes, and reads nothing that this one writes
};

struct LaunchOptions {
  std::uint64_t stream = 0;                   ///< CUstream as an integer; 0: the default stream
  const EmulatorOptions* emulator = nullptr;  ///< instead of RuntimeOptions::emulator
  LaunchBefore before = LaunchBefore::any;
  /// Persistent and stream_k grids: at most so many blocks, which leaves room for another launch beside this
  /// one; 0: as many as the multiprocessors hold. Part of what the bits of a stream_k result depend on.
  int max_blocks = 0;
  /// Ignored by kernels without Manifest::stages. Part of what the bits of a stream_k result depend on.
  Residency residency = Residency::by_work;
};

struct Timing {
  std::vector<double>
      us;  ///< one per timed launch; device events on hardware, wall clock on the emulated device
  double median() const;
  double min() const;
  std::shared_ptr<const EmulationReport> report;  ///< of the last launch; null on hardware
};

/// A kernel loaded on a device. Immutable; launch from any thread. Keeps its device alive.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual const Manifest& manifest() const = 0;
  virtual const Binary& binary() const = 0;

  /// Checks the problem against the manifest. Throws Error (bad_input): one line per violated rule.
  virtual void check(const AttentionArgs& args) const = 0;
  /// check() + launch. Asynchronous on hardware (null result); on the emulated device done on return, with
  /// its report.
  virtual std::shared_ptr<const EmulationReport> launch(const AttentionArgs& args,
                                                        const LaunchOptions& options = {}) = 0;
  /// `warmup` + `iterations` launches on one stream, each of the latter timed; complete on return.
  virtual Timing time(const AttentionArgs& args, int warmup, int iterations,
                      const LaunchOptions& options = {}) = 0;
};

struct DeviceInfo {
  std::string selector;  ///< "cuda:0", "emulated"
  std::string name;      ///< "NVIDIA H200", "emulated"
  std::string
      target;  ///< the best target it runs: "sm_90a"; empty for the emulated device (any NVIDIA target)
  int num_sms = 0;
  std::uint64_t memory_bytes = 0;
};

struct DoctorReport {
  struct Compiler {
    std::string kind;  ///< "nvrtc", "hiprtc", "clang"
    bool found = false;
    std::string path, version;
    std::vector<std::string> targets;  ///< kiln's targets it really compiles (trial compile)
    std::string problem;               ///< when not found or not usable: what and how to get it
  };
  struct Driver {
    std::string kind;  ///< "cuda", "hip"
    bool found = false;
    std::string path, version, problem;
  };
  /// Who makes the kernels of a target; `compiler` is a kind, or empty, and then `problem` says why.
  struct Choice {
    std::string target, compiler, problem;
  };
  std::vector<Compiler> compilers;
  std::vector<Choice> choices;  ///< one per target of kiln
  std::vector<Driver> drivers;
  std::vector<DeviceInfo> devices;
  CacheStats cache;
  std::string kiln_version;
};

/// Owns its device, compilers and cache; nothing is global. Construction opens nothing. Thread-safe.
class Runtime {
 public:
  explicit Runtime(RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Compiled form of `source`, from memory, disk or the compiler. Needs no device.
  /// Throws Error: environment (no compiler), compile (refused; the log is in the message).
  std::shared_ptr<const Binary> compile(const KernelSource& source);
  /// compile() and load on the device; a kernel already loaded is returned as it is.
  /// Throws also Error: environment (no device, or the wrong one for the target), device.
  std::shared_ptr<Kernel> load(const KernelSource& source);
  /// Loads a binary as it is (also one that was changed by hand, or imported); not remembered.
  std::shared_ptr<Kernel> load(std::shared_ptr<const Binary> binary, const Manifest& manifest);

  /// A kernel built into the program: its image where the device takes it, else its source, compiled through
  /// the cache.
  std::shared_ptr<Kernel> load(const EmbeddedKernel& kernel);

  /// Opens the device if need be. Throws Error (environment) when there is none of the kind asked for.
  const DeviceInfo& device();
  DeviceBuffer allocate(std::size_t bytes, const std::string& name = "");
  void synchronize();  ///< waits for all work on the device

  Cache& cache();
  /// What was found on this machine. Never throws for what is missing.
  DoctorReport doctor();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
