// What an operand stands for: the row of a register, of a constant, of an address.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {

int Decoder::size_of_register(const Operand& o, int other) const {
  if (o.kind != Operand::Kind::reg) return other;
  return fn->registers[o.id] == Type::pred ? 3 : size_of(fn->registers[o.id]);
}

Alu pick(const Decoder& d, Type t, Alu a16, Alu a32, Alu a64) {
  switch (size_of(t)) {
    case 2:
      return a16;
    case 4:
      return a32;
    case 8:
      return a64;
    default:
      d.unsupported();
  }
}

Ref Decoder::dst(const Operand& o, int size) {
  if (o.kind == Operand::Kind::sink) return scratch_;
  if (o.kind != Operand::Kind::reg) fail("expected a destination register in");
  const int actual = size_of_register(o, 0);
  if (size != 0 && actual != size) fail("register of the wrong size in");
  return register_rows_[o.id];
}

std::array<Ref, 2> Decoder::halves(const Operand& o) {
  if (o.kind != Operand::Kind::reg || fn->registers[o.id] != Type::b128)
    fail("expected a register of 128 bits in");
  return {register_rows_[o.id], static_cast<Ref>(register_rows_[o.id] + kHalfRow)};
}

Ref Decoder::constant(std::uint64_t value, int size) {
  if (size < 1 || size > 8) fail("unsupported operand size in");
  if (size == 3) {
    const std::uint32_t mask = value != 0 ? 0xffffffffu : 0;
    const auto [it, fresh] = constants_[3].try_emplace(mask, 0);
    if (fresh) {
      it->second = static_cast<Ref>(program.constants.size()) | kConstant;
      program.constants.resize(program.constants.size() + 64);
      std::memcpy(program.constants.data() + (it->second & ~3u), &mask, 4);
    }
    return it->second;
  }
  if (size < 8) value &= (std::uint64_t{1} << (8 * size)) - 1;
  const auto [it, fresh] = constants_[size].try_emplace(value, 0);
  if (fresh) {
    const std::size_t at = program.constants.size();
    it->second = static_cast<Ref>(at) | kConstant;
    program.constants.resize(at + round_up(std::size_t{32} * static_cast<std::size_t>(size), 64));
    for (std::size_t l = 0; l < 32; ++l)
      std::memcpy(program.constants.data() + at + l * static_cast<std::size_t>(size), &value,
                  static_cast<std::size_t>(size));
  }
  return it->second;
}

Ref Decoder::register_row(const Operand& o, int size) {
  const int actual = size_of_register(o, 0);
  if (actual != size) {
    const bool wider = actual > size && size != 3 && actual != 3 && size < 4;
    fail("operand '" + std::string(o.text) +
         (wider ? "' is wider than the type of" : "' has the wrong size in"));
  }
  if (o.negated) fail("negated operand in");
  return register_rows_[o.id];
}

/// A floating constant in the type of the instruction.
Ref Decoder::floating_constant(const Operand& o, int size) {
  if (o.kind == Operand::Kind::f32 && size == 8)
    return constant(std::bit_cast<std::uint64_t>(
                        static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(o.value)))),
                    8);
  if (o.kind == Operand::Kind::f64 && size == 4)
    return constant(std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(o.value))), 4);
  return constant(static_cast<std::uint64_t>(o.value), size);
}

/// The address of a variable of global or constant memory, which the launch puts in.
Ref Decoder::variable_address(std::uint32_t id, std::uint64_t offset, int size) {
  if (size != 8) fail("a global address needs 64 bits in");
  const Ref row = constant(0x5555000000000000ull + id * 0x100000000ull + (offset & 0xffffffffu), 8);
  if (variable_rows_.try_emplace(row, row).second) {
    Patch p;
    p.ref = row;
    p.id = id;
    p.offset = offset;
    p.bytes = p.row = 8;
    program.patches.push_back(p);
  }
  return row;
}

