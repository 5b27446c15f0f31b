// Module level: directives, variables with initialisers, function headers.
#include <algorithm>
#include <bit>

#include <kiln/emulator/emulator.hpp>
#include "emulator/ptx/parse/parser.hpp"
#include "emulator/ptx/parse/parser_impl.hpp"

namespace kiln::emulator::ptx {
namespace {

constexpr std::size_t kMaxVariableBytes = std::size_t{1} << 30;

struct TypeName {
  std::string_view name;
  Type type;
};
constexpr TypeName kTypes[] = {
    {"pred", Type::pred}, {"b8", Type::b8},         {"b16", Type::b16}, {"b32", Type::b32},
    {"b64", Type::b64},   {"b128", Type::b128},     {"u8", Type::u8},   {"u16", Type::u16},
    {"u32", Type::u32},   {"u64", Type::u64},       {"s8", Type::s8},   {"s16", Type::s16},
    {"s32", Type::s32},   {"s64", Type::s64},       {"f16", Type::f16}, {"f16x2", Type::f16x2},
    {"bf16", Type::bf16}, {"bf16x2", Type::bf16x2}, {"f32", Type::f32}, {"f64", Type::f64}};

bool is_linkage(std::string_view t) {
  return t == "visible" || t == "extern" || t == "weak" || t == "common";
}
Opaque opaque_from(std::string_view t) {
  return t == "texref"       ? Opaque::texture
         : t == "samplerref" ? Opaque::sampler
         : t == "surfref"    ? Opaque::surface
                             : Opaque::none;
}
/// The type of a variable; false for any other text.
bool variable_type(std::string_view t, Variable& v) {
  v.opaque = opaque_from(t);
  v.type = v.opaque != Opaque::none ? Type::b64 : type_from(t);
  return v.type != Type::none && v.type != Type::pred;
}
bool space_from(std::string_view t, Space& space) {
  if (t == "global")
    space = Space::global;
  else if (t == "shared")
    space = Space::shared;
  else if (t == "local")
    space = Space::local;
  else if (t == "const")
    space = Space::constant;
  else if (t == "param")
    space = Space::param;
  else
    return false;
  return true;
}

}  // namespace

int size_of(Type type) {
  switch (type) {
    case Type::none:
      return 0;
    case Type::b8:
    case Type::u8:
    case Type::s8:
      return 1;
    case Type::b16:
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16:
      return 2;
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64:
      return 8;
    case Type::b128:
      return 16;
    default:
      return 4;
  }
}

Type type_from(std::string_view text) {
  for (const TypeName& t : kTypes)
    if (t.name == text) return t.type;
  return Type::none;
}

Module parse(std::string_view text) {
  Module module;
  module.text = std::string(text);
  Parser(module).run();
  return module;
}

void Parser::run() {
  scopes_.emplace_back();
  while (lex_.peek().kind != Token::Kind::end) module_item();
  if (module_.target.empty()) throw Error("no .target directive: this is not PTX", 1);
}

/// "9.0", which is one number token.
void Parser::version() {
  const std::string_view v = lex_.next().text;
  if (v.empty() || v[0] < '0' || v[0] > '9') fail("malformed .version");
  int n[2] = {0, 0};
  std::size_t part = 0;
  for (const char c : v.substr(0, 8)) {
    if (c == '.')
      part = 1;
    else
      n[part] = n[part] * 10 + (c - '0');
  }
  module_.version = n[0] * 10 + n[1];
}

void Parser::target() {
  module_.target = std::string(name("a target"));
  while (accept(",")) lex_.next();
}

void Parser::address_size() {
  if (integer("32 or 64") != 64) fail("only 64-bit addresses are supported");
}

void Parser::pragma() {
  lex_.next();
  expect(";");
}

void Parser::module_item() {
  struct Row {
    std::string_view name;
    void (Parser::*parse)();
  };
  static constexpr Row kDirectives[] = {{"version", &Parser::version},
                                        {"target", &Parser::target},
                                        {"address_size", &Parser::address_size},
                                        {"file", &Parser::file_directive},
                                        {"section", &Parser::skip_section},
                                        {"loc", &Parser::location},
                                        {"alias", &Parser::alias},
                                        {"pragma", &Parser::pragma}};
  bool is_extern = false;
  while (lex_.peek().kind == Token::Kind::dotted && is_linkage(lex_.peek().text))
    is_extern |= lex_.next().text == "extern";
  if (accept(";")) return;
  if (lex_.peek().kind != Token::Kind::dotted) fail("expected a directive");
  const std::string_view d = lex_.next().text;
  if (d == "entry" || d == "func") return function(d == "entry", is_extern);
  if (Space space{}; space_from(d, space) && space != Space::param) return variables(space, is_extern);
  for (const Row& row : kDirectives)
    if (row.name == d) return (this->*row.parse)();
  fail("unknown directive ." + std::string(d));
}

/// .alias name, function: both functions are known.
void Parser::alias() {
  const auto function = [&](std::string_view n) {
    const Symbol* s = find(n);
    if (s == nullptr || s->kind != Symbol::Kind::function) fail("'" + std::string(n) + "' is no function");
    return s->id;
  };
  const std::uint32_t id = function(name("a function name"));
  expect(",");
  const std::uint32_t target = function(name("a function name"));
  if (id == target || module_.functions[target].alias >= 0) fail("an alias of an alias");
  module_.functions[id].alias = static_cast<int>(target);
  expect(";");
}

void Parser::file_directive() {
  const std::uint64_t index = integer("a file index");
  const Token path = lex_.next();
  if (path.kind != Token::Kind::string) fail("expected a file name");
  if (index > 100000) fail("file index out of range");
  if (module_.files.size() <= index) module_.files.resize(index + 1);
  module_.files[index] = std::string(path.text);
  while (accept(",")) integer("a number");
}

void Parser::location() {
  file_ = static_cast<int>(integer("a file index"));
  source_line_ = static_cast<int>(integer("a line"));
  source_column_ = static_cast<int>(integer("a column"));
  caller_line_ = 0;
  while (accept(",")) {
    const std::string_view what = name("function_name or inlined_at");
    if (what == "function_name") {
      name("a label");
      if (accept("+")) integer("an offset");
    } else {
      caller_file_ = static_cast<int>(integer("a file index"));
      caller_line_ = static_cast<int>(integer("a line"));
      caller_column_ = static_cast<int>(integer("a column"));
    }
  }
}

void Parser::skip_section() {
  lex_.next();
  if (lex_.peek().kind != Token::Kind::punct) lex_.next();
  expect("{");
  for (int depth = 1; depth > 0;) {
    const Token t = lex_.next();
    if (t.kind == Token::Kind::end) fail("unterminated .section");
    depth += t.is("{") ? 1 : t.is("}") ? -1 : 0;
  }
}

std::uint32_t Parser::add_variable(Variable v) {
  v.function = function_;
  const auto id = static_cast<std::uint32_t>(module_.variables.size());
  module_.variables.push_back(std::move(v));
  return id;
}

void Parser::skip_attribute() {
  expect("(");
  while (!accept(")"))
    if (lex_.next().kind == Token::Kind::end) fail("unterminated .attribute");
}

std::size_t Parser::alignment() {
  const std::uint64_t a = integer("an alignment");
  if (!std::has_single_bit(a) || a > 65536) fail("alignment must be a power of two");
  return a;
}

/// Alignment, attributes and type, up to the first name. `bytes` become those of an element.
void Parser::variable_head(Variable& v) {
  std::size_t vector = 1;
  bool have_align = false;
  for (;;) {
    if (lex_.peek().kind != Token::Kind::dotted) fail("expected a type");
    const std::string_view t = lex_.next().text;
    if (t == "align") {
      v.align = alignment();
      have_align = true;
    } else if (t == "v2" || t == "v4") {
      vector = t == "v2" ? 2 : 4;
    } else if (t == "attribute") {
      skip_attribute();
    } else if (variable_type(t, v)) {
      break;
    } else if (t != "ptr") {
      fail("unknown type ." + std::string(t));
    }
  }
  v.bytes = static_cast<std::size_t>(size_of(v.type)) * vector;
  if (!have_align) v.align = v.bytes;
}

/// name, name[4][2] or name[], with values or without.
void Parser::declarator(Variable v) {
  v.line = lex_.peek().line;
  const std::string_view key = name("a variable name");
  v.name = std::string(key);
  while (accept("[")) {
    if (accept("]")) {
      v.bytes = 0;
      continue;
    }
    const auto n = static_cast<std::uint64_t>(constant());
    expect("]");
    if (n > kMaxVariableBytes || v.bytes * n > kMaxVariableBytes)
      fail("variable '" + v.name + "' is too large");
    v.bytes *= n;
  }
  if (v.bytes == 0) v.dynamic = v.space == Space::shared;
  if (accept("=")) initializer(v);
  scopes_.back().names[key] = Symbol{Symbol::Kind::variable, add_variable(std::move(v)), 0};
}

void Parser::variables(Space space, bool is_extern) {
  Variable v;
  v.space = space;
  v.is_extern = is_extern;
  variable_head(v);
  do declarator(v);
  while (accept(","));
  expect(";");
}

void Parser::parameters(Function& f, std::vector<std::uint32_t>& out,
                        std::vector<RegisterParameter>& registers) {
  expect("(");
  if (accept(")")) return;
  do parameter(f, out, registers);
  while (accept(","));
  expect(")");
}

void Parser::parameter(Function& f, std::vector<std::uint32_t>& out,
                       std::vector<RegisterParameter>& registers) {
  const bool in_register = lex_.peek().is_dot("reg");
  if (!lex_.peek().is_dot("param") && !in_register) fail("expected .param or .reg");
  if (in_register && f.entry) fail("a kernel has no .reg parameters");
  lex_.next();
  Variable v;
  v.space = Space::param;
  bool have_align = false;
  for (;;) {
    if (lex_.peek().kind != Token::Kind::dotted) fail("expected a parameter type");
    const std::string_view t = lex_.next().text;
    if (t == "align") {
      have_align = true;
      v.align = alignment();
    } else if (type_from(t) != Type::none) {
      v.type = type_from(t);
      break;
    } else if (opaque_from(t) != Opaque::none) {
      v.opaque = opaque_from(t);
      v.type = Type::b64;
      break;
    } else {
      fail("unknown parameter type ." + std::string(t));
    }
  }
  if (!have_align) v.align = static_cast<std::size_t>(size_of(v.type));
  // ".u64 .ptr .global .align 16 name": the pointee's attributes mean nothing here.
  while (lex_.peek().kind == Token::Kind::dotted)
    if (lex_.next().is_dot("align")) integer("an alignment");
  v.line = lex_.peek().line;
  const std::string_view n = name("a parameter name");
  v.name = std::string(n);
  v.bytes = static_cast<std::size_t>(size_of(v.type));
  if (!in_register && accept("[")) {
    const std::uint64_t count = lex_.peek().is("]") ? 0 : integer("an array size");
    expect("]");
    if (count > 65536) fail("parameter '" + v.name + "' is too large");
    v.bytes *= count;
  }
  const Type type = v.type;
  const std::uint32_t id = add_variable(std::move(v));
  out.push_back(id);
  if (in_register)
    registers.push_back({add_registers(f, n, type, 1, 1, false), id});
  else
    scopes_.back().names[n] = Symbol{Symbol::Kind::variable, id, 0};
}

void Parser::performance(Function& f, std::string_view d) {
  std::uint32_t* out = d == "maxntid"   ? f.max_threads
                       : d == "reqntid" ? f.required_threads
                                        : f.required_cluster;
  if (d == "maxntid" || d == "reqntid" || d == "reqnctapercluster") {
    for (int i = 0; i < 3; ++i) out[i] = 1;
    int i = 0;
    do {
      const std::uint64_t n = integer("a size");
      if (i >= 3 || n > 0xffffffffu) fail("malformed ." + std::string(d));
      out[i++] = static_cast<std::uint32_t>(n);
    } while (accept(","));
  } else if (d == "explicitcluster") {
    f.explicit_cluster = true;
  } else if (d == "blocksareclusters" || d == "noreturn") {
  } else if (d == "minnctapersm" || d == "maxnreg" || d == "maxclusterrank" || d == "maxnctapersm") {
    integer("a number");
  } else if (d == "pragma") {
    pragma();
  } else if (d == "attribute") {
    skip_attribute();
  } else {
    fail("unknown directive ." + std::string(d));
  }
}

void Parser::function(bool entry, bool is_extern) {
  Function f;
  f.entry = entry;
  f.line = lex_.peek().line;
  function_ = static_cast<int>(module_.functions.size());
  scopes_.emplace_back();
  while (lex_.peek().is_dot("attribute")) performance(f, lex_.next().text);
  if (lex_.peek().is("(")) parameters(f, f.returns, f.register_returns);
  const std::string_view n = name("a function name");
  f.name = std::string(n);
  if (lex_.peek().is("(")) parameters(f, f.params, f.register_params);
  while (lex_.peek().kind == Token::Kind::dotted) performance(f, lex_.next().text);
  const Symbol* known = scopes_[0].names.contains(n) ? &scopes_[0].names[n] : nullptr;
  if (known != nullptr && known->kind != Symbol::Kind::function) fail("'" + f.name + "' is not a function");
  if (known != nullptr && lex_.peek().is("{") && module_.functions[known->id].defined)
    fail("function '" + f.name + "' is defined twice");
  std::uint32_t id = known != nullptr ? known->id : static_cast<std::uint32_t>(module_.functions.size());
  function_ = static_cast<int>(id);
  for (auto* list : {&f.params, &f.returns})
    for (const std::uint32_t v : *list) module_.variables[v].function = function_;
  if (known == nullptr) {
    scopes_[0].names[n] = Symbol{Symbol::Kind::function, id, 0};
    module_.functions.emplace_back();
    module_.functions[id].name = f.name;
  }
  if (lex_.peek().is("{")) {
    if (is_extern) fail("an .extern function has no body");
    f.defined = true;
    file_ = source_line_ = caller_line_ = 0;
    body(f);
    module_.functions[id] = std::move(f);
  } else {
    expect(";");
    if (!module_.functions[id].defined) module_.functions[id] = std::move(f);
  }
  scopes_.pop_back();
  function_ = -1;
}

}  // namespace kiln::emulator::ptx
