// --source: what a person made of a config's kernel takes the place of the emitted text.
#pragma once

#include <kiln/kiln.hpp>
#include <memory>
#include <string>

namespace kiln::cli {

/// The help of --source.
inline constexpr const char* kSourceHelp =
    "A file with the edited source of the config's kernel (`kiln generate`) to take in its place";

/// The kernel of a plan; with `path` what a person made of its text: the file, launched by the same manifest. Lines
/// that the person left alone keep their origin, others have the file itself.
/// Throws Error (bad_input) when it cannot be read, is a kernel for another target, or has no kernel of that name.
KernelSource source_of(const Plan& plan, const std::string& path);

/// Runtime::compile and Runtime::load. What a compiler says of an edited source is in_one_line().
std::shared_ptr<const Binary> compiled(Runtime& runtime, const KernelSource& source);
std::shared_ptr<Kernel> loaded(Runtime& runtime, const KernelSource& source);

}  // namespace kiln::cli
