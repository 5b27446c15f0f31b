// The state of a running grid: waves with their registers, workgroups with their LDS, and the memory
// operations that are under way. Internal.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <kiln/emulator/amdgcn.hpp>
#include "emulator/amdgcn/load/isa.hpp"
#include "emulator/amdgcn/memory/global_races.hpp"
#include "emulator/amdgcn/memory/lds.hpp"
#include "emulator/amdgcn/memory/memory.hpp"
#include "emulator/report/mistakes.hpp"

namespace kiln::emulator::amdgcn {

struct Workgroup;
struct Grid;

/// One 32-bit value per lane.
struct alignas(64) Lanes {
  std::uint32_t l[kLanes];
};
/// A source operand as the lanes see it, and in which of them it is defined.
struct View {
  const std::uint32_t* l;
  std::uint64_t defined;
  std::uint32_t operator[](int lane) const { return l[lane]; }
};

/// A memory instruction under way. Its operands were read when it was issued; `inst->complete` applies its
/// effect. It leaves its wave's queues when a wait guarantees that it is over, which may be later than
/// `done`.
struct Pending {
  const Inst* inst = nullptr;
  bool done = false;
  bool vm = false, lgkm = false;  ///< the counters whose wait it needs
  bool lds_lanes = false;         ///< touches LDS (for the race check)
  bool lds_write = false;
  bool global_write = false;  ///< writes global memory, in epoch `epoch` of its wave (global_races.hpp)
  std::uint32_t epoch = 0;
  std::uint64_t exec = 0;                  ///< lanes that take part
  std::uint64_t zero = 0;                  ///< lanes outside of their buffer: read 0, write nothing
  std::uint64_t sequence = 0;              ///< position among the wave's operations
  std::uint64_t clock = 0;                 ///< of its wave when it was issued (Wave::clocks)
  std::uint8_t partial = 0;                ///< leading dwords inside the buffer, per wave, when not all are
  RegRange dst;                            ///< registers written at completion
  std::uint64_t defined[4] = {};           ///< of the stored values, per dword
  std::uint64_t address[kLanes] = {};      ///< global address, or LDS byte offset
  std::uint32_t lds_address[kLanes] = {};  ///< destination of a DMA
  std::uint8_t dwords_in_range[kLanes] = {};
  Lanes data[4];  ///< stored values; compare values in the upper half of a cmpswap
};

struct Wave {
  Wave(Workgroup& group, int index);

  Workgroup& wg;
  Grid& grid;
  const int index;
  int pc = 0;  ///< index of the next instruction
  bool scc = false, ended = false, at_barrier = false;
  std::uint32_t s[kScalarRegisters + 16] = {};
  std::uint64_t s_defined[3] = {};  ///< one bit per scalar register
  std::vector<Lanes> v;             ///< VGPRs, then AGPRs from kAccBase on
  std::uint64_t defined[kVectorRegisters] = {};
  std::uint32_t mode = 0x2f0;  ///< the MODE hardware register: round to nearest even, denormals on
  std::uint32_t barriers = 0;  ///< barriers passed: the wave's epoch in LDS
  WaveClock clock;             ///< of global memory
  std::uint64_t executed = 0, matrix_executed = 0;  ///< instructions, and MFMA among them
  std::vector<std::byte>
      scratch;  ///< private memory, swizzled as the hardware does: dword d of lane l at (d*64+l)*4

  // Memory under way, oldest first, until a wait covers it.
  std::deque<Pending*> vm, lgkm;
  std::uint8_t busy_vm[kScalarRegisters + kVectorRegisters] = {};
  std::uint8_t busy_lgkm[kScalarRegisters + kVectorRegisters] = {};
  std::uint64_t issued = 0;
  std::vector<std::unique_ptr<Pending>> pool;
  std::vector<Pending*> free_ops;
  std::mt19937_64 random;

