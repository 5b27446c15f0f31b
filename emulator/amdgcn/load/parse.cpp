// One line of AMDGPU assembly -> Inst: operands, modifiers, register ranges.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <kiln/emulator/emulator.hpp>
#include "base/decimal.hpp"
#include "emulator/amdgcn/load/isa.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::amdgcn {
namespace {

struct Tokens {
  std::string_view mnemonic;
  std::vector<std::string_view> operands, modifiers;
};

/// Splits at commas and blanks that stand outside of brackets and quotes; what a blank separates from the
/// last operand is a modifier.
Tokens tokenize(std::string_view text) {
  Tokens out;
  std::size_t i = 0;
  const auto blank = [&](std::size_t k) { return text[k] == ' ' || text[k] == '\t'; };
  while (i < text.size() && !blank(i)) ++i;
  out.mnemonic = text.substr(0, i);
  bool after_comma = true;
  while (i < text.size()) {
    if (blank(i) || text[i] == '&') {
      ++i;
      continue;
    }
    if (text[i] == ',') {
      after_comma = true;
      ++i;
      continue;
    }
    const std::size_t begin = i;
    int depth = 0;
    bool quoted = false;
    for (; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '"') quoted = !quoted;
      if (quoted) continue;
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      if (depth == 0 && (c == ',' || blank(i))) break;
    }
    (after_comma ? out.operands : out.modifiers).push_back(text.substr(begin, i - begin));
    after_comma = false;
  }
  return out;
}

bool starts(std::string_view s, std::string_view prefix) {
  return s.substr(0, prefix.size()) == prefix;
}

std::optional<std::int64_t> integer(std::string_view s) {
  const bool negative = !s.empty() && s[0] == '-';
  std::string digits(s.substr(negative ? 1 : 0));
  if (digits.empty() || !is_ascii_digit(digits[0])) return std::nullopt;
  char* end = nullptr;
  const auto value = static_cast<std::int64_t>(std::strtoull(digits.c_str(), &end, 0));
  if (*end != '\0') return std::nullopt;
  return negative ? -value : value;
}

[[noreturn]] void fail(std::string_view text, std::string_view what) {
  throw Error("cannot read '" + std::string(what) + "' in instruction '" + std::string(text) + "'");
}

struct Named {
  std::string_view name;
  Operand::Kind kind;
  int reg, dwords;
};
using K = Operand::Kind;
constexpr Named kNamed[] = {
    {"vcc", K::sgpr, kVcc, 2},
    {"vcc_lo", K::sgpr, kVcc, 1},
    {"vcc_hi", K::sgpr, kVcc + 1, 1},
    {"exec", K::sgpr, kExec, 2},
    {"exec_lo", K::sgpr, kExec, 1},
    {"exec_hi", K::sgpr, kExec + 1, 1},
    {"m0", K::sgpr, kM0, 1},
    {"flat_scratch", K::sgpr, kFlatScratch, 2},
    {"flat_scratch_lo", K::sgpr, kFlatScratch, 1},
    {"flat_scratch_hi", K::sgpr, kFlatScratch + 1, 1},
    {"xnack_mask", K::sgpr, 104, 2},
    {"xnack_mask_lo", K::sgpr, 104, 1},
    {"xnack_mask_hi", K::sgpr, 105, 1},
    {"scc", K::scc, 0, 1},
    {"src_scc", K::scc, 0, 1},
    {"vccz", K::vccz, 0, 1},
    {"src_vccz", K::vccz, 0, 1},
    {"execz", K::execz, 0, 1},
    {"src_execz", K::execz, 0, 1},
    {"src_shared_base", K::shared_base, 0, 2},
    {"src_shared_limit", K::shared_limit, 0, 2},
    {"src_private_base", K::private_base, 0, 2},
    {"src_private_limit", K::private_limit, 0, 2},
    {"off", K::off, 0, 0},
};

