// Turns parsed PTX into a Program. One decode function per opcode, in tables by instruction group.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/machine/program.hpp"
#include "emulator/ptx/alu/alu.hpp"
#include "emulator/ptx/decode/register_use.hpp"
#include "emulator/ptx/parse/ast.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::ptx {

/// Decodes a kernel and every function it may call. Throws Error with the line for what it does not know.
Program decode(const Module& module, std::uint32_t kernel);

/// A scalar instruction: one lane's operands (zero-extended) to its result.
using Scalar = std::uint64_t (*)(const Op& op, std::uint64_t a, std::uint64_t b, std::uint64_t c);

class Decoder {
 public:
  Decoder(const Module& m, std::uint32_t kernel_index);
  Program take();

  const Module& module;
  Program program;
  std::vector<std::vector<std::uint32_t>*> pending_tables;  ///< statements, to become op indices
  const Function* fn = nullptr;
  const Instruction* in = nullptr;

  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void unsupported() const { fail("unsupported instruction"); }
  const Operand& operand(std::size_t i) const;
  std::size_t operands() const { return in->operands.size(); }
  /// The instruction's type modifiers, in order.
  std::vector<Type> types() const;
  Type type(std::size_t i = 0) const;
  Type last_type() const;
  /// A modifier among `known`; index, or -1.
  int which(std::initializer_list<std::string_view> known) const;
  bool has(std::string_view m) const { return in->has(m); }

  /// Row of a destination register; `size` 0 accepts any, else its lane size must be it. Sinks give a scratch
  /// row.
  Ref dst(const Operand& o, int size);
  /// Row of a source: register, special register, constant or address of a symbol. 3: predicate.
  Ref src(const Operand& o, int size);
  /// Lane size of a register operand (3 for predicates), or `other` for anything else.
  int size_of_register(const Operand& o, int other) const;
  /// Rows of the halves of a b128 register, the lower one first; each is like a 64-bit register.
  std::array<Ref, 2> halves(const Operand& o);
  Ref constant(std::uint64_t value, int size);
  Ref special(std::string_view name, int size);
  /// Splits a vector operand (or a single one) into rows appended to Program::lists; returns where they
  /// start.
  std::uint32_t list(const std::vector<Ref>& refs);
  /// base + offset of an address operand: `ref` is a 4- or 8-byte row.
  struct Address {
    Ref ref;
    int size;
    std::int64_t offset;
  };
  Address address(const Operand& o, Space space);
  Space space_of(std::string_view& matched) const;

  Op& emit(Handler run, Kind kind);
  Op& emit_alu(Alu op, Kind kind, Ref d, Ref a, Ref b = kNoRef, Ref c = kNoRef);
  /// Scalar fallback; sizes of rows in bytes (3: predicate, 0: absent).
  Op& emit_scalar(Scalar f, Kind kind, Ref d, int ds, Ref a, int as, Ref b = kNoRef, int bs = 0,
                  Ref c = kNoRef, int cs = 0);
  /// Notes which registers the instruction just decoded, steps `first` and on, reads and writes.
  void touch_operands(std::size_t first);
  /// Notes that the op just emitted reads or writes a register; with it the handler sets `touched`.
  void touch(std::uint32_t reg, bool write, bool address = false);
  /// Loads (or stores) a register from (to) `offset` of the function's frame, and notes that.
  void frame_access(bool load, std::uint32_t reg, std::uint32_t offset);
  /// The function that a name stands for.
  std::uint32_t resolve(std::uint32_t function) const;
  /// Offset in the frame of the `index`-th value that a call passes without a .param variable.
  std::uint32_t call_slot(std::size_t index) const {
    return call_slots_ + static_cast<std::uint32_t>(index) * kCallSlot;
  }
  static constexpr std::uint32_t kCallSlot = 16;
  bool touched = false;  ///< the instruction's handlers were told what they read and write

  std::uint32_t local_offset(std::uint32_t variable) const;
  std::uint32_t label_pc_patch(std::uint32_t statement);  ///< registers a branch to be patched

  template <class T>
  const T* own(T value) {
    auto p = std::make_shared<T>(std::move(value));
    const T* raw = p.get();
    program.owned.push_back(std::move(p));
    return raw;
  }

 private:
  void layout_shared();
  void repeat_reads(std::size_t first);
  void decode_function(std::uint32_t index);
  void layout_registers(FunctionInfo& info);
  void share_rows(const RegisterLives& r, std::size_t& at);
  void name_states(const std::vector<bool>& assigned, FunctionInfo& info);
  void layout_frame(std::uint32_t index, FunctionInfo& info);
  void decode_body();
  void find_frame_addresses();
  void emit_prologue();
  Ref register_row(const Operand& o, int size);
  Ref floating_constant(const Operand& o, int size);
  Ref symbol_address(const Operand& o, int size);
  Ref variable_address(std::uint32_t id, std::uint64_t offset, int size);
  std::size_t param_offset(std::uint32_t id) const;
  Ref frame_address(std::uint32_t variable, std::int64_t offset, int size);
  /// Rows of addresses in a function's frame, by variable and offset: 8 bytes a lane, then 4.
  std::map<std::pair<std::uint32_t, std::int64_t>, std::array<Ref, 2>> frame_addresses_;
  void decode_instruction();
  std::vector<Ref> register_rows_;
  Ref scratch_ = 0, window_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> local_offset_;  ///< local and param variables of functions
  std::unordered_map<std::uint64_t, Ref> constants_[9];
  std::unordered_map<std::uint64_t, Ref> variable_rows_;
  std::vector<std::uint32_t> statement_pc_;
  std::uint32_t kernel_ = 0, call_slots_ = 0;
  friend struct ParamReader;

