// A recursive-descent parser for the one Python literal that .npy headers hold; anything else is refused.
#include "workbench/files/npy_header.hpp"

#include <kiln/error.hpp>

#include "base/ascii.hpp"

namespace kiln {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  NpyHeader parse() {
    NpyHeader header;
    bool have_descr = false, have_order = false, have_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !have_descr) {
        header.descr = string();
        have_descr = true;
      } else if (key == "fortran_order" && !have_order) {
        header.fortran_order = boolean();
        have_order = true;
      } else if (key == "shape" && !have_shape) {
        header.shape = tuple();
        have_shape = true;
      } else {
        fail("unexpected key '" + key.substr(0, 40) + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) fail("text after the dict");
    if (!have_descr || !have_order || !have_shape)
      fail("'descr', 'fortran_order' and 'shape' are all needed");
    if (header.descr.size() < 2 || std::string_view("<>|=").find(header.descr[0]) == std::string_view::npos) {
      fail("'descr' is not a plain element type");
    }
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::bad_input, std::string(file_) + ": malformed .npy header: " + what);
  }
  void skip_spaces() {
    while (at_ < text_.size() && is_ascii_space(text_[at_])) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "' expected at offset " + std::to_string(at_));
  }
  std::string string() {
    skip_spaces();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail("a string is expected");
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) fail("unterminated string");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    for (const char c : value) {
      if (!is_ascii_printable(c)) fail("control character in a string");
    }
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    }
    fail("True or False is expected");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (values.size() > 32) fail("more than 32 dimensions");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }
  std::int64_t integer() {
    skip_spaces();
    std::int64_t value = 0;
    const std::size_t first = at_;
    for (; at_ < text_.size() && is_ascii_digit(text_[at_]); ++at_) {
      if (at_ - first > 15) fail("dimension too large");
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == first) fail("a dimension is not a number");
    // Python 2 wrote long integers as 3L.
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    return value;
  }

  std::string_view text_, file_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, std::string_view file) {
  return Parser(text, file).parse();
}

}  // namespace kiln
