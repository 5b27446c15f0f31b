#include "emulator/ptx/parse/lexer.hpp"

#include <bit>
#include <string>

#include <kiln/emulator/emulator.hpp>

#include "base/decimal.hpp"

namespace kiln::emulator::ptx {
namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name(char c) {
  return is_name_start(c) || is_digit(c);
}
int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

}  // namespace

void Lexer::skip_blank() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == '\n') {
      ++line_;
      ++pos_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0' || c == '\f') {
      ++pos_;
    } else if (c == '/' && text_.substr(pos_, 2) == "//") {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else if (c == '/' && text_.substr(pos_, 2) == "/*") {
      const std::size_t end = text_.find("*/", pos_ + 2);
      if (end == std::string_view::npos) throw Error("unterminated comment", line_);
      for (; pos_ < end + 2; ++pos_) line_ += text_[pos_] == '\n';
    } else {
      return;
    }
  }
}

char Lexer::ahead(std::size_t n) const {
  return pos_ + n < text_.size() ? text_[pos_ + n] : '\0';
}

/// 0f3F800000 and 0d3FF0000000000000: the bits of a float.
void Lexer::float_bits(int digits) {
  pos_ += 2;
  for (int i = 0; i < digits; ++i) {
    const int d = digit_of(ahead(0));
    if (d > 15)
      throw Error("a floating constant needs " + std::to_string(digits) + " hexadecimal digits", line_);
    token_.value = token_.value * 16 + static_cast<unsigned>(d);
    ++pos_;
  }
  token_.kind = digits == 8 ? Token::Kind::f32 : Token::Kind::f64;
}

void Lexer::integer(unsigned base) {
  while (digit_of(ahead(0)) < static_cast<int>(base))
    token_.value = token_.value * base + static_cast<unsigned>(digit_of(text_[pos_++]));
  if (ahead(0) == 'U' || ahead(0) == 'u') ++pos_;
}

/// Digits, and with a fraction or an exponent a double; without them a leading 0 means octal.
void Lexer::decimal() {
  std::size_t n = 0;
  while (is_digit(ahead(n))) ++n;
  const bool fraction = ahead(n) == '.' && is_digit(ahead(n + 1));
  if (!fraction && ahead(n) != 'e' && ahead(n) != 'E') return integer(ahead(0) == '0' ? 8 : 10);
  const Decimal decimal = read_decimal(text_.substr(pos_));
  token_.value = std::bit_cast<std::uint64_t>(decimal.value);
  token_.kind = Token::Kind::f64;
  pos_ += decimal.length;
}

void Lexer::number() {
  const std::size_t start = pos_;
  token_.kind = Token::Kind::integer;
  switch (ahead(0) == '0' ? ahead(1) : '\0') {
    case 'f':
    case 'F':
      float_bits(8);
      break;
    case 'd':
    case 'D':
      float_bits(16);
      break;
    case 'x':
    case 'X':
      pos_ += 2;
      integer(16);
      break;
    case 'b':
    case 'B':
      pos_ += 2;
      integer(2);
      break;
    default:
      decimal();
  }
  if (is_name(ahead(0))) throw Error("malformed number", line_);
  token_.text = text_.substr(start, pos_ - start);
}

void Lexer::advance() {
  skip_blank();
  token_ = Token{};
  token_.line = line_;
  if (pos_ >= text_.size()) return;
  const std::size_t start = pos_;
  const char c = text_[pos_];
  if (is_digit(c)) return number();
  if (is_name_start(c)) {
    token_.kind = Token::Kind::name;
    while (pos_ < text_.size() && is_name(text_[pos_])) ++pos_;
    token_.text = text_.substr(start, pos_ - start);
    return;
  }
  if (c == '.' && pos_ + 1 < text_.size() && is_name(text_[pos_ + 1])) {
    token_.kind = Token::Kind::dotted;
    ++pos_;
    while (pos_ < text_.size()) {
      if (is_name(text_[pos_])) {
        ++pos_;
      } else if (text_.substr(pos_, 2) == "::" && pos_ + 2 < text_.size() && is_name(text_[pos_ + 2])) {
        pos_ += 2;
      } else {
        break;
      }
    }
    token_.text = text_.substr(start + 1, pos_ - start - 1);
    return;
  }
  if (c == '"') {
    const std::size_t end = text_.find('"', start + 1);
    if (end == std::string_view::npos) throw Error("unterminated string", line_);
    token_.kind = Token::Kind::string;
    token_.text = text_.substr(start + 1, end - start - 1);
    for (; pos_ <= end; ++pos_) line_ += text_[pos_] == '\n';
    return;
  }
  static constexpr std::string_view kPunctuation = "{}()[]<>,;:=+-*/!@|~&^?.";
  if (kPunctuation.find(c) == std::string_view::npos) {
    const auto byte = static_cast<unsigned char>(c);
    throw Error(byte >= 32 && byte < 127 ? std::string("unexpected character '") + c + "'"
                                         : "unexpected byte " + std::to_string(byte),
                line_);
  }
  token_.kind = Token::Kind::punct;
  token_.text = text_.substr(pos_++, 1);
}

}  // namespace kiln::emulator::ptx
