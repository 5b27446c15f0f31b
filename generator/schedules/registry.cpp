// Every schedule kiln has, the default one of each (target, operation) first. A new main loop is one line
// here.
#include "generator/schedules/schedule.hpp"

namespace kiln {

std::span<const ScheduleEntry> schedules() {
  // A vector, since the list may be empty in a build without schedules.
  static const std::vector<ScheduleEntry> entries{};
  return entries;
}

}  // namespace kiln
