// What every AMD compiler's result goes through: resources out of the code object's metadata, and the static
// checks on its disassembly.
#pragma once

#include "runtime/compiler/compiler.hpp"

namespace kiln {

/// Fills name, entry, target and resources of a binary whose image is a code object, and appends the
/// warnings: spills, scratch memory, missing instructions. Throws Error (compile) when the image is none or
/// lacks the entry.
void finish_code_object(Binary& binary, const CompileJob& job);

/// The instructions of a code object's kernel as text, one a line, each after its address. Throws Error
/// (environment) when no LLVM library can disassemble the target.
std::string disassemble(const Binary& binary);

/// Compiles an empty kernel for every AMD target that `compiler` offers; fills report.targets and, for the
/// first that fails, report.problem.
void try_targets(KernelCompiler& compiler, DoctorReport::Compiler& report);

}  // namespace kiln