/// Where a parameter of the kernel is among them.
std::size_t Decoder::param_offset(std::uint32_t id) const {
  std::size_t at = 0;
  for (const std::uint32_t p : module.functions[kernel_].params) {
    const Variable& v = module.variables[p];
    at = round_up(at, std::max<std::size_t>(1, v.align));
    if (p == id) break;
    at += v.bytes;
  }
  return at;
}

Ref Decoder::symbol_address(const Operand& o, int size) {
  const auto offset = static_cast<std::uint64_t>(o.value);
  switch (module.variables[o.id].space) {
    case Space::shared:
      return constant(program.shared_offset[o.id] + offset, size);
    case Space::local:
      return frame_address(o.id, o.value, size);
    case Space::param:
      if (!is_kernel_param(o.id)) return frame_address(o.id, o.value, size);
      return constant(param_offset(o.id) + offset, size);
    default:
      return variable_address(o.id, offset, size);
  }
}

Ref Decoder::src(const Operand& o, int size) {
  switch (o.kind) {
    case Operand::Kind::reg:
      return register_row(o, size);
    case Operand::Kind::integer:
      return constant(static_cast<std::uint64_t>(o.value), size);
    case Operand::Kind::f32:
    case Operand::Kind::f64:
      return floating_constant(o, size);
    case Operand::Kind::special:
      return special(o.text, size);
    case Operand::Kind::symbol:
      return symbol_address(o, size);
    case Operand::Kind::function:
      return constant(resolve(o.id) + 1, size);
    default:
      fail("unexpected operand in");
  }
}

bool Decoder::is_kernel_param(std::uint32_t variable) const {
  const auto& p = module.functions[kernel_].params;
  return std::find(p.begin(), p.end(), variable) != p.end();
}

Ref Decoder::param_row(const Variable& v, std::uint32_t id, std::int64_t offset, int bytes, bool sign,
                       int row) {
  Operand o;
  o.kind = Operand::Kind::symbol;
  o.id = id;
  (void)v;
  const Ref at = src(o, 8);
  std::uint64_t base = 0;
  std::memcpy(&base, program.constants.data() + (at & ~3u), 8);
  Patch p;
  p.what = Patch::What::param;
  p.offset = base + static_cast<std::uint64_t>(offset);
  p.bytes = static_cast<std::uint8_t>(bytes);
  p.sign = sign;
  p.row = static_cast<std::uint8_t>(row);
  for (const Patch& known : program.patches)
    if (known.what == p.what && known.offset == p.offset && known.bytes == p.bytes && known.sign == p.sign &&
        known.row == p.row)
      return known.ref;
  p.ref = static_cast<Ref>(program.constants.size()) | kConstant;
  program.constants.resize(program.constants.size() +
                           round_up(std::size_t{32} * static_cast<std::size_t>(row), 64));
  program.patches.push_back(p);
  return p.ref;
}

std::uint32_t Decoder::list(const std::vector<Ref>& refs) {
  const auto at = static_cast<std::uint32_t>(program.lists.size());
  program.lists.insert(program.lists.end(), refs.begin(), refs.end());
  return at;
}

Space Decoder::space_of(std::string_view& matched) const {
  for (const auto m : in->modifiers) {
    matched = m;
    if (m == "global") return Space::global;
    if (m == "shared" || m == "shared::cta" || m == "shared::cluster") return Space::shared;
    if (m == "local") return Space::local;
    if (m == "const") return Space::constant;
    if (m == "param" || m == "param::entry" || m == "param::func") return Space::param;
  }
  matched = {};
  return Space::generic;
}

Decoder::Address Decoder::address(const Operand& o, Space space) {
  if (o.kind != Operand::Kind::address) fail("expected an address in");
  const Operand& base = o.items[0];
  if (base.kind == Operand::Kind::reg) {
    const int size = size_of_register(base, 0);
    if (size != 4 && size != 8) fail("an address register must have 32 or 64 bits in");
    if (size == 4 && (space == Space::global || space == Space::generic)) fail("a 32-bit address in");
    return {src(base, size), size, o.value};
  }
  return {src(base, 8), 8, o.value};
}

}  // namespace kiln::emulator::ptx