  std::uint64_t exec() const { return s[kExec] | std::uint64_t{s[kExec + 1]} << 32; }
  std::uint64_t s64(int reg) const { return s[reg] | std::uint64_t{s[reg + 1]} << 32; }
  void set_s(int reg, std::uint32_t value) {
    s[reg] = value;
    s_defined[reg >> 6] |= std::uint64_t{1} << (reg & 63);
  }
  void set_s64(int reg, std::uint64_t value) {
    set_s(reg, static_cast<std::uint32_t>(value));
    set_s(reg + 1, static_cast<std::uint32_t>(value >> 32));
  }
  /// Instructions executed, an MFMA counted as 16: for the length of a picture's bars (trace.hpp).
  std::uint64_t clocks() const { return executed + 15 * matrix_executed; }
  bool s_is_defined(int reg) const { return s_defined[reg >> 6] >> (reg & 63) & 1; }

  // Scalar operands.
  std::uint32_t scalar32(const Operand& o) const;
  std::uint64_t scalar64(const Operand& o) const;
  void set_scalar32(const Operand& o, std::uint32_t value);
  void set_scalar64(const Operand& o, std::uint64_t value);
  bool scalar_defined(const Operand& o) const;

  // Vector operands: source `i` of the instruction with modifiers, DPP and SDWA applied; `buffer` is used
  // when the register cannot be read in place. `dword` picks a register of a wide operand.
  View source(const Inst& in, int i, Lanes& buffer, int dword = 0) const;
  View raw(const Operand& o, int dword, Lanes& buffer) const;
  /// Writes operand `i` under EXEC (and the DPP masks, SDWA destination selection).
  void put(const Inst& in, int i, const Lanes& value, std::uint64_t value_defined, int dword = 0);
  /// As put, after the output modifiers (omod, clamp) of an f32 result.
  void put_f32(const Inst& in, int i, Lanes& value, std::uint64_t value_defined, int dword = 0);
  void put_f64(const Inst& in, int i, Lanes& low, Lanes& high, std::uint64_t value_defined);
  void put_mask(const Operand& o, std::uint64_t mask) { set_scalar64(o, mask); }
  std::uint64_t write_mask(const Inst& in) const;

  // Memory under way (waits.cpp).
  Pending& issue(const Inst& in);
  void enqueue(Pending& op);
  void wait(int vmcnt, int lgkmcnt);
  void trace_wait(int vmcnt, int lgkmcnt) const;  ///< what a wait covers, for a picture
  void trace_barrier(bool passed) const;          ///< the wave is at a barrier, or goes on
  void drain();
  void complete_some();     ///< what the random policy does between instructions
  void perform_accesses();  ///< of global memory that later accesses of the block come after
  void finish_op(Pending& op);
  void check_hazards(const Inst& in);
  void report_under_way(const Inst& in, int reg, const char* what);

  // Findings (findings.cpp).
  Site site(const Inst& in, int lane) const;
  void report(const char* kind, const Inst& in, int lane, const std::string& message,
              const Inst* other = nullptr, int other_wave = -1);
  const Inst& current() const;
};

struct Workgroup {
  Workgroup(Grid& grid, Dim3 id);
  Grid& grid;
  Dim3 id;
  Lds lds;
  std::vector<std::unique_ptr<Wave>> waves;
  bool split() const;  ///< its waves may run on different compute units
  void run();
};

/// Counters of one host thread, added up at the end.
struct Tally {
  std::uint64_t by_class[kClasses] = {};
  std::uint64_t lane_instructions = 0;
  std::uint64_t lds_accesses = 0, lds_conflicts = 0;
  std::uint64_t global_accesses = 0, global_sectors = 0, bytes_read = 0, bytes_written = 0, dma_bytes = 0;
  std::uint64_t matrix_flops = 0;
  void add(const Tally& other);
};
Tally& tally();  ///< of this host thread

struct Program;     // decoded code (module.hpp)
struct KernelCode;  // (module.hpp)

inline constexpr std::size_t kDispatchPacketBytes = 64;  ///< before the kernel arguments, at kKernargBase

struct Grid {
  const Program& program;
  const Launch& launch;
  Memory& memory;
  Target target;
  std::string kernel;
  const KernelCode* kernel_code;
  std::size_t lds_bytes, scratch_bytes;
  int entry = 0;
  std::uint64_t budget = 0;
  std::atomic<std::uint64_t> executed{0};
  std::atomic<bool> stop{false};
  std::mutex mutex{};  ///< of what follows
  Mistakes mistakes{static_cast<std::size_t>(std::max(1, launch.max_findings))};
  GlobalRaces races{};
  bool completed = true;
};

}  // namespace kiln::emulator::amdgcn
