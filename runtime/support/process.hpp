// A program run to its end in a process of its own, with its input and output in memory.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

struct ProcessRequest {
  std::vector<std::string> arguments;  ///< the first is the program: a path, or a name to look up in PATH
  /// Instead of a file: the program's own bytes (an ELF executable); arguments[0] is then only its name.
  std::string_view program;
  std::string input;                                             ///< its standard input
  std::string folder;                                            ///< where it runs; empty: where we are
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to ours
  int timeout_s = 600;                                           ///< then it is killed
};

struct ProcessResult {
  bool started = false;
  std::string problem;  ///< why it did not start
  int status = 0;       ///< exit status, when no signal ended it
  int signal = 0;       ///< the signal that ended it, or 0
  bool timed_out = false;
  std::string output, errors;
  bool ok() const { return started && signal == 0 && status == 0; }
  /// "exit status 3", "killed by signal 6 (Aborted)", "no end after 600 s", or why it did not start.
  std::string end() const;
};

/// Never throws for what the program does. Ended by remove_unfinished() as well. Safe to call from several
/// threads.
ProcessResult run_process(const ProcessRequest& request);

}  // namespace kiln
