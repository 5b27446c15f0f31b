// The report as a page: templates/inspect.html, which is handed one document. And the timeline as a picture of its own.
#include "cli/inspect/inspect_html.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/inspect/page.hpp"
#include "cli/output.hpp"
#include "generator/schedules/schedule.hpp"

namespace kiln::cli {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string html_page(const Json& report, const Json& other) {
  Json data{{"report", report}};
  if (!other.is_null()) data["other"] = other;
  return filled_page("inspect.html", data);
}

std::string timeline_svg(const Plan& plan) {
  const Timeline timeline = plan.schedule().timeline();
  if (timeline.empty()) return "";
  double last = 0;
  for (const TimelineSpan& span : timeline.spans) last = std::max(last, span.end);
  constexpr double kWidth = 1000, kLeft = 90, kLane = 26;
  const double scale = (kWidth - kLeft - 20) / last;  // half of the last clock label beyond it
  const double height = 24 + kLane * static_cast<double>(timeline.lanes.size()) + 44;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"14\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"4\" y=\"14\" font-size=\"15\">{2}</text>\n",
      kWidth, height, escaped(*plan.resolved().schedule + ": " + config_name(plan.resolved())));
  for (std::size_t i = 0; i < timeline.lanes.size(); ++i) {
    out += fmt::format("<text x=\"4\" y=\"{:.1f}\">{}</text>\n", 24 + kLane * static_cast<double>(i) + 16,
                       escaped(timeline.lanes[i]));
  }
  for (const TimelineSpan& span : timeline.spans) {
    static constexpr const char* kColours[] = {"#cfd8dc", "#90caf9", "#ffcc80", "#a5d6a7"};
    const double x = kLeft + span.begin * scale, width = std::max((span.end - span.begin) * scale, 0.5);
    const double y = 24 + kLane * span.lane;
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" stroke=\"#fff\"/>", x,
        y + 2, width, kLane - 4, kColours[static_cast<int>(span.kind)]);
    if (width > 7.0 * static_cast<double>(span.text.size()))
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", x + width / 2,
                         y + 16, escaped(span.text));
    out += "\n";
  }
  const double foot = 24 + kLane * static_cast<double>(timeline.lanes.size());
  for (int i = 0; i <= 8; ++i) {
    const double cycles = last * i / 8;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#777\">{:.0f}</text>\n",
                       kLeft + cycles * scale, foot + 14, cycles);
  }
  return out + fmt::format("<text x=\"4\" y=\"{:.1f}\" fill=\"#777\">clocks. {}</text></svg>\n", foot + 32,
                           escaped(timeline.note));
}

}  // namespace kiln::cli
