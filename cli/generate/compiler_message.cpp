// See compiler_message.hpp.
#include "cli/generate/compiler_message.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "runtime/support/log.hpp"

namespace kiln::cli {
namespace {

/// "/kiln/NAME.cu(243): error: ..." of NVRTC, "NAME.hip:243:5: error: ..." of clang: the same with the file that the
/// text came from, "FILE:243: error: ...".
std::string with_file(std::string text, const KernelSource& source) {
  for (const std::string& name : {"/kiln/" + source.manifest.name + ".cu",
                                  "/kiln/" + source.manifest.name + ".hip", source.manifest.name + ".hip"}) {
    const std::size_t at = text.find(name);
    if (at == std::string::npos) continue;
    const std::size_t open = at + name.size(), close = text.find("):", open);
    if (open < text.size() && text[open] == '(' && close != std::string::npos) {
      text[open] = ':';
      text.erase(close, 1);
    }
    return text.replace(at, name.size(), source.file);
  }
  return source.file + ": " + text;
}

/// "COMPILER refused NAME for TARGET: what\nlog" as one line.
std::string one_line(const std::string& text, const KernelSource& source) {
  std::string head = text.substr(0, text.find('\n'));
  const std::size_t refused = head.find(" refused "), colon = head.find(": ", refused);
  if (refused == std::string::npos || colon == std::string::npos) return with_file(head, source);
  const std::string_view log = std::string_view(text).substr(head.size());
  int errors = 0;
  for (std::size_t at = log.find(": error: "); at != std::string_view::npos;
       at = log.find(": error: ", at + 1))
    ++errors;
  return fmt::format("{} ({}{})", with_file(head.substr(colon + 2), source), head.substr(0, refused),
                     errors > 1 ? fmt::format(", the first of {} errors", errors) : "");
}

}  // namespace

Error in_one_line(const Error& error, const KernelSource& source) {
  Logger(RuntimeOptions{}).debug(error.what());
  return Error(error.code(), one_line(error.what(), source));
}

}  // namespace kiln::cli
