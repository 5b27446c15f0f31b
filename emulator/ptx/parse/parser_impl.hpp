// The recursive-descent parser's state. Internal to ptx/.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/parse/ast.hpp"
#include "emulator/ptx/parse/lexer.hpp"

namespace kiln::emulator::ptx {

struct Symbol {
  enum class Kind : std::uint8_t { variable, function, reg, reg_range, label, table } kind = Kind::variable;
  std::uint32_t id = 0;     ///< first register of a range
  std::uint32_t count = 0;  ///< registers in a range
  std::uint32_t width = 1;  ///< registers: components of a vector register, which follow one another
};

/// One { } level. Labels are local to it, so a reference waits here until the level closes.
struct Scope {
  struct Pending {
    std::size_t instruction, operand;
    std::string_view name;
    int line;
    int table = -1;  ///< reference from a branch table: operand is the index there
  };
  std::unordered_map<std::string_view, Symbol> names;
  std::vector<Pending> pending;
};

class Parser {
 public:
  explicit Parser(Module& module) : module_(module), lex_(module.text) {}
  void run();

 private:
  [[noreturn]] void fail(const std::string& message) const;
  void expect(std::string_view punct);
  bool accept(std::string_view punct);
  std::string_view name(const char* what);
  std::uint64_t integer(const char* what);

  // parser_module.cpp
  void module_item();
  void function(bool entry, bool is_extern);
  void parameters(Function& f, std::vector<std::uint32_t>& out, std::vector<RegisterParameter>& registers);
  void parameter(Function& f, std::vector<std::uint32_t>& out, std::vector<RegisterParameter>& registers);
  void alias();
  void performance(Function& f, std::string_view directive);
  void variables(Space space, bool is_extern);
  void variable_head(Variable& v);
  void declarator(Variable v);
  std::size_t alignment();
  void skip_attribute();
  std::uint32_t add_variable(Variable v);
  void version();
  void target();
  void address_size();
  void pragma();
  void file_directive();
  void location();
  void skip_section();

  // initializers.cpp
  void initializer(Variable& v);
  void init_values(Variable& v, std::size_t& at, int depth);
  std::uint64_t init_value(Variable& v, std::size_t at);
  void init_address(Variable& v, std::size_t at, std::string_view n);
  void sampler_fields(Variable& v);

  // parser.cpp
  void body(Function& f);
  void statement(Function& f);
  void registers(Function& f);
  void open_scope();
  void close_scope(Function& f);
  const Symbol* find(std::string_view n) const;
  /// `width`: components of the register, if it is a vector.
  bool find_register(std::string_view n, std::uint32_t& id, std::uint32_t& width) const;
  std::uint32_t add_registers(Function& f, std::string_view n, Type type, std::uint64_t count,
                              std::uint32_t width, bool range);
  void label(Function& f, std::string_view n);
  void branch_targets(Function& f, std::string_view n);
  void instruction(Function& f);
  /// Constant expressions (constants.cpp).
  std::int64_t constant(int level = 0, int depth = 0);
  std::int64_t primary_constant(int depth);
  std::int64_t more_constant(std::int64_t v, int level, int depth);
  bool constant_operand(Operand& o);
  std::string_view binary_operator(int level, int& own);
  Operand operand(Function& f, std::size_t index, int depth);
  Operand sequence(Function& f, std::size_t index, int depth);
  Operand address(Function& f, std::size_t index);
  Operand named(Function& f, std::string_view n, std::size_t index);
  Operand register_operand(std::string_view n, std::uint32_t reg, std::uint32_t width);

  Module& module_;
  Lexer lex_;
  std::vector<Scope> scopes_;
  int function_ = -1;
  bool call_ = false;  ///< the instruction is a call, whose parentheses hold lists
  int file_ = 0, source_line_ = 0, source_column_ = 0;
  int caller_file_ = 0, caller_line_ = 0, caller_column_ = 0;
};

}  // namespace kiln::emulator::ptx
