// The compiled program beside the source it comes from.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <kiln/code_object.hpp>
#include <span>
#include <sstream>

#include "cli/inspect/report_json.hpp"
#include "cli/inspect/sass.hpp"
#include "emulator/amdgcn/load/line_table.hpp"

namespace kiln::cli {
namespace {

int number_at(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// ".loc 1 142 0" is line 142; of what was inlined the line that called it, which is the one a reader looks at:
/// ".loc 1 95 3, function_name $L__info_string0, inlined_at 1 504 3".
int line_of_loc(std::string_view text) {
  constexpr std::string_view kInlined = "inlined_at ";
  const std::size_t inlined = text.find(kInlined);
  std::string_view place = inlined == std::string_view::npos ? text.substr(text.find(".loc") + 4)
                                                             : text.substr(inlined + kInlined.size());
  place.remove_prefix(std::min(place.find_first_not_of(" \t"), place.size()));
  const std::size_t gap = place.find_first_of(" \t");
  return gap == std::string_view::npos ? 0 : number_at(place.substr(gap + 1));
}

void add_ptx(const std::string& ptx, Json& lines, Json& source_lines) {
  std::istringstream in(ptx);
  int line = 0;
  for (std::string text; std::getline(in, text);) {
    if (text.find(".section") != std::string::npos && text.find(".debug") != std::string::npos) break;
    const std::size_t start = text.find_first_not_of(" \t");
    if (start == std::string::npos || text.compare(start, 2, "//") == 0) continue;
    if (text.compare(start, 4, ".loc") == 0) {
      line = line_of_loc(text);
      continue;
    }
    std::replace(text.begin(), text.end(), '\t', ' ');
    lines.push_back(text);
    source_lines.push_back(line);
  }
}

void add_isa(const Binary& binary, Json& lines, Json& source_lines) {
  namespace amd = emulator::amdgcn;
  const auto object = code_object::read(std::as_bytes(std::span(binary.image)));
  const amd::LineTable table =
      amd::read_line_table(object.debug_line, object.debug_line_str, object.debug_str);
  for (const code_object::Instruction& each : code_object::disassemble(object, binary.entry)) {
    lines.push_back(fmt::format("{:x}: {}", each.address, each.text));
    const auto after = std::upper_bound(
        table.rows.begin(), table.rows.end(), each.address,
        [](std::uint64_t address, const amd::LineRow& row) { return address < row.address; });
    source_lines.push_back(after == table.rows.begin() ? 0 : std::prev(after)->line);
  }
}

}  // namespace

Json program_json(const Binary& binary) {
  Json lines = Json::array(), source_lines = Json::array();
  const bool amd = binary.ptx.empty();
  try {
    amd ? add_isa(binary, lines, source_lines) : add_ptx(binary.ptx, lines, source_lines);
  } catch (const code_object::Error& error) {
    return {{"problem", error.what()}};
  }
  Json out{{"kind", amd ? "ISA" : "PTX"},
           {"compiler", binary.compiler},
           {"registers", binary.registers},
           {"accumulators", binary.accumulators},
           {"scalar_registers", binary.scalar_registers},
           {"spill_bytes", binary.spill_bytes},
           {"lines", lines},
           {"source_lines", source_lines}};
  if (!amd) out["machine"] = sass_json(binary);
  return out;
}

}  // namespace kiln::cli