/// v7, v[2:3], a[0:15], s4, s[0:1]; false when it is none of these.
bool parse_register(std::string_view s, Operand& o) {
  const char kind = s.empty() ? '\0' : s[0];
  if ((kind != 'v' && kind != 'a' && kind != 's') || s.size() < 2) return false;
  int first = 0, last = 0;
  if (s[1] == '[') {
    const std::size_t colon = s.find(':');
    if (s.back() != ']') return false;
    const auto a = integer(s.substr(2, (colon == std::string_view::npos ? s.size() - 1 : colon) - 2));
    const auto b = colon == std::string_view::npos ? a : integer(s.substr(colon + 1, s.size() - colon - 2));
    if (!a || !b || *b < *a) return false;
    first = static_cast<int>(*a);
    last = static_cast<int>(*b);
  } else {
    const auto a = integer(s.substr(1));
    if (!a) return false;
    first = last = static_cast<int>(*a);
  }
  if (first < 0 || last >= (kind == 's' ? kFlatScratch : 256)) return false;
  o.kind = kind == 's' ? K::sgpr : K::vgpr;
  o.reg = static_cast<std::uint16_t>(first + (kind == 'a' ? kAccBase : 0));
  o.dwords = static_cast<std::uint8_t>(last - first + 1);
  return true;
}

