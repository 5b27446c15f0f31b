// Tokens of PTX text. Total: any bytes give tokens or an Error with the line.
#pragma once

#include <cstdint>
#include <string_view>

namespace kiln::emulator::ptx {

struct Token {
  enum class Kind : std::uint8_t { end, name, dotted, integer, f32, f64, string, punct };
  Kind kind = Kind::end;
  std::string_view text;    ///< dotted: without the dot; string: without the quotes
  std::uint64_t value = 0;  ///< integer value, or the bits of a float
  int line = 1;
  bool is(std::string_view s) const { return (kind == Kind::punct || kind == Kind::name) && text == s; }
  bool is_dot(std::string_view s) const { return kind == Kind::dotted && text == s; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }
  const Token& peek() const { return token_; }
  Token next() {
    Token t = token_;
    advance();
    return t;
  }

 private:
  void advance();
  void skip_blank();
  void number();
  void float_bits(int digits);
  void integer(unsigned base);
  void decimal();
  char ahead(std::size_t n) const;  ///< the character `n` after this one; 0 past the end
  std::string_view text_;
  std::size_t pos_ = 0;
  int line_ = 1;
  Token token_;
};

}  // namespace kiln::emulator::ptx
