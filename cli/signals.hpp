// Ctrl-C and its relatives, wherever the program is.
#pragma once

namespace kiln::cli {

/// From now on SIGINT, SIGTERM and SIGHUP remove what is half done, print one line and end the process by
/// that signal (a shell sees 130, 143, 129); those that were ignored stay ignored. Call it before any thread
/// is started.
void end_on_signals();

/// From now on those signals are for the process `child`, which ends by itself; 0: for this one again. What the
/// terminal sends reaches both by itself.
void forward_signals(int child);

}  // namespace kiln::cli