/// A number, as the bits that an operand of type `num` reads.
bool parse_literal(std::string_view s, Num num, Operand& o) {
  o.kind = K::literal;
  if (const auto value = integer(s)) {
    const bool hex = s.find('x') != std::string_view::npos;
    auto bits = static_cast<std::uint64_t>(*value);
    if (hex && num == Num::f64) bits <<= 32;
    if (hex && num == Num::i64 && bits <= 0xffffffffU)
      bits = static_cast<std::uint64_t>(static_cast<std::int32_t>(bits));
    if (hex && num == Num::pkf32) bits |= bits << 32;
    o.literal = bits;
    return true;
  }
  const auto [value, length] = read_decimal(s);
  if (length == 0 || length != s.size()) return false;
  switch (num) {
    case Num::f64:  // of any 64-bit operand, "s_mov_b64 s[2:3], 2.0" included
    case Num::b64:
    case Num::i64:
      o.literal = std::bit_cast<std::uint64_t>(value);
      break;
    case Num::f16:
    case Num::pk16:
      o.literal = from_double(FloatFormat::f16, value);
      break;
    default:
      o.literal = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
  if (num == Num::pkf32) o.literal |= o.literal << 32;
  return true;
}

Operand parse_operand(std::string_view s, Num num, std::string_view text) {
  Operand o;
  const std::string_view whole = s;
  const auto unwrap = [&](std::string_view prefix, bool& flag) {
    if (!starts(s, prefix) || s.back() != ')') return;
    flag = true;
    s = s.substr(prefix.size(), s.size() - prefix.size() - 1);
  };
  unwrap("sext(", o.sext);
  unwrap("neg(", o.neg);
  if (s.size() > 1 && s[0] == '-' && !is_ascii_digit(s[1])) {
    o.neg = true;
    s.remove_prefix(1);
  }
  unwrap("abs(", o.abs);
  bool literal = false;  // lit(x): x as a literal although an inline constant would do
  unwrap("lit(", literal);
  if (s.size() > 2 && s.front() == '|' && s.back() == '|') {
    o.abs = true;
    s = s.substr(1, s.size() - 2);
  }
  if (s.empty()) fail(text, whole);
  for (const Named& n : kNamed) {
    if (s != n.name) continue;
    o.kind = n.kind;
    o.reg = static_cast<std::uint16_t>(n.reg);
    o.dwords = static_cast<std::uint8_t>(n.dwords);
    return o;
  }
  if (parse_register(s, o) || parse_literal(s, num, o)) return o;
  fail(text, whole);
}

std::uint8_t bit_list(std::string_view list) {
  std::uint8_t bits = 0;
  int position = 0;
  for (const char c : list) {
    if (c == '0' || c == '1') bits = static_cast<std::uint8_t>(bits | (c - '0') << position++);
  }
  return bits;
}

Select selection(std::string_view s) {
  if (s == "BYTE_0") return Select::byte0;
  if (s == "BYTE_1") return Select::byte1;
  if (s == "BYTE_2") return Select::byte2;
  if (s == "BYTE_3") return Select::byte3;
  if (s == "WORD_0") return Select::word0;
  if (s == "WORD_1") return Select::word1;
  return Select::dword;
}

bool dpp_control(std::string_view name, std::string_view value, Modifiers& m) {
  int ctrl = -1;
  const std::int64_t given = integer(value).value_or(0);
  if (given < 0 || given > (name == "row_bcast" ? 31 : 15)) return false;
  const int n = static_cast<int>(given);
  if (name == "quad_perm") {
    ctrl = 0;
    int position = 0;
    for (const char c : value) {
      if (c >= '0' && c <= '3') ctrl |= (c - '0') << 2 * position++;
    }
  } else if (name == "row_shl")
    ctrl = 0x100 + n;
  else if (name == "row_shr")
    ctrl = 0x110 + n;
  else if (name == "row_ror")
    ctrl = 0x120 + n;
  else if (name == "wave_shl")
    ctrl = 0x130;
  else if (name == "wave_rol")
    ctrl = 0x134;
  else if (name == "wave_shr")
    ctrl = 0x138;
  else if (name == "wave_ror")
    ctrl = 0x13c;
  else if (name == "row_mirror")
    ctrl = 0x140;
  else if (name == "row_half_mirror")
    ctrl = 0x141;
  else if (name == "row_bcast")
    ctrl = n == 31 ? 0x143 : 0x142;
  else if (name == "row_newbcast")
    ctrl = 0x150 + n;
  if (ctrl < 0) return false;
  m.dpp = true;
  m.dpp_ctrl = static_cast<std::uint16_t>(ctrl);
  return true;
}

/// ds_swizzle's offset:swizzle(MODE, ...), as its 16 bits.
std::optional<int> swizzle_offset(std::string_view s) {
  std::vector<std::string> part(1);
  for (const char c : s.substr(std::strlen("swizzle("))) {
    if (c == ',' || c == ')')
      part.emplace_back();
    else if (c != ' ' && c != '"')
      part.back() += c;
  }
  const auto value = [&](std::size_t i) {
    return i < part.size() ? static_cast<int>(integer(part[i]).value_or(0) & 0x3f) : 0;
  };
  if (part[0] == "QUAD_PERM") return 0x8000 | value(1) | value(2) << 2 | value(3) << 4 | value(4) << 6;
  if (part[0] == "SWAP") return 0x1f | value(1) << 10;
  if (part[0] == "REVERSE") return 0x1f | (value(1) - 1) << 10;
  if (part[0] == "BROADCAST") return (0x1f & ~(value(1) - 1)) | value(2) << 5;
  if (part[0] != "BITMASK_PERM" || part.size() < 2 || part[1].size() != 5) return std::nullopt;
  int and_mask = 0, or_mask = 0, xor_mask = 0;
  for (int bit = 0; bit < 5; ++bit) {
    const char c = part[1][static_cast<std::size_t>(4 - bit)];
    if (c == 'p' || c == 'i') and_mask |= 1 << bit;
    if (c == '1') or_mask |= 1 << bit;
    if (c == 'i') xor_mask |= 1 << bit;
  }
  return and_mask | or_mask << 5 | xor_mask << 10;
}

/// A modifier that sets a member: to true, to its number, to its list of bits.
template <typename T>
struct ModifierName {
  std::string_view name;
  T Modifiers::*member;
};
constexpr ModifierName<bool> kFlags[] = {
    {"offen", &Modifiers::offen}, {"idxen", &Modifiers::idxen},          {"lds", &Modifiers::to_lds},
    {"glc", &Modifiers::returns}, {"sc0", &Modifiers::returns},          {"gds", &Modifiers::gds},
    {"clamp", &Modifiers::clamp}, {"bound_ctrl", &Modifiers::bound_ctrl}};
constexpr ModifierName<std::uint8_t> kNumbers[] = {
    {"offset0", &Modifiers::offset0},    {"offset1", &Modifiers::offset1},
    {"cbsz", &Modifiers::cbsz},          {"abid", &Modifiers::abid},
    {"blgp", &Modifiers::blgp},          {"byte_sel", &Modifiers::offset0},
    {"bitop3", &Modifiers::offset0},     {"row_mask", &Modifiers::row_mask},
    {"bank_mask", &Modifiers::bank_mask}};
constexpr ModifierName<std::uint8_t> kBitLists[] = {{"op_sel", &Modifiers::op_sel},
                                                    {"op_sel_hi", &Modifiers::op_sel_hi},
                                                    {"neg_lo", &Modifiers::neg_lo},
                                                    {"neg_hi", &Modifiers::neg_hi},
                                                    {"neg", &Modifiers::neg_lo}};
constexpr ModifierName<Select> kSelections[] = {
    {"dst_sel", &Modifiers::dst_sel}, {"src0_sel", &Modifiers::src0_sel}, {"src1_sel", &Modifiers::src1_sel}};
/// Caches and scopes of accesses: the device has one order of memory.
constexpr std::string_view kWithoutMeaning[] = {"slc", "sc1", "nt", "scc", "fi", "dlc"};

template <typename T, std::size_t N>
T Modifiers::*member_of(const ModifierName<T> (&table)[N], std::string_view name) {
  for (const auto& [known, member] : table) {
    if (known == name) return member;
  }
  return nullptr;
}

int modifier_number(std::string_view value, std::string_view s, std::string_view text) {
  const auto v = integer(value);
  if (!v) fail(text, s);
  return static_cast<int>(*v);
}

int modifier_offset(std::string_view value, std::string_view s, std::string_view text) {
  if (!starts(value, "swizzle(")) return modifier_number(value, s, text);
  const auto v = swizzle_offset(value);
  if (!v) fail(text, s);
  return *v;
}

void parse_modifier(std::string_view s, Inst& inst, std::string_view text) {
  Modifiers& m = inst.mod;
  const std::size_t colon = s.find(':');
  const std::string_view name = s.substr(0, colon),
                         value = colon == std::string_view::npos ? "" : s.substr(colon + 1);
  if (std::find(std::begin(kWithoutMeaning), std::end(kWithoutMeaning), name) != std::end(kWithoutMeaning))
    return;
  if (const auto flag = member_of(kFlags, name)) {
    m.*flag = true;
  } else if (const auto number = member_of(kNumbers, name)) {
    m.*number = static_cast<std::uint8_t>(modifier_number(value, s, text));
  } else if (const auto bits = member_of(kBitLists, name)) {
    m.*bits = bit_list(value);
  } else if (const auto select = member_of(kSelections, name)) {
    m.sdwa = true, m.*select = selection(value);
  } else if (name == "offset") {
    m.offset = modifier_offset(value, s, text);
  } else if (name == "mul") {
    m.omod = modifier_number(value, s, text) == 2 ? 1 : 2;
  } else if (name == "div") {
    m.omod = 3;
  } else if (name == "dst_unused") {
    m.sdwa = true, m.preserve = value == "UNUSED_PRESERVE", m.sext_pad = value == "UNUSED_SEXT";
  } else if (!dpp_control(name, value, m)) {
    fail(text, s);
  }
}

/// hwreg(HW_REG_MODE, 4, 2); only what the device keeps is told apart.
void parse_hwreg(std::string_view s, Modifiers& m, std::string_view text) {
  const std::size_t open = s.find('(');
  std::vector<std::string> part(1);
  for (const char c : s.substr(open + 1)) {
    if (c == ',' || c == ')')
      part.emplace_back();
    else if (c != ' ')
      part.back() += c;
  }
  if (part.empty()) fail(text, s);
  const auto id = integer(part[0]);
  static constexpr std::pair<std::string_view, int> names[] = {
      {"HW_REG_MODE", 1}, {"HW_REG_HW_ID", 4}, {"HW_REG_SH_MEM_BASES", 15}, {"HW_REG_XCC_ID", 20}};
  int number = 63;
  for (const auto& [name, value] : names) number = part[0] == name ? value : number;
  m.hwreg = static_cast<std::uint8_t>(id ? *id : number);
  if (part.size() > 3) {
    m.hwreg_offset = static_cast<std::uint8_t>(integer(part[1]).value_or(0));
    m.hwreg_bits = static_cast<std::uint8_t>(integer(part[2]).value_or(32));
  }
}

void parse_wait(const Tokens& t, Inst& inst, std::string_view text) {
  const auto one = [&](std::string_view s) {
    const std::size_t open = s.find('(');
    if (open == std::string_view::npos) {
      const auto imm = integer(s);
      if (!imm) fail(text, s);
      inst.mod.vmcnt = static_cast<std::uint8_t>((*imm & 15) | (*imm >> 14 & 3) << 4);
      inst.mod.lgkmcnt = static_cast<std::uint8_t>(*imm >> 8 & 15);
      return;
    }
    const auto n = integer(s.substr(open + 1, s.size() - open - 2));
    const std::string_view counter = s.substr(0, open);
    if (!n) fail(text, s);
    if (starts(counter, "vmcnt"))
      inst.mod.vmcnt = static_cast<std::uint8_t>(std::min<std::int64_t>(63, *n));
    else if (starts(counter, "lgkmcnt"))
      inst.mod.lgkmcnt = static_cast<std::uint8_t>(std::min<std::int64_t>(15, *n));
    else if (!starts(counter, "expcnt"))
      fail(text, s);
  };
  for (const auto s : t.operands) one(s);
  for (const auto s : t.modifiers) one(s);
}

void add_range(std::array<RegRange, 6>& ranges, std::uint8_t& count, const Operand& o) {
  if (count >= ranges.size() || (o.kind != K::sgpr && o.kind != K::vgpr)) return;
  const int first = o.kind == K::vgpr ? kScalarRegisters + o.reg : o.reg;
  ranges[count++] = {static_cast<std::uint16_t>(first), o.dwords};
}

std::string_view strip_encoding(std::string_view mnemonic) {
  for (const std::string_view suffix : {"_e64_dpp", "_e32", "_e64", "_sdwa", "_dpp"}) {
    if (mnemonic.size() > suffix.size() && mnemonic.ends_with(suffix))
      return mnemonic.substr(0, mnemonic.size() - suffix.size());
  }
  return mnemonic;
}

bool is_atomic(Class c) {
  return c == Class::vmem_atomic;
}

}  // namespace

