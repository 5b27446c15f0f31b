// Statements rewritten as texts: an access weakened, moved, or taken apart. Each returns the statement in its place, or
// nothing where the statement is none of that sort.
#pragma once

#include <string>

#include "emulator/mutate/statement.hpp"

namespace kiln::emulator {

/// An atomic as a plain load, the operation and a plain store.
std::string split_atomic(const Statement& s, const ptx::Instruction& in);
/// An atomic, strong access, fence or membar of cta scope instead of a wider one.
std::string narrow_scope(const Statement& s, const ptx::Instruction& in);
/// A load or store without volatile, or without relaxed and its scope.
std::string plain_access(const Statement& s, const ptx::Instruction& in);
/// The load or store one access further on; `operand` is its address.
std::string next_address(const Statement& s, const ptx::Instruction& in, std::size_t operand);
/// A comparison of integers with < for <=, and so on.
std::string other_bound(const Statement& s, const ptx::Instruction& in);
/// The statement for all lanes.
std::string without_guard(const Statement& s, const ptx::Instruction& in);

}  // namespace kiln::emulator
