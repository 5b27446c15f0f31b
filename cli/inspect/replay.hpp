// A run on the emulated device over time: which warp waited for whom, with how much slack, and the critical path.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "emulator/machine/trace.hpp"

namespace kiln::cli {

/// Who made a wait end, and when.
struct WaitEnd {
  double time = -1;  ///< negative: nothing that the trace knows
  int warp = 0;
  std::string cause;
  bool own =
      false;  ///< the end of a copy, load or product, which began before: the path goes on at its begin
};

struct ReplayedWait {
  int warp = 0, line = 0;
  std::string kind;                 ///< "mbarrier", "barrier", "copies", "wgmma", "memory", "LDS", "scalar"
  std::uint64_t id = 0, phase = 0;  ///< of barriers; of groups `id` is how many may be under way
  double from = 0, to = 0;
  double slack = 0;  ///< how long before what it waits for was complete, when from == to
  WaitEnd end;
};

struct ReplayedStretch {
  int warp = 0;
  double from = 0, to = 0;
};

/// Time is in units of an instruction: mma.sync and MFMA are 16 of them, a wgmma 32 after it was issued, a tcgen05.mma 64, a
/// copy or load from memory 600, a read of LDS 64, one through the scalar cache 200. Who waits for whom is what happened in
/// the run, the lengths are these rules of thumb.
struct Replay {
  std::map<int, double> ends;  ///< by warp
  double end = 0;
  std::vector<ReplayedWait> waits;
  int unknown = 0;                    ///< waits for what the trace does not know
  std::vector<ReplayedStretch> path;  ///< the critical path, from the end of the run back to its begin
};

Replay replay(const std::vector<emulator::TraceEvent>& events);

/// {end, unknown, warps: [[warp, end], ...], waits: [{warp, line, kind, id, phase, from, to, slack, by, cause}], path: [[warp, from, to]]}
Json replay_json(const Replay& replay);

/// The same as a picture of its own, `title` above it; for light and dark pages.
std::string replay_svg(const Replay& replay, const std::string& title, const std::string& problem);

}  // namespace kiln::cli
