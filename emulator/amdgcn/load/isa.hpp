// The decoded form of one CDNA instruction: what the text of the disassembler (or of an assembly file) is
// turned into once, so that execution never looks at text again. Internal.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::emulator::amdgcn {

enum class Target : std::uint8_t { gfx90a, gfx942, gfx950 };

inline constexpr int kLanes = 64;
inline constexpr std::uint64_t kAllLanes = ~std::uint64_t{0};
inline constexpr int kAccBase = 256;  ///< AGPR n is vector register kAccBase + n
/// VGPRs and AGPRs, and room behind them: hand-written code may name a last register where a tuple is meant.
inline constexpr int kVectorRegisters = 512 + 64;
inline constexpr int kFlatScratch = 102, kVcc = 106, kM0 = 124,
                     kExec = 126;  ///< SGPR numbers of the encoding
inline constexpr int kScalarRegisters = 128;

/// How the bits of an operand are read: decides what "1.0", "-1" and a neg modifier mean.
enum class Num : std::uint8_t { b32, f32, f16, b64, i64, f64, pk16, pkf32 };

struct Operand {
  enum class Kind : std::uint8_t {
    none,
    sgpr,
    vgpr,
    literal,
    scc,
    vccz,
    execz,
    shared_base,
    shared_limit,
    private_base,
    private_limit,
    off
  };
  Kind kind = Kind::none;
  bool neg = false, abs = false, sext = false;
  std::uint16_t reg = 0;
  std::uint8_t dwords = 1;
  std::uint64_t literal = 0;
};

/// Byte or word selection of SDWA; `dword` takes the register whole.
enum class Select : std::uint8_t { dword, byte0, byte1, byte2, byte3, word0, word1 };

/// What follows the operands. Fields that an instruction does not have keep these values.
struct Modifiers {
  std::int32_t offset = 0;  ///< of memory instructions, in bytes; simm16 of scalar ones
  std::uint8_t offset0 = 0, offset1 = 0;
  bool offen = false, idxen = false, to_lds = false, returns = false, clamp = false, gds = false;
  std::uint8_t omod = 0;  ///< 0, 1: times 2, 2: times 4, 3: times 1/2
  std::uint8_t op_sel = 0, op_sel_hi = 0xff, neg_lo = 0, neg_hi = 0;
  std::uint8_t cbsz = 0, abid = 0, blgp = 0;
  bool dpp = false, bound_ctrl = false;
  std::uint16_t dpp_ctrl = 0;
  std::uint8_t row_mask = 0xf, bank_mask = 0xf;
  bool sdwa = false, preserve = false, sext_pad = false;
  Select dst_sel = Select::dword, src0_sel = Select::dword, src1_sel = Select::dword;
  std::uint8_t vmcnt = 63, lgkmcnt = 15;  ///< of s_waitcnt
  std::uint8_t hwreg = 0, hwreg_offset = 0, hwreg_bits = 32;
};

/// What an instruction is counted as, and what the scheduler must know of it.
enum class Class : std::uint8_t {
  valu,
  transcendental,
  mfma,
  salu,
  branch,
  smem,
  vmem_load,
  vmem_store,
  vmem_atomic,
  dma,
  lds_read,
  lds_write,
  lds_atomic,
  lds_permute,
  wait,
  barrier,
  message,
  end
};
std::string_view class_name(Class c);
inline constexpr int kClasses = static_cast<int>(Class::end) + 1;

struct Wave;
struct Inst;
struct Pending;
using Exec = void (*)(Wave&, const Inst&);
/// Applies the effect of an outstanding memory instruction (memory -> registers or LDS, registers -> memory).
using Complete = void (*)(Wave&, Pending&);

/// Registers [first, first + count) that an instruction reads or writes; vector ones start at
/// kScalarRegisters.
struct RegRange {
  std::uint16_t first = 0, count = 0;
};

inline constexpr int kMaxOperands = 8;

struct Inst {
  Exec exec = nullptr;  ///< null: an instruction that this device does not know
  Complete complete = nullptr;
  Class cls = Class::valu;
  Num num = Num::b32;
  std::uint8_t operands = 0;
  std::uint8_t size = 4;   ///< encoded bytes
  std::uint8_t bytes = 0;  ///< of memory instructions: per lane (or in all, for scalar loads)
  std::uint8_t sub = 0;    ///< detail of a shared handler: compare condition, index of the matrix shape, ...
  std::int32_t target = -1;   ///< of branches: index of the instruction
  std::uint64_t address = 0;  ///< of the first byte, in the code object
  std::array<Operand, kMaxOperands> ops{};
  Modifiers mod;
  std::array<RegRange, 6> reads{}, writes{};
  std::uint8_t read_count = 0, write_count = 0;
  std::string text;
  const std::string* source_file = nullptr;  ///< from the line table, if the code object has one
  int source_line = 0;
};

/// One entry of the instruction table.
struct OpInfo {
  Exec exec = nullptr;
  Class cls = Class::valu;
  Num num = Num::b32;
  std::uint8_t dsts = 1;   ///< leading operands that are written
  bool reads_dst = false;  ///< the destination is an operand too (fmac, writelane, d16 loads)
  std::uint8_t bytes = 0;
  Complete complete = nullptr;
  std::uint8_t sub = 0;
};

/// The entry of a mnemonic without encoding suffix, or null.
const OpInfo* find_op(std::string_view mnemonic);
/// All mnemonics that the device executes (for tests and documents).
std::vector<std::string_view> known_mnemonics();

/// Parses one line of assembly ("v_add_f32_e32 v0, v1, v2") into `inst`: operands, modifiers, register
/// ranges. Sets exec to null when the mnemonic is unknown; throws Error (text quoted) when an operand cannot
/// be read. `label` is set to the operand of a branch when it is a name, and to "" otherwise.
void parse_instruction(std::string_view text, Inst& inst, std::string& label);

}  // namespace kiln::emulator::amdgcn
