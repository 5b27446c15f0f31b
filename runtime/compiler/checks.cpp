// What kiln holds every compiled kernel to, read from the compiler's log and the PTX: no spills, no
// serialised wgmma, and the instructions that the generator meant to emit.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/ascii.hpp"
#include "runtime/compiler/compiler.hpp"

namespace kiln {
namespace {

/// The integer that stands before `unit` in `line`, or -1.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos) return -1;
  std::size_t begin = at;
  while (begin > 0 && is_ascii_digit(line[begin - 1])) --begin;
  int value = -1;
  std::from_chars(line.data() + begin, line.data() + at, value);
  return value;
}

template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool is_word(char c) {
  return is_ascii_word(c) || c == '$' || c == '%';
}

}  // namespace

std::string first_error(const std::string& log) {
  for (std::size_t begin = 0; begin < log.size();) {
    const std::size_t end = std::min(log.find('\n', begin), log.size());
    const std::string line = log.substr(begin, end - begin);
    if (line.find("error") != std::string::npos || line.find("fatal") != std::string::npos) return line;
    begin = end + 1;
  }
  return {};
}

void read_ptxas_log(Binary& binary) {
  for_each_line(binary.log, [&](std::string_view line) {
    if (const int spilled = number_before(line, " bytes spill stores"); spilled >= 0) {
      binary.spill_bytes += spilled + std::max(0, number_before(line, " bytes spill loads"));
      binary.stack_bytes = std::max(binary.stack_bytes, number_before(line, " bytes stack frame"));
    }
    binary.registers = std::max(binary.registers, number_before(line, " registers"));
    binary.static_smem_bytes = std::max(binary.static_smem_bytes, number_before(line, " bytes smem"));
    if (line.find("(C75") != std::string_view::npos) {
      binary.warnings.push_back("ptxas: " + std::string(line.substr(line.find("(C75"))));
    }
  });
  if (binary.spill_bytes > 0) {
    binary.warnings.push_back(
        fmt::format("spills {} bytes of registers to local memory", binary.spill_bytes));
  }
}

std::vector<std::string> compiler_warnings(std::string_view log) {
  std::vector<std::string> warnings;
  // "a.cu(3): warning #177-D: ..." of NVRTC, "ptxas warning : ...", "a.hip:3:5: warning: ..." of clang.
  for_each_line(log, [&](std::string_view line) {
    if (line.find(": warning") != std::string_view::npos || line.starts_with("ptxas warning"))
      warnings.emplace_back(line);
  });
  return warnings;
}

int count_instructions(std::string_view ptx, std::string_view prefix) {
  if (prefix.empty()) return 0;
  int count = 0;
  for (std::size_t at = ptx.find(prefix); at != std::string_view::npos; at = ptx.find(prefix, at + 1)) {
    const bool starts = at == 0 || (!is_word(ptx[at - 1]) && ptx[at - 1] != '.');
    const std::size_t end = at + prefix.size();
    const bool ends = end == ptx.size() || !is_word(ptx[end]) || prefix.back() == '.';
    count += starts && ends ? 1 : 0;
  }
  return count;
}

void check_expectations(Binary& binary, const Manifest& manifest) {
  for (const Manifest::Expectation& expected : manifest.expectations) {
    const int found = count_instructions(binary.ptx, expected.instruction);
    // More is legal: the compiler may peel or duplicate a loop body. Fewer means that work was dropped.
    if (found < expected.count) {
      binary.warnings.push_back(fmt::format("{} {} instructions in the PTX, {} expected", found,
                                            expected.instruction, expected.count));
    }
  }
}

Hash128 cache_key(const CompileJob& job, const std::string& compiler,
                  const std::vector<std::string>& options) {
  const KernelSource& source = job.source;
  const std::size_t head = std::min(source.head_bytes, source.text.size());
  const std::string_view text = source.text;
  Hasher hasher;
  hasher.field("kiln kernel key 1");
  hasher.field(job.target);
  hasher.field(compiler);
  hasher.field(options.size());
  for (const std::string& option : options) hasher.field(option);
  hasher.field(source.manifest.entry);
  // Line tables count from the top of the file, so the length of the head matters even though its words do
  // not.
  hasher.field(static_cast<std::uint64_t>(std::count(text.begin(), text.begin() + head, '\n')));
  hasher.field(text.substr(head));
  hasher.field(source.manifest.expectations.size());
  for (const Manifest::Expectation& expected : source.manifest.expectations) {
    hasher.field(expected.instruction);
    hasher.field(static_cast<std::uint64_t>(expected.count));
  }
  return hasher.digest();
}

}  // namespace kiln
