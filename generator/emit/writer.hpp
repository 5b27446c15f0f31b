// Builds emitted source line by line: indentation, blocks, banners. Text in, text out; knows nothing of
// attention.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace kiln {

class Writer {
 public:
  /// One line at the current indent. With arguments the text is a fmt format string (literal braces doubled).
  void line(std::string_view text) {
    if (!text.empty()) text_.append(static_cast<std::size_t>(indent_) * 2, ' ').append(text);
    text_ += '\n';
  }
  template <typename... Args>
  requires(sizeof...(Args) > 0) void line(fmt::format_string<Args...> format, Args&&... args) {
    line(fmt::format(format, std::forward<Args>(args)...));
  }
  void blank() { text_ += '\n'; }

  /// `// text`: what the next lines do.
  template <typename... Args>
  void comment(fmt::format_string<Args...> format, Args&&... args) {
    line("// " + fmt::format(format, std::forward<Args>(args)...));
  }
  /// A phase banner: blank line, then `// ---- text`.
  template <typename... Args>
  void banner(fmt::format_string<Args...> format, Args&&... args) {
    blank();
    line("// ---- " + fmt::format(format, std::forward<Args>(args)...));
  }

  /// `head {` and one level deeper; close() ends it with `}` and `tail`.
  template <typename... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    const std::string head = fmt::format(format, std::forward<Args>(args)...);
    line(head.empty() ? "{" : head + " {");
    ++indent_;
  }
  void close(std::string_view tail = "") {
    --indent_;
    line("}" + std::string(tail));
  }
  /// `} else {` between open and close.
  template <typename... Args>
  void reopen(fmt::format_string<Args...> format, Args&&... args) {
    --indent_;
    line("} " + fmt::format(format, std::forward<Args>(args)...) + " {");
    ++indent_;
  }

  /// Several lines as they stand, re-indented by the current indent.
  void raw(std::string_view text) {
    while (!text.empty()) {
      const auto end = text.find('\n');
      line(text.substr(0, end));
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
  }

  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int indent_ = 0;
};

}  // namespace kiln
