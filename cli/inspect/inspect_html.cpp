#include "cli/inspect/inspect_html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "generator/config/defaults.hpp"
#include "generator/schedules/schedule.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kStyle =
    "body{font:14px/1.45 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:22px}h2{font-size:17px;border-bottom:1px solid #ddd;margin-top:2em}"
    "table{border-collapse:collapse}td,th{padding:2px 10px 2px 0;text-align:left;vertical-align:top}"
    "code,pre{font:12px/1.4 ui-monospace,monospace}pre{overflow-x:auto;background:#f7f7f7;padding:8px}"
    ".n{color:#999;user-select:none}.c{color:#577a3a}.grid "
    "td{width:34px;height:20px;text-align:center;padding:0;"
    "border:1px solid #fff;font:11px ui-monospace,monospace}.bad{color:#b00020}svg{max-width:100%}";

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

void rows(std::string& out, const Json& value, const std::string& prefix) {
  for (const auto& [key, item] : value.items()) {
    const std::string name = prefix.empty() ? key : fmt::format("{}.{}", prefix, key);
    if (item.is_object() && !item.empty()) {
      rows(out, item, name);
    } else {
      out += fmt::format("<tr><td><code>{}</code></td><td><code>{}</code></td></tr>\n", escaped(name),
                         escaped(item.dump()));
    }
  }
}

std::string table(const Json& value) {
  std::string out = "<table>\n";
  rows(out, value, "");
  return out + "</table>\n";
}

// Where the 16-byte chunks of the first rows of a tile lie: the swizzle as the config has it.
std::string swizzle_grid(const Config& config) {
  if (!config.swizzle) return "";
  XorSwizzle s = xor_swizzle(*config.swizzle);
  if (s.element_domain) s.base -= 3;
  const int per_row = s.bits == 0 ? 8 : std::max(2, 1 << (s.bits + s.base));
  const int count = 8 * 8;  // vectors of 1 KiB: each line of eight is one pass over all 32 banks
  std::string out = fmt::format(
      "<p>The first KiB of a tile, 128 bytes a line (all 32 banks): which row and 16-byte chunk lies where, "
      "rows of {} "
      "bytes. A column that repeats a colour would be a bank conflict for eight rows of one "
      "chunk.</p>\n<table "
      "class=grid>\n",
      16 * per_row);
  std::vector<int> logical(count, 0);
  const int mask = ((1 << s.bits) - 1) << s.base;
  for (int v = 0; v < count; ++v) {
    const int physical = v ^ (s.bits == 0 ? 0 : (v >> s.shift) & mask);
    if (physical < count) logical[static_cast<std::size_t>(physical)] = v;
  }
  for (int line = 0; line < count / 8; ++line) {
    out += "<tr>";
    for (int column = 0; column < 8; ++column) {
      const int v = logical[8 * static_cast<std::size_t>(line) + static_cast<std::size_t>(column)];
      out += fmt::format("<td style=\"background:hsl({},55%,80%)\">{}:{}</td>", 45 * (v % per_row),
                         v / per_row, v % per_row);
    }
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

std::string proofs_table(const Plan& plan) {
  std::string out = "<table><tr><th>map</th><th>holds</th><th>bank conflicts, worst access</th></tr>\n";
  for (const auto& proof : plan.schedule().layout_proofs()) {
    out += fmt::format("<tr><td>{}</td><td{}>{}</td><td{}>{}</td></tr>\n", escaped(proof.what),
                       proof.holds ? "" : " class=bad", proof.holds ? "yes" : "no",
                       proof.bank_conflicts == 0 ? "" : " class=bad", proof.bank_conflicts);
  }
  return out + "</table>\n";
}

// A line's number tells which line of kiln wrote it when the pointer is over it.
std::string source_lines(const KernelSource& source) {
  std::istringstream in(source.text);
  std::string out = "<pre>", line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::size_t start = line.find_first_not_of(' ');
    const bool comment = start != std::string::npos && line.compare(start, 2, "//") == 0;
    const LineOrigin& origin = source.origins.at(static_cast<std::size_t>(number - 1));
    out += fmt::format("<span class=n id=L{0} title=\"{4}:{5}\">{0:5d}</span>  {1}{2}{3}\n", number,
                       comment ? "<span class=c>" : "", escaped(line), comment ? "</span>" : "", origin.file,
                       origin.line);
  }
  return out + "</pre>\n";
}

// The comments that open a phase, linked to their lines.
std::string outline(const std::string& text) {
  std::istringstream in(text);
  std::string out = "<p>", line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::size_t at = line.find("// ---- ");
    if (at != std::string::npos)
      out += fmt::format("<a href=\"#L{0}\">{0}</a> {1}<br>\n", number, escaped(line.substr(at + 8)));
  }
  return out + "</p>\n";
}

}  // namespace

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
      "font-family=\"sans-serif\" font-size=\"10\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"4\" y=\"14\" font-size=\"12\">{2}</text>\n",
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

std::string html_report(const Plan& plan, const KernelSource& source) {
  const Json planned = Json::parse(plan.to_json());
  const std::string name = escaped(source.manifest.name);
  std::string out = fmt::format(
      "<!doctype html><html lang=en><head><meta "
      "charset=utf-8><title>{0}</title><style>{1}</style></head><body>\n"
      "<h1>{0}</h1><p>kiln {2}, schedule <code>{3}</code>, {4} KiB of source, entry <code>{5}</code></p>\n",
      name, kStyle, version(), escaped(plan.resolved().schedule.value_or("")), source.text.size() / 1024,
      escaped(source.manifest.entry));
  out += "<h2>Resources</h2>\n" + table(planned["resources"]);
  if (const std::string svg = timeline_svg(plan); !svg.empty()) out += "<h2>Timeline</h2>\n" + svg;
  out += "<h2>Layouts and bank conflicts</h2>\n" + swizzle_grid(plan.resolved()) + proofs_table(plan);
  out += "<h2>Config</h2>\n" + table(planned["resolved"]);
  out += "<h2>Derived constants</h2>\n" + table(planned["systems"]);
  Json params = Json::object();
  for (const KernelParam& param : source.manifest.params)
    params[param.role + (param.kind == KernelParam::Kind::tensor_map ? " (tensor map)" : "")] =
        param.kind == KernelParam::Kind::pointer    ? "pointer"
        : param.kind == KernelParam::Kind::i32      ? "i32"
        : param.kind == KernelParam::Kind::i64      ? "i64"
        : param.kind == KernelParam::Kind::f32      ? "f32"
        : param.kind == KernelParam::Kind::captured ? "struct"
                                                    : "128 bytes";
  out += "<h2>Kernel parameters</h2>\n" + table(params);
  out += "<h2>Source</h2>\n" + outline(source.text) + source_lines(source);
  return out + "</body></html>\n";
}

}  // namespace kiln::cli
