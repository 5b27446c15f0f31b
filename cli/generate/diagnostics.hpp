// Findings of the emulated device, printed as a compiler prints its diagnostics: what, where, the line itself
// with carets, and the other party.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>

namespace kiln::cli {

/// A kernel's name as its source has it; what is no mangled name stays.
std::string demangled(const std::string& symbol);

class Diagnostics {
 public:
  /// `ptx_path` is how the program was named, `ptx` its text.
  Diagnostics(std::string ptx_path, const std::string& ptx);
  /// The finding as text, several lines.
  std::string text(const emulator::Finding& finding);

 private:
  using Lines = std::vector<std::string>;
  /// The lines of a source file: as `.file` names it, or beside the PTX; empty when it is not at hand.
  const Lines& source(const std::string& file);
  std::string place(const emulator::Site& site, const char* colour);
  std::string excerpt(const std::string& path, int line, int column, int length, const Lines& lines,
                      const char* colour);

  std::string ptx_path_;
  Lines ptx_;
  std::map<std::string, Lines> sources_;
};

}  // namespace kiln::cli
