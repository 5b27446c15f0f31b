// What Module holds: the parsed text and the decoded form of each kernel.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>
#include "emulator/machine/program.hpp"
#include "emulator/ptx/parse/ast.hpp"

namespace kiln::emulator {

struct Module::Impl {
  std::string name;
  ptx::Module ast;
  std::vector<std::size_t> line_starts;
  std::vector<int> synchronisations;  ///< PTX lines of barriers, waits and fences, ascending
  std::map<std::string, std::unique_ptr<Program>, std::less<>> programs;  ///< by kernel
  std::map<std::string, Error, std::less<>> undecoded;  ///< kernels that cannot run, and why

  static Module load(std::string_view text, std::string name, bool by_kernel);
  std::string line(int number) const;
  const Program& program(std::string_view kernel) const;
  /// Offsets and total size of the kernel's parameter block.
  std::vector<Parameter> params(const ptx::Function& f) const;
  /// Places the module's variables in `memory`; addresses by variable index (0 for those of other spaces).
  std::vector<std::uint64_t> place_variables(GlobalMemory& memory) const;
};

}  // namespace kiln::emulator
