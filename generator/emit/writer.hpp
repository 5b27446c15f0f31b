// Builds emitted source line by line: indentation, blocks, banners; remembers which line of kiln wrote each. Text in,
// text out; knows nothing of attention.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "generator/emit/lines.hpp"

namespace kiln {

/// A format string and the place where it stands.
template <typename... Args>
struct PlacedFormat {
  template <typename S>
  requires std::is_convertible_v<const S&, std::string_view>
  consteval PlacedFormat(const S& its_text, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : text(its_text), here(file, line) {}
  fmt::format_string<Args...> text;
  Here here;
};
template <typename... Args>
using Placed = PlacedFormat<std::type_identity_t<Args>...>;

class Writer {
 public:
  /// One line at the current indent. With arguments the text is a fmt format string (literal braces doubled).
  void line(std::string_view text, Here here = Here(__builtin_FILE(), __builtin_LINE())) { put(text, here); }
  template <typename... Args>
  requires(sizeof...(Args) > 0) void line(const Placed<Args...>& format, Args&&... args) {
    put(fmt::format(format.text, std::forward<Args>(args)...), format.here);
  }
  void blank(Here here = Here(__builtin_FILE(), __builtin_LINE())) { put("", here); }

  /// `// text`: what the next lines do.
  template <typename... Args>
  void comment(const Placed<Args...>& format, Args&&... args) {
    put("// " + fmt::format(format.text, std::forward<Args>(args)...), format.here);
  }
  /// A phase banner: blank line, then `// ---- text`.
  template <typename... Args>
  void banner(const Placed<Args...>& format, Args&&... args) {
    put("", format.here);
    put("// ---- " + fmt::format(format.text, std::forward<Args>(args)...), format.here);
  }

  /// `head {` and one level deeper; close() ends it with `}` and `tail`.
  template <typename... Args>
  void open(const Placed<Args...>& format, Args&&... args) {
    const std::string head = fmt::format(format.text, std::forward<Args>(args)...);
    put(head.empty() ? "{" : head + " {", format.here);
    ++indent_;
  }
  void close(std::string_view tail = "", Here here = Here(__builtin_FILE(), __builtin_LINE())) {
    --indent_;
    put("}" + std::string(tail), here);
  }
  /// `} else {` between open and close.
  template <typename... Args>
  void reopen(const Placed<Args...>& format, Args&&... args) {
    --indent_;
    put("} " + fmt::format(format.text, std::forward<Args>(args)...) + " {", format.here);
    ++indent_;
  }

  /// Several lines as they stand, indented by the current indent; Lines keep their origins.
  void raw(std::string_view text, Here here = Here(__builtin_FILE(), __builtin_LINE()));
  void raw(const Lines& lines) { lines_.add(lines, 2 * indent_); }

  const std::string& text() const { return lines_.text(); }
  const Lines& lines() const { return lines_; }
  Lines take() { return std::move(lines_); }

 private:
  /// `text` may have several lines: those after the first are left where they are.
  void put(std::string_view text, Here here);
  Lines lines_;
  int indent_ = 0;
};

/// What `emit`, called with a writer, writes.
template <class Emit>
Lines lines_of(const Emit& emit) {
  Writer w;
  emit(w);
  return w.take();
}

}  // namespace kiln
