// The mutants of a compiled program and the loop that judges them, on as many host threads as there are cores: what
// noticed each, and of those that nothing notices whether they change anything and whether anything runs them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <kiln/emulator/amdgcn.hpp>
#include "emulator/amdgcn/mutate.hpp"
#include "emulator/mutate/mutate.hpp"

namespace kiln {

/// A change of PTX, of a code object, or of something else that the owner knows of.
struct Candidate {
  std::string kind = {};       ///< emulator::mutation_kinds()
  std::string change = {};     ///< "removed", "parity flipped", ...
  std::string statement = {};  ///< the statement, or what else is changed
  int line = 0;                ///< of the PTX or the disassembly; 0: not a statement
  std::string source_file = {};
  int source_line = 0;  ///< of the call where a helper was inlined; 0: unknown
  std::optional<emulator::Mutation> ptx = {};
  std::optional<emulator::amdgcn::Mutation> patch = {};
  int owner = -1;           ///< what the owner makes of it: a module, a parameter
  std::string module = {};  ///< name of the program, where there are several

  // What became of it.
  std::string killed_by = {};   ///< "deadlock (lazy)"; empty: it survived
  std::string equivalent = {};  ///< why it survived with reason
  bool reached = true;          ///< of a survivor: some run comes by
  bool survives() const { return killed_by.empty() && equivalent.empty(); }
};

std::vector<Candidate> ptx_candidates(const std::string& text,
                                      emulator::MutationSet set = emulator::MutationSet::synchronisation);
std::vector<Candidate> code_object_candidates(const std::string& image, const std::string& name,
                                              const std::string& kernel);
/// The program with the change; `program` is PTX text or a code object.
std::string changed_program(const std::string& program, const Candidate& candidate);

/// What notices a candidate; empty: nothing does. Called by one thread.
using Killer = std::function<std::string(const Candidate&)>;

struct JudgeOptions {
  int threads = 0;  ///< 0: as many as the host has
  /// Told after each, from any thread, one call at a time.
  std::function<void(std::size_t done, std::size_t total, std::size_t survivors)> progress = {};
  /// Sees first whether a run comes by a statement; mutants of others survive untried.
  bool reach_first = false;
};
/// Judges all; each thread makes a killer of its own.
void judge(std::vector<Candidate>& candidates, const std::function<Killer()>& make_killer,
           const JudgeOptions& options);

}  // namespace kiln
