// A PTX module as the parser understands it: names resolved to indices, nothing executed or checked for
// meaning yet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::emulator::ptx {

enum class Type : std::uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f64
};
enum class Space : std::uint8_t { reg, global, shared, local, constant, param, generic };

/// Bytes of a value in a register or in memory (pred: 4, the lane mask).
int size_of(Type type);
/// ".u32" -> Type::u32; Type::none for any other text.
Type type_from(std::string_view text);

struct Operand {
  enum class Kind : std::uint8_t {
    none,
    reg,       ///< id: register of the function; value: part of it, see part_selector in parser.cpp
    special,   ///< text: "%tid.x"
    integer,   ///< value
    f32,       ///< value: bits
    f64,       ///< value: bits
    symbol,    ///< id: variable of the module; value: offset
    function,  ///< id: function of the module
    label,     ///< id: statement index once resolved
    table,     ///< id: branch table of the function
    vector,    ///< items; value 1: the last is the predicate of {...}|p
    list,      ///< items: parenthesised, of a call
    address,   ///< items[0] base, value offset; items[1], if there, a vector of coordinates (and items[2],
               ///< offsets)
    sink,      ///< _
  };
  Kind kind = Kind::none;
  bool negated = false;  ///< !p, or -a
  std::uint32_t id = 0;
  std::int64_t value = 0;
  std::string_view text;
  std::vector<Operand> items;  ///< also the second predicate of p|q, in a reg operand
};

struct Instruction {
  std::string_view opcode;
  std::vector<std::string_view> modifiers;  ///< without the leading dot: "global", "shared::cta", "u32"
  bool predicated = false, predicate_negated = false;
  std::uint32_t predicate = 0;
  std::vector<Operand> operands;
  int line = 0;
  int source_file = 0, source_line = 0, source_column = 0;  ///< from .loc
  int caller_file = 0, caller_line = 0, caller_column = 0;  ///< where that was inlined; line 0: not inlined

  bool has(std::string_view modifier) const {
    for (auto m : modifiers)
      if (m == modifier) return true;
    return false;
  }
};

/// A pointer inside an initialiser.
struct Relocation {
  std::size_t offset = 0;
  std::uint32_t symbol = 0;
  bool is_function = false;
  std::int64_t addend = 0;
};

/// References to textures are variables of 64 bits, whose address is a handle.
enum class Opaque : std::uint8_t { none, texture, sampler, surface };

struct Variable {
  std::string name;
  Opaque opaque = Opaque::none;
  Space space = Space::global;
  Type type = Type::b8;
  std::size_t bytes = 0, align = 1;
  bool dynamic = false;  ///< extern __shared__ x[]
  bool is_extern = false;
  std::vector<std::uint8_t> init;
  std::vector<Relocation> relocations;
  int function = -1;  ///< the function that declares it, or -1
  int line = 0;
};

/// A .reg parameter: the register, and the variable of space param in which it travels.
struct RegisterParameter {
  std::uint32_t id = 0, variable = 0;
};

struct Function {
  std::string name;
  bool entry = false, defined = false;
  std::vector<std::uint32_t> params, returns;  ///< variables (space param)
  std::vector<RegisterParameter> register_params, register_returns;
  int alias = -1;  ///< the function that this name stands for (.alias)
  std::vector<Type> registers;
  std::vector<std::string_view> register_names;
  std::vector<Instruction> body;
  std::vector<std::vector<std::uint32_t>> tables;  ///< .branchtargets
  std::uint32_t max_threads[3] = {0, 0, 0};
  std::uint32_t required_threads[3] = {0, 0, 0};
  std::uint32_t required_cluster[3] = {0, 0, 0};
  bool explicit_cluster = false;
  int line = 0;
};

struct Module {
  std::string text;  ///< owns what the views point into
  std::string target;
  int version = 0;  ///< 10 * major + minor
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<std::string> files;  ///< by .file index
};

}  // namespace kiln::emulator::ptx