 public:
  Ref param_row(const Variable& v, std::uint32_t id, std::int64_t offset, int bytes, bool sign, int row);
  bool is_kernel_param(std::uint32_t variable) const;
};

/// Floating forms of opcodes that integers share.
void float_binary(Decoder& d);
void float_fma(Decoder& d);
void float_div(Decoder& d);
void float_minmax(Decoder& d);
void float_negabs(Decoder& d);
/// st.async and red.async (decode_remote.cpp).
void decode_remote_write(Decoder& d);
/// st.bulk (zero_fill.cpp).
void decode_zero_fill(Decoder& d);
/// Local memory of a lane, at most; makes it at least `bytes` (control.cpp).
inline constexpr std::uint32_t kMaxLocalBytes = 1u << 19;
void grow_local(Warp& w, std::uint32_t bytes);
/// A plain load or store of a row in the frame (memory.cpp).
Op& emit_frame_access(Decoder& d, bool load, Ref row, int size, std::uint32_t offset);
/// cp.async.bulk (decode_bulk.cpp).
void decode_bulk(Decoder& d);
/// The race tracker learns what a wait for all but `keep` groups (-1: for everything) of a unit has covered.
void retire_groups(Warp& w, std::uint32_t unit, std::int64_t keep, const std::uint32_t* committed);
/// Rarer forms of common opcodes (decode_extended.cpp).
void decode_carry(Decoder& d);
bool decode_integer_pairs(Decoder& d);
void decode_setp_lanes(Decoder& d);
void decode_cvt_pack(Decoder& d);
void decode_mad_saturated(Decoder& d);

/// Arithmetic that came with sm_100 under opcodes of old; false: the instruction is none of it (blackwell.cpp).
bool decode_blackwell(Decoder& d);

/// What only orders or hints is done here.
inline void nothing(Warp&, const Op&) {}

inline bool is_signed(Type t) {
  return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64;
}
/// The operation of elements as wide as a type.
Alu pick(const Decoder& d, Type t, Alu a16, Alu a32, Alu a64);

/// bar and barrier (barriers.cpp), mbarrier (mbarriers.cpp).
void decode_bar(Decoder& d);
void decode_mbarrier(Decoder& d);
/// bar.warp.sync (exchange.cpp).
void decode_warp_barrier(Decoder& d);

/// True if all live lanes of `members` are here; else blocks the group until they are.
bool converge(Warp& w, const Op& op, std::uint32_t members);

/// Handler of a call of vprintf: op.a and op.b are the frame offsets of its parameters, op.c of its result.
void run_vprintf(Warp& w, const Op& op);

using DecodeFn = void (*)(Decoder&);
struct DecodeEntry {
  std::string_view opcode;
  DecodeFn decode;
};
std::vector<DecodeEntry> integer_table();
std::vector<DecodeEntry> move_table();
std::vector<DecodeEntry> address_table();
std::vector<DecodeEntry> bits_table();
std::vector<DecodeEntry> float_table();
std::vector<DecodeEntry> convert_table();
std::vector<DecodeEntry> memory_table();
/// Sets Op::stamps of a function's ops, which are the latest.
void mark_stamped(Program& p, const Function& f, const FunctionInfo& info);
/// Notes which of a kernel's ops, the latest, have to do with surely assigned registers only.
void mark_assigned(Program& p, const FunctionInfo& info);
/// Marks the atomics of a function whose result no instruction reads.
void mark_unread(Program& p, const FunctionInfo& info);
std::vector<DecodeEntry> control_table();
std::vector<DecodeEntry> sync_table();
std::vector<DecodeEntry> async_table();
std::vector<DecodeEntry> matrix_table();
std::vector<DecodeEntry> extended_table();
std::vector<DecodeEntry> atomics_table();
std::vector<DecodeEntry> wmma_table();
std::vector<DecodeEntry> remote_table();
std::vector<DecodeEntry> exchange_table();
std::vector<DecodeEntry> video_table();
std::vector<DecodeEntry> tcgen05_table();
std::vector<DecodeEntry> stack_table();
std::vector<DecodeEntry> texture_table();
std::vector<DecodeEntry> surface_table();
std::vector<DecodeEntry> packed_video_table();
std::vector<DecodeEntry> multimem_table();

/// Bytes from the lower half of a 128-bit register to its upper one.
inline constexpr std::uint32_t kHalfRow = 32 * 8;

inline std::size_t round_up(std::size_t v, std::size_t a) {
  return (v + a - 1) / a * a;
}

/// FloatOptions packed into Op::flags, and the format with them.
inline std::uint16_t pack_options(const FloatOptions& o) {
  return static_cast<std::uint16_t>(static_cast<unsigned>(o.rounding) | (o.ftz ? 8u : 0u) |
                                    (o.sat ? 16u : 0u) | (o.satfinite ? 32u : 0u) | (o.relu ? 64u : 0u));
}
inline FloatOptions options_of(const Op& op) {
  FloatOptions o;
  o.rounding = static_cast<Rounding>(op.flags & 7);
  o.ftz = (op.flags & 8) != 0;
  o.sat = (op.flags & 16) != 0;
  o.satfinite = (op.flags & 32) != 0;
  o.relu = (op.flags & 64) != 0;
  return o;
}
inline std::int64_t sign_extend(std::uint64_t v, int bytes) {
  const int shift = 64 - 8 * bytes;
  return static_cast<std::int64_t>(v << shift) >> shift;
}

}  // namespace kiln::emulator::ptx
