// What the emulated device found and counted, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>
#include "cli/generate/diagnostics.hpp"
#include "cli/output.hpp"

namespace kiln::cli {

Json finding_json(const emulator::Finding& finding);
Json report_json(const emulator::Report& report);
/// "2 findings: 1 error, 1 note", or nothing.
std::string findings_summary(const std::vector<emulator::Finding>& findings);
void print_report(const emulator::Report& report, double ms, Diagnostics& diagnostics);

}  // namespace kiln::cli
