// inspect --html: one self-contained page about a config.
#pragma once

#include <string>

#include <kiln/generator.hpp>

namespace kiln::cli {

/// The page: resources, config, timeline, layouts with their proofs, derived constants, parameters, source
/// with line numbers. No scripts, no other files.
std::string html_report(const Plan& plan, const KernelSource& source);

/// A timeline as a stand-alone SVG picture; empty when the schedule has none.
std::string timeline_svg(const Plan& plan);

}  // namespace kiln::cli
