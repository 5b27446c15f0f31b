// The decoded form of one kernel: instructions with handlers and operand references, ready for dispatch.
// A register is a row of 32 lanes (a predicate is one 32-bit lane mask); a reference is its byte offset with
// the row's home in the two low bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/ptx/parse/ast.hpp"

namespace kiln::emulator {

struct Warp;
struct Op;
using Handler = void (*)(Warp&, const Op&);
using Ref = std::uint32_t;
enum RefBase : Ref { kRegister = 0, kConstant = 1, kSpecial = 2 };
inline constexpr Ref kNoRef = 0xffffffffu;

/// Kinds of instructions, for the counters.
enum class Kind : std::uint8_t {
  integer,
  floating,
  half,
  conversion,
  predicate,
  move,
  control,
  load_global,
  store_global,
  load_shared,
  store_shared,
  local,
  parameter,
  atomic,
  shuffle,
  barrier,
  mbarrier,
  fence,
  async_copy,
  bulk_copy,
  matrix_load,
  mma,
  wgmma,
  tensor,
  other,
  count
};
const char* name_of(Kind kind);

/// What an instruction does with a register that was never written (see registers.hpp).
enum class Use : std::uint8_t {
  strict,     ///< it matters: an address, a branch, a matrix operand, a store to global memory
  propagate,  ///< the result is as unknown as its operands
  load,       ///< the address matters; the handler knows what was loaded
  store,      ///< the address matters; shared and local memory remember that the value is unknown
  known,      ///< nothing is said
  handled,    ///< the handler tells what is unknown: operands come from other lanes
  select,     ///< op.c chooses between op.a and op.b
  logic_and,  ///< one false operand decides
  logic_or,   ///< one true operand decides
  pack,       ///< op.a and op.b become the halves of a 64-bit register
  unpack,     ///< the halves of op.a become registers
  halves      ///< half by half of op.a, op.b and op.c
};

struct Op {
  Handler run = nullptr;
  Ref d = kNoRef, a = kNoRef, b = kNoRef, c = kNoRef, e = kNoRef;
  Ref predicate = kNoRef;
  bool predicate_negated = false;
  Kind kind = Kind::other;
  Use use = Use::strict;
  bool stamps = false;  ///< has to do with registers of wgmma or tcgen05, which may be under way
  std::uint8_t dsize = 0, asize = 0, bsize = 0, csize = 0;  ///< bytes of a lane; 0: absent
  std::uint8_t width = 0, count = 0;                        ///< memory element bytes, vector length
  std::uint16_t flags = 0;
  std::uint32_t target = 0;  ///< branch target, or start of a list in Program::lists
  std::uint32_t source = 0;  ///< index into Program::sources
  std::int64_t imm = 0;
  const void* aux = nullptr;  ///< scalar function or a table entry owned by the program
};

/// Flag of an atomic whose result no instruction reads: it orders nothing by what it has seen.
inline constexpr unsigned kUnread = 0x4000;

/// A register that an instruction reads or writes; reads come first. `state` counts where registers of a function are:
/// rows in units of 64 bytes, then predicates. Registers may share a row.
struct Touch {
  std::uint32_t state = 0;
  std::uint32_t reg = 0;  ///< of the function; kNoRef: none of the program
  bool write = false;
  bool address = false;  ///< a read inside [ ], or the guard predicate
};

struct FunctionInfo {
  std::uint32_t entry = 0;            ///< first op
  std::uint32_t register_bytes = 0;   ///< window size
  std::uint32_t local_bytes = 0;      ///< per lane: parameters, return values, locals
  std::uint32_t predicates = 0;       ///< Ref of the first predicate; rows lie before
  std::uint32_t state_count = 0;      ///< see Touch
  std::vector<std::uint32_t> states;  ///< by register
  const ptx::Function* ast = nullptr;
  struct Slot {
    std::uint32_t offset = 0, bytes = 0;
  };
  std::vector<Slot> params, returns;  ///< in the frame
};

struct Source {
  const ptx::Instruction* in = nullptr;
};

/// A slot of the constant rows that only a launch can fill.
struct Patch {
  enum class What : std::uint8_t { variable, param } what = What::variable;
  Ref ref = 0;
  std::uint32_t id = 0;      ///< variable index
  std::uint64_t offset = 0;  ///< added to the variable's address; offset in the parameter block
  std::uint8_t bytes = 0;
  bool sign = false;
  std::uint8_t row = 0;  ///< lane size of the row
};

struct Program {
  std::vector<Op> ops;
  std::vector<Ref> lists;
  std::vector<Source> sources;
  std::vector<FunctionInfo> functions;  ///< by index in the module; entry == kNoRef when not decoded
  std::vector<std::uint8_t> constants;
  std::vector<Patch> patches;
  std::vector<std::uint32_t> touch_begin;  ///< per op, into touches
  std::vector<Touch> touches;
  /// Of the kernel, see RegisterLives: states whose registers are surely assigned, and ops (32 lanes each) that have to do
  /// with no others.
  std::vector<bool> assigned_states;
  std::vector<std::uint32_t> assigned_ops;
  std::vector<std::shared_ptr<void>> owned;
  std::vector<std::uint32_t> shared_offset;  ///< by variable; offset in the block's shared memory
  std::uint32_t static_smem = 0;             ///< bytes from kSharedBase on
  std::uint32_t entry_function = 0;
  bool uses_clusters = false;
  bool uses_wgmma = false;
  bool uses_async = false;  ///< copies and products of units beside the threads
  bool uses_tcgen05 = false;
  bool uses_narrow_scopes = false;   ///< strong accesses of cta or cluster scope
  int tcgen05_group = 0;             ///< cta_group of its instructions; 0: none has said
  bool uses_grid_workspace = false;  ///< %envreg1, %envreg2: all blocks wait for each other
  bool uses_reserved_smem = false;   ///< %reserved_smem_offset_1
};

/// Bytes below which the system keeps shared memory for itself: statics start here, so address 0 stays
/// invalid.
inline constexpr std::uint32_t kSharedBase = 1024;
/// What of it cooperative groups may use: %reserved_smem_offset_1 and the bytes from there on, of which the
/// first are zero when a block starts.
inline constexpr std::uint32_t kReservedOffset = 512, kReservedBytes = 288, kReservedZeros = 32;

}  // namespace kiln::emulator