/// Registers that the operands read and write.
void note_registers(const OpInfo& op, std::string_view mnemonic, Inst& inst) {
  // Global and flat atomics return only with glc/sc0; DS ones say so in their name, which the table knows.
  int dsts = op.dsts;
  if (is_atomic(inst.cls)) dsts = inst.mod.returns ? 1 : 0;
  if (inst.mod.to_lds) {
    dsts = 0;
    inst.cls = Class::dma;
  }
  for (int i = 0; i < inst.operands; ++i) {
    const bool written = i < dsts;
    const Operand& operand = inst.ops[static_cast<std::size_t>(i)];
    if (written) add_range(inst.writes, inst.write_count, operand);
    if (!written || op.reads_dst || starts(mnemonic, "buffer_atomic"))
      add_range(inst.reads, inst.read_count, operand);
  }
}

void parse_instruction(std::string_view text, Inst& inst, std::string& label) {
  label.clear();
  const Tokens t = tokenize(text);
  const std::string_view mnemonic = strip_encoding(t.mnemonic);
  const OpInfo* op = find_op(mnemonic);
  if (op == nullptr) return;  // exec stays null
  inst.exec = op->exec;
  inst.complete = op->complete;
  inst.cls = op->cls;
  inst.num = op->num;
  inst.bytes = op->bytes;
  inst.sub = op->sub;
  if (starts(mnemonic, "v_fma_mix") || starts(mnemonic, "v_mad_mix")) inst.mod.op_sel_hi = 0;
  if (inst.cls == Class::wait && mnemonic == "s_waitcnt") return parse_wait(t, inst, text);
  if (inst.cls == Class::message) return;  // s_sendmsg, s_nop, s_setprio, ...: nothing in them matters here
  for (const auto m : t.modifiers) parse_modifier(m, inst, text);
  for (const auto s : t.operands) {
    if (inst.operands == kMaxOperands) fail(text, s);
    if (starts(s, "hwreg(")) {
      parse_hwreg(s, inst.mod, text);
      continue;
    }
    if (inst.cls == Class::branch && (is_ascii_letter(s[0]) || s[0] == '.' || s[0] == '_')) {
      Operand o;
      if (!parse_register(s, o)) {
        label = s;
        continue;
      }
    }
    inst.ops[inst.operands++] = parse_operand(s, inst.num, text);
  }
  note_registers(*op, t.mnemonic, inst);
}

}  // namespace kiln::emulator::amdgcn
