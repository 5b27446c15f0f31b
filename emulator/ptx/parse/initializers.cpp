// Initial values of variables: numbers, addresses, fields of samplers.
#include <algorithm>
#include <bit>

#include <kiln/emulator/emulator.hpp>
#include "emulator/ptx/parse/parser.hpp"
#include "emulator/ptx/parse/parser_impl.hpp"

namespace kiln::emulator::ptx {

/// { addr_mode_0 = clamp_to_edge, filter_mode = linear, ... } of a .texref or .samplerref, kept as bytes: one for each
/// address mode, the filter mode and whether coordinates are not normalized, a name's place in its list.
void Parser::sampler_fields(Variable& v) {
  static constexpr std::string_view kAddress[] = {"wrap", "clamp_to_edge", "mirror", "clamp_to_border"};
  static constexpr std::string_view kFilter[] = {"nearest", "linear"};
  static constexpr std::string_view kFields[] = {"addr_mode_0", "addr_mode_1", "addr_mode_2", "filter_mode",
                                                 "force_unnormalized_coords"};
  v.init.assign(v.bytes, 0);
  expect("{");
  do {
    const std::string_view field = name("a field of a sampler");
    expect("=");
    const bool number = lex_.peek().kind == Token::Kind::integer;
    std::uint64_t value = number ? integer("a value") : 0;
    if (!number) {
      const std::string_view mode = name("a mode");
      if (mode == "clamp_ogl") value = 1;
      for (std::size_t i = 0; i < std::size(kAddress); ++i) value = kAddress[i] == mode ? i : value;
      for (std::size_t i = 0; i < std::size(kFilter); ++i) value = kFilter[i] == mode ? i : value;
    }
    for (std::size_t i = 0; i < std::size(kFields); ++i)
      if (kFields[i] == field) v.init[i] = static_cast<std::uint8_t>(value);
  } while (accept(","));
  expect("}");
}

void Parser::initializer(Variable& v) {
  if (v.opaque != Opaque::none && v.bytes == 8) return sampler_fields(v);
  std::size_t at = 0;
  const bool sized = v.bytes != 0;
  if (sized) v.init.assign(v.bytes, 0);
  init_values(v, at, 0);
  if (!sized) v.bytes = v.init.size();
}

/// A variable's or function's address in an initialiser: name, name+8, generic(name).
void Parser::init_address(Variable& v, std::size_t at, std::string_view n) {
  const bool generic = n == "generic" && accept("(");
  if (generic) n = name("a variable");
  const Symbol* s = find(n);
  if (s == nullptr || (s->kind != Symbol::Kind::variable && s->kind != Symbol::Kind::function))
    fail("unknown name '" + std::string(n) + "' in an initialiser");
  if (generic) expect(")");
  Relocation r{at, s->id, s->kind == Symbol::Kind::function, 0};
  if (accept("+")) r.addend = static_cast<std::int64_t>(integer("an offset"));
  if (size_of(v.type) != 8) fail("a pointer needs a 64-bit element");
  v.relocations.push_back(r);
}

/// The bits of one value; of an address 0, which the launch replaces.
std::uint64_t Parser::init_value(Variable& v, std::size_t at) {
  const bool minus = accept("-");
  const Token t = lex_.next();
  switch (t.kind) {
    case Token::Kind::integer:
      return static_cast<std::uint64_t>(
          more_constant(static_cast<std::int64_t>(minus ? ~t.value + 1 : t.value), 0, 0));
    case Token::Kind::f32:
      return t.value;
    case Token::Kind::f64: {
      const std::uint64_t bits =
          v.type == Type::f32
              ? std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(t.value)))
              : t.value;
      return minus ? bits ^ std::uint64_t{1} << (size_of(v.type) * 8 - 1) : bits;
    }
    case Token::Kind::name:
      init_address(v, at, t.text);
      return 0;
    default:
      fail("malformed initialiser");
  }
}

void Parser::init_values(Variable& v, std::size_t& at, int depth) {
  if (depth > 8) fail("initialiser nested too deeply");
  if (accept("{")) {
    if (accept("}")) return;
    do init_values(v, at, depth + 1);
    while (accept(","));
    expect("}");
    return;
  }
  const auto element = static_cast<std::size_t>(size_of(v.type));
  if (v.bytes == 0) v.init.resize(std::max(v.init.size(), at + element));
  if (at + element > v.init.size()) fail("too many values for '" + v.name + "'");
  const std::uint64_t bits = init_value(v, at);
  for (std::size_t i = 0; i < element && i < 8; ++i)
    v.init[at + i] = static_cast<std::uint8_t>(bits >> (8 * i));
  at += element;
}

}  // namespace kiln::emulator::ptx
