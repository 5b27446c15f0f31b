// Function bodies: scopes, registers, labels, instructions and their operands.
#include <algorithm>
#include <bit>

#include <kiln/emulator/emulator.hpp>
#include "emulator/ptx/parse/parser_impl.hpp"

namespace kiln::emulator::ptx {
namespace {
constexpr std::size_t kMaxRegisters = 1u << 20;
constexpr std::size_t kMaxDepth = 64;
constexpr int kProduct = 10;  ///< of constant expressions: only operators that bind tighter than + and -

/// Which part of a register .b0 to .b3, .h0 and .h1 are: 1 to 6; 0: none. Several, as .h10 and .b7654: 1 << 28, how
/// many << 24, and the digits from the last on, 4 bits each.
int part_selector(std::string_view name) {
  if (name.size() > 2 && name.size() <= 5 && (name[0] == 'b' || name[0] == 'h')) {
    int value = 1 << 28 | static_cast<int>(name.size() - 1) << 24;
    for (std::size_t i = 1; i < name.size(); ++i) {
      if (name[i] < '0' || name[i] > '7') return 0;
      value |= (name[i] - '0') << (4 * (name.size() - 1 - i));
    }
    return value;
  }
  if (name.size() != 2) return 0;
  if (name[0] == 'b' && name[1] >= '0' && name[1] <= '3') return name[1] - '0' + 1;
  return name[0] == 'h' && (name[1] == '0' || name[1] == '1') ? name[1] - '0' + 5 : 0;
}
/// Which component of a vector .x, .y, .z, .w or .r, .g, .b, .a is; -1: none.
int component(std::string_view name) {
  if (name.size() != 1) return -1;
  for (const std::string_view all : {"xyzw", "rgba"})
    if (const std::size_t at = all.find(name[0]); at != std::string_view::npos) return static_cast<int>(at);
  return -1;
}
}  // namespace

void Parser::fail(const std::string& message) const {
  const Token& t = lex_.peek();
  std::string near =
      t.kind == Token::Kind::end ? "end of text" : "'" + std::string(t.text.substr(0, 40)) + "'";
  throw Error(message + " near " + near, t.line);
}
void Parser::expect(std::string_view punct) {
  if (!accept(punct)) fail("expected '" + std::string(punct) + "'");
}
bool Parser::accept(std::string_view punct) {
  if (lex_.peek().kind != Token::Kind::punct || lex_.peek().text != punct) return false;
  lex_.next();
  return true;
}
std::string_view Parser::name(const char* what) {
  if (lex_.peek().kind != Token::Kind::name) fail(std::string("expected ") + what);
  return lex_.next().text;
}
std::uint64_t Parser::integer(const char* what) {
  if (lex_.peek().kind != Token::Kind::integer) fail(std::string("expected ") + what);
  return lex_.next().value;
}

const Symbol* Parser::find(std::string_view n) const {
  for (std::size_t i = scopes_.size(); i-- > 0;) {
    const auto it = scopes_[i].names.find(n);
    if (it != scopes_[i].names.end()) return &it->second;
  }
  return nullptr;
}

bool Parser::find_register(std::string_view n, std::uint32_t& id, std::uint32_t& width) const {
  std::size_t digits = n.size();
  while (digits > 0 && n[digits - 1] >= '0' && n[digits - 1] <= '9') --digits;
  const std::string_view prefix = n.substr(0, digits);
  std::uint64_t index = 0;
  const bool numbered = digits < n.size() && n.size() - digits <= 8;
  for (std::size_t i = digits; numbered && i < n.size(); ++i)
    index = index * 10 + static_cast<unsigned>(n[i] - '0');
  for (std::size_t i = scopes_.size(); i-- > 0;) {
    const auto exact = scopes_[i].names.find(n);
    if (exact != scopes_[i].names.end() && exact->second.kind == Symbol::Kind::reg) {
      id = exact->second.id;
      width = exact->second.width;
      return true;
    }
    if (!numbered) continue;
    const auto range = scopes_[i].names.find(prefix);
    if (range != scopes_[i].names.end() && range->second.kind == Symbol::Kind::reg_range &&
        index < range->second.count) {
      width = range->second.width;
      id = range->second.id + static_cast<std::uint32_t>(index) * width;
      return true;
    }
  }
  return false;
}

void Parser::open_scope() {
  if (scopes_.size() > kMaxDepth) fail("blocks nested too deeply");
  scopes_.emplace_back();
}

void Parser::close_scope(Function& f) {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (const Scope::Pending& p : scope.pending) {
    const auto it = scope.names.find(p.name);
    const bool found = it != scope.names.end() &&
                       (it->second.kind == Symbol::Kind::label || it->second.kind == Symbol::Kind::table);
    if (!found) {
      // Functions' outermost level sits on the parameter level, which sits on the module.
      if (scopes_.size() <= 2) throw Error("unknown name '" + std::string(p.name) + "'", p.line);
      scopes_.back().pending.push_back(p);
      continue;
    }
    if (p.table >= 0) {
      f.tables[static_cast<std::size_t>(p.table)][p.operand] = it->second.id;
    } else {
      Operand& o = f.body[p.instruction].operands[p.operand];
      o.kind = it->second.kind == Symbol::Kind::label ? Operand::Kind::label : Operand::Kind::table;
      o.id = it->second.id;
    }
  }
}

void Parser::body(Function& f) {
  expect("{");
  open_scope();
  const std::size_t outer = scopes_.size();
  while (scopes_.size() >= outer) {
    if (accept("{")) {
      open_scope();
    } else if (accept("}")) {
      close_scope(f);
    } else if (lex_.peek().kind == Token::Kind::end) {
      fail("function '" + f.name + "' is not closed");
    } else {
      statement(f);
    }
  }
}

void Parser::statement(Function& f) {
  const Token& t = lex_.peek();
  if (t.kind == Token::Kind::dotted) {
    const std::string_view d = lex_.next().text;
    if (d == "reg")
      registers(f);
    else if (d == "local")
      variables(Space::local, false);
    else if (d == "shared")
      variables(Space::shared, false);
    else if (d == "param")
      variables(Space::param, false);
    else if (d == "global")
      variables(Space::global, false);
    else if (d == "const")
      variables(Space::constant, false);
    else if (d == "loc")
      location();
    else if (d == "pragma")
      lex_.next(), expect(";");
    else
      fail("unknown directive ." + std::string(d));
  } else if (accept(";")) {
  } else {
    instruction(f);
  }
}

void Parser::registers(Function& f) {
  if (lex_.peek().kind != Token::Kind::dotted) fail("expected a register type");
  std::string_view t = lex_.next().text;
  std::uint32_t vector = 1;
  if (t == "v2" || t == "v4") {
    vector = t == "v2" ? 2 : 4;
    if (lex_.peek().kind != Token::Kind::dotted) fail("expected a register type");
    t = lex_.next().text;
  }
  const Type type = type_from(t);
  if (type == Type::none) fail("unknown register type ." + std::string(t));
  do {
    const std::string_view n = name("a register name");
    const bool range = accept("<");
    const std::uint64_t count = range ? integer("a register count") : 1;
    if (range) expect(">");
    add_registers(f, n, type, count, vector, range);
  } while (accept(","));
  expect(";");
}

std::uint32_t Parser::add_registers(Function& f, std::string_view n, Type type, std::uint64_t count,
                                    std::uint32_t width, bool range) {
  const auto first = static_cast<std::uint32_t>(f.registers.size());
  if (count > kMaxRegisters || f.registers.size() + count * width > kMaxRegisters) fail("too many registers");
  scopes_.back().names[n] = {range ? Symbol::Kind::reg_range : Symbol::Kind::reg, first,
                             static_cast<std::uint32_t>(count), width};
  f.registers.resize(f.registers.size() + count * width, type);
  f.register_names.resize(f.registers.size(), n);
  return first;
}

void Parser::label(Function& f, std::string_view n) {
  if (lex_.peek().is_dot("branchtargets")) return branch_targets(f, n);
  if (lex_.peek().is_dot("callprototype") || lex_.peek().is_dot("calltargets")) {
    while (!accept(";"))
      if (lex_.next().kind == Token::Kind::end) fail("unterminated directive");
    scopes_.back().names[n] = Symbol{Symbol::Kind::table, 0xffffffffu, 0};
    return;
  }
  const auto [it, fresh] = scopes_.back().names.try_emplace(n, Symbol{Symbol::Kind::label, 0, 0});
  if (!fresh) fail("label '" + std::string(n) + "' is defined twice");
  it->second.id = static_cast<std::uint32_t>(f.body.size());
}

void Parser::branch_targets(Function& f, std::string_view n) {
  lex_.next();
  const auto table = static_cast<std::uint32_t>(f.tables.size());
  f.tables.emplace_back();
  do {
    const int line = lex_.peek().line;
    const std::string_view target = name("a label");
    scopes_.back().pending.push_back({0, f.tables[table].size(), target, line, static_cast<int>(table)});
    f.tables[table].push_back(0);
  } while (accept(","));
  expect(";");
  scopes_.back().names[n] = Symbol{Symbol::Kind::table, table, 0};
}

void Parser::instruction(Function& f) {
  Instruction in;
  in.line = lex_.peek().line;
  in.source_file = file_;
  in.source_line = source_line_;
  in.source_column = source_column_;
  in.caller_file = caller_file_;
  in.caller_line = caller_line_;
  in.caller_column = caller_column_;
  if (accept("@")) {
    in.predicated = true;
    in.predicate_negated = accept("!");
    const std::string_view p = name("a predicate");
    std::uint32_t width = 1;
    if (!find_register(p, in.predicate, width) || f.registers[in.predicate] != Type::pred)
      fail("'" + std::string(p) + "' is not a predicate register");
  }
  if (lex_.peek().kind != Token::Kind::name) fail("expected an instruction");
  in.line = lex_.peek().line;
  in.opcode = lex_.next().text;
  call_ = in.opcode == "call";
  if (!in.predicated && accept(":")) return label(f, in.opcode);
  while (lex_.peek().kind == Token::Kind::dotted) in.modifiers.push_back(lex_.next().text);
  if (in.modifiers.size() > 24) fail("too many modifiers");
  if (!accept(";")) {
    do {
      if (in.operands.size() > 64) fail("too many operands");
      in.operands.push_back(operand(f, in.operands.size(), 0));
    } while (accept(","));
    expect(";");
  }
  f.body.push_back(std::move(in));
}

/// A register, one of its parts, a vector register or one of its components.
Operand Parser::register_operand(std::string_view n, std::uint32_t reg, std::uint32_t width) {
  Operand o;
  o.text = n;
  o.kind = Operand::Kind::reg;
  o.id = reg;
  const bool dotted = lex_.peek().kind == Token::Kind::dotted;
  if (width == 1) {
    if (dotted) o.value = part_selector(lex_.peek().text);
    if (o.value != 0) lex_.next();
    return o;
  }
  if (dotted) {
    const int at = component(lex_.peek().text);
    if (at < 0 || static_cast<std::uint32_t>(at) >= width)
      fail("'" + std::string(n) + "' has no component ." + std::string(lex_.peek().text));
    lex_.next();
    o.id += static_cast<std::uint32_t>(at);
    return o;
  }
  Operand all;
  all.kind = Operand::Kind::vector;
  all.text = n;
  for (std::uint32_t i = 0; i < width; ++i, ++o.id) all.items.push_back(o);
  return all;
}

Operand Parser::named(Function& f, std::string_view n, std::size_t index) {
  Operand o;
  o.text = n;
  if (n == "_") {
    o.kind = Operand::Kind::sink;
    return o;
  }
  std::uint32_t reg = 0, width = 1;
  if (find_register(n, reg, width)) return register_operand(n, reg, width);
  if (n[0] == '%') {
    o.kind = Operand::Kind::special;
    if (lex_.peek().kind == Token::Kind::dotted) {
      const std::string_view part = lex_.next().text;
      o.text = std::string_view(n.data(), static_cast<std::size_t>(part.data() + part.size() - n.data()));
    }
    return o;
  }
  if (n == "WARP_SZ") {
    o.kind = Operand::Kind::integer;
    o.value = 32;
    return o;
  }
  if (const Symbol* s = find(n); s != nullptr && s->kind == Symbol::Kind::variable) {
    o.kind = Operand::Kind::symbol;
    o.id = s->id;
    return o;
  } else if (s != nullptr && s->kind == Symbol::Kind::function) {
    o.kind = Operand::Kind::function;
    o.id = s->id;
    return o;
  }
  o.kind = Operand::Kind::label;
  scopes_.back().pending.push_back({f.body.size(), index, n, lex_.peek().line, -1});
  return o;
}

Operand Parser::address(Function& f, std::size_t index) {
  Operand o;
  o.kind = Operand::Kind::address;
  Operand base = operand(f, index, 1);
  if (base.kind == Operand::Kind::label) fail("unknown name '" + std::string(base.text) + "' in an address");
  o.items.push_back(std::move(base));
  while (accept("+")) {
    o.value = static_cast<std::int64_t>(static_cast<std::uint64_t>(o.value) +
                                        static_cast<std::uint64_t>(constant(kProduct)));
  }
  if (accept("-")) o.value -= constant(kProduct) & 0x7fffffffffffffff;
  while (accept(",")) {
    o.items.push_back(operand(f, index, 1));
    if (o.items.size() > 4) fail("too many parts in an address");
  }
  expect("]");
  return o;
}

/// {a,b}, or (a,b) of a call.
Operand Parser::sequence(Function& f, std::size_t index, int depth) {
  Operand o;
  const bool list = lex_.next().text == "(";
  o.kind = list ? Operand::Kind::list : Operand::Kind::vector;
  if (!accept(list ? ")" : "}")) {
    do {
      if (o.items.size() > 256) fail("vector too long");
      o.items.push_back(operand(f, index, depth + 1));
      if (o.items.back().kind == Operand::Kind::label)
        fail("unknown name '" + std::string(o.items.back().text) + "'");
    } while (accept(","));
    expect(list ? ")" : "}");
  }
  return o;
}

Operand Parser::operand(Function& f, std::size_t index, int depth) {
  if (depth > 3) fail("operand nested too deeply");
  Operand o;
  if (accept("[")) return address(f, index);
  if (constant_operand(o)) return o;
  if (lex_.peek().is("{") || lex_.peek().is("(")) {
    o = sequence(f, index, depth);
    if (depth == 0 && o.kind == Operand::Kind::vector && accept("|")) {
      o.items.push_back(named(f, name("a predicate"), index));
      o.value = 1;
    }
    return o;
  }
  const bool bang = accept("!");
  const bool minus = !bang && accept("-");
  if (!bang && !minus) (void)accept("+");
  const Token& t = lex_.peek();
  switch (t.kind) {
    case Token::Kind::integer:
      o.kind = Operand::Kind::integer;
      o.value = static_cast<std::int64_t>(minus ? ~t.value + 1 : t.value);
      lex_.next();
      o.value = more_constant(o.value, depth == 0 ? 0 : kProduct, 0);
      break;
    case Token::Kind::f32:
      o.kind = Operand::Kind::f32;
      o.value = static_cast<std::int64_t>(t.value ^ (minus ? 0x80000000u : 0));
      lex_.next();
      break;
    case Token::Kind::f64:
      o.kind = Operand::Kind::f64;
      o.value = static_cast<std::int64_t>(t.value ^ (minus ? std::uint64_t{1} << 63 : 0));
      lex_.next();
      break;
    case Token::Kind::name: {
      const std::string_view n = lex_.next().text;
      o = named(f, n, index);
      o.negated = bang || minus;
      if (accept("|")) {
        o.items.push_back(named(f, name("a predicate"), index));
        o.value += o.kind == Operand::Kind::vector ? 1 : 0;
      }
      if (depth == 0 && accept("+")) o.value += constant(kProduct);
      break;
    }
    default:
      fail("expected an operand");
  }
  return o;
}

}  // namespace kiln::emulator::ptx
