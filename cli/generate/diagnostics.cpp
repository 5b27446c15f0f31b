#include "cli/generate/diagnostics.hpp"

#include <fmt/format.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/printable.hpp"
#include "cli/generate/excerpt.hpp"
#include "cli/output.hpp"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char kRed[] = "1;31", kCyan[] = "1;36", kBlue[] = "1;34";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    // One column a character, or the carets miss.
    std::replace(line.begin(), line.end(), '\t', ' ');
    lines.push_back(std::move(line));
  }
  return lines;
}

/// "source.cu:12", or the line of the PTX.
std::string line_of(const emulator::Site& s) {
  if (s.source_line == 0) return fmt::format("line {}", s.ptx_line);
  return fmt::format("{}:{}", printable(fs::path(s.source_file).filename().string()), s.source_line);
}

std::string who(const emulator::Site& s) {
  std::string text = fmt::format("block ({},{},{})", s.block.x, s.block.y, s.block.z);
  if (s.warp >= 0) text += fmt::format(", warp {}", s.warp);
  if (s.lane >= 0) text += fmt::format(", lane {}", s.lane);
  return text;
}

}  // namespace

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : symbol;
}

Diagnostics::Diagnostics(std::string ptx_path, const std::string& ptx)
    : ptx_path_(std::move(ptx_path)), ptx_(split(printable(ptx))) {}

const Diagnostics::Lines& Diagnostics::source(const std::string& file) {
  const auto [it, fresh] = sources_.try_emplace(file);
  if (!fresh || file.empty()) return it->second;
  const fs::path name(file), beside = fs::path(ptx_path_).parent_path();
  for (const fs::path& path : {name, beside / name, beside / name.filename()}) {
    std::error_code error;
    if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > (std::uintmax_t{64} << 20))
      continue;
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    it->second = split(printable(text.str()));
    break;
  }
  return it->second;
}

std::string Diagnostics::excerpt(const std::string& path, int line, int column, int length,
                                 const Lines& lines, const char* colour) {
  const std::string number = std::to_string(line), margin(number.size(), ' ');
  std::string out = fmt::format("{} {}:{}{}\n", styled(margin + "-->", kBlue), printable(path), line,
                                column > 0 ? fmt::format(":{}", column) : "");
  if (line < 1 || static_cast<std::size_t>(line) > lines.size()) return out;
  std::string text = lines[static_cast<std::size_t>(line) - 1];
  auto from = column > 0 ? static_cast<std::size_t>(column) - 1 : text.find_first_not_of(' ');
  if (from >= text.size()) from = 0;
  std::size_t count = length > 0 ? static_cast<std::size_t>(length) : text.size() - from;
  cut_around(text, from);  // what the carets point at stays in view
  count = std::clamp<std::size_t>(count, 1, text.size() > from ? text.size() - from : 1);
  const std::string bar = styled(" | ", kBlue);
  out += fmt::format("{}{}{}\n", styled(number, kBlue), bar, text);
  return out + fmt::format("{}{}{}{}\n", margin, bar, std::string(from, ' '),
                           styled("^" + std::string(count - 1, '~'), colour));
}

std::string Diagnostics::place(const emulator::Site& s, const char* colour) {
  std::string out;
  if (s.source_line > 0)
    out += excerpt(s.source_file, s.source_line, s.source_column, 1, source(s.source_file), colour);
  if (s.caller_line > 0)
    out += "  inlined here:\n" +
           excerpt(s.caller_file, s.caller_line, s.caller_column, 1, source(s.caller_file), colour);
  if (s.ptx_line < 1) return out;
  // Of a code object the line is one of the disassembly, which the finding carries along.
  const auto at = static_cast<std::size_t>(s.ptx_line) - 1;
  std::string start = printable(s.ptx_text.substr(0, 24));
  std::replace(start.begin(), start.end(), '\t', ' ');
  const bool here = at < ptx_.size() && ptx_[at].find(start) != std::string::npos;
  if (here) return out + excerpt(ptx_path_, s.ptx_line, s.ptx_column, s.ptx_length, ptx_, colour);
  return out + fmt::format("  {}\n", printable(s.ptx_text));
}

std::string Diagnostics::text(const emulator::Finding& f) {
  const bool error = f.severity == emulator::Severity::error;
  const std::string head = error ? f.kind : fmt::format("{} ({})", f.kind, emulator::to_string(f.severity));
  std::string out =
      fmt::format("{} {}\n", styled(head + ":", error ? kRed : kCyan), bold(printable(f.message)));
  out += fmt::format("  in {}, {}{}\n", printable(demangled(f.site.kernel)), who(f.site),
                     f.count > 1 ? fmt::format(" and {} more times", f.count - 1) : "");
  out += place(f.site, kRed);
  if (f.has_other)
    out += fmt::format("{} {}\n{}", styled("other party:", kCyan), who(f.other), place(f.other, kCyan));
  if (f.places > 1) out += fmt::format("the same at {} more places:", f.places - 1);
  for (const emulator::Finding::Place& p : f.more) {
    out += fmt::format(" {}", line_of(p.site));
    if (f.has_other) out += fmt::format(" with {}", line_of(p.other));
    out += &p != &f.more.back() ? "," : f.places - 1 > f.more.size() ? ", ...\n" : "\n";
  }
  return out;
}

}  // namespace kiln::cli
