#include "cli/inspect/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kiln::cli {
namespace {

using emulator::TraceEvent;
using What = TraceEvent::What;

constexpr double kCopy = 600, kWgmma = 32, kTensor = 64, kLds = 64, kScalar = 200;

class Replayer {
 public:
  void add(const TraceEvent& e);
  Replay finish();

 private:
  struct WarpState {
    double now = 0;
    std::uint64_t seen = 0;
    std::vector<std::pair<std::uint64_t, double>> starts{
        {0, 0.0}};                          ///< instructions, and their time after a wait
    std::vector<WaitEnd> copies, products;  ///< groups of cp.async and of wgmma
    std::uint64_t issued = 0, tensor_issued = 0;
    double products_free = 0, tensor_free = 0;
  };
  using Mark = std::pair<std::uint64_t, std::uint64_t>;  ///< barrier, phase

  static void meet(std::map<Mark, WaitEnd>& map, const TraceEvent& e, WaitEnd end) {
    WaitEnd& known = map[{e.id, e.phase}];
    if (known.time <= end.time) known = std::move(end);
  }
  void arrive(const TraceEvent& e, WarpState& w);
  void commit(const TraceEvent& e, WarpState& w);
  void wait(const TraceEvent& e, WarpState& w);
  void wait_memory(const TraceEvent& e, WarpState& w);
  void until(const TraceEvent& e, WarpState& w, const char* kind, const WaitEnd* end);
  static const WaitEnd* found(const std::map<Mark, WaitEnd>& map, const TraceEvent& e) {
    const auto it = map.find({e.id, e.phase});
    return it == map.end() ? nullptr : &it->second;
  }
  static const WaitEnd* group(const std::vector<WaitEnd>& groups, std::uint64_t keep) {
    return keep < groups.size() ? &groups[groups.size() - 1 - keep] : nullptr;
  }

  std::map<int, WarpState> warps_;
  std::map<Mark, WaitEnd> phases_, bars_;
  Replay out_;
};

void Replayer::add(const TraceEvent& e) {
  WarpState& w = warps_[e.warp];
  w.now += static_cast<double>(e.instructions - std::min(e.instructions, w.seen));
  w.seen = std::max(w.seen, e.instructions);
  arrive(e, w);
  commit(e, w);
  wait(e, w);
  wait_memory(e, w);
}

void Replayer::arrive(const TraceEvent& e, WarpState& w) {
  if (e.what == What::arrive)
    meet(phases_, e, {w.now, e.warp, fmt::format("an arrival of warp {}", e.warp), false});
  if (e.what == What::copy)
    meet(phases_, e, {w.now + kCopy, e.warp, fmt::format("a copy that warp {} began", e.warp), true});
  if (e.what == What::bar_arrive)
    meet(bars_, e, {w.now, e.warp, fmt::format("the last warp, {}", e.warp), false});
  if (e.what == What::tensor_commit) {
    w.tensor_free = std::max(w.tensor_free, w.now) + kTensor * static_cast<double>(e.count - w.tensor_issued);
    w.tensor_issued = e.count;
    meet(phases_, e, {w.tensor_free, e.warp, fmt::format("products that warp {} issued", e.warp), true});
  }
}

void Replayer::commit(const TraceEvent& e, WarpState& w) {
  if (e.what == What::commit) w.copies.push_back({w.now + kCopy, e.warp, "its own copies", true});
  if (e.what == What::wgmma_commit) {
    w.products_free = std::max(w.products_free, w.now) + kWgmma * static_cast<double>(e.count - w.issued);
    w.issued = e.count;
    w.products.push_back({w.products_free, e.warp, "its own products", true});
  }
}

void Replayer::wait(const TraceEvent& e, WarpState& w) {
  if (e.what == What::wait) until(e, w, "mbarrier", found(phases_, e));
  if (e.what == What::bar_wait) until(e, w, "barrier", found(bars_, e));
  if (e.what == What::commit_wait) until(e, w, "copies", group(w.copies, e.count));
  if (e.what == What::wgmma_wait) until(e, w, "wgmma", group(w.products, e.count));
}

void Replayer::wait_memory(const TraceEvent& e, WarpState& w) {
  if (e.what != What::memory_wait) return;
  static constexpr std::array kKinds{"memory", "LDS", "scalar"};
  static constexpr std::array kCauses{"its own loads and copies", "its own LDS accesses",
                                      "its own scalar loads"};
  static constexpr std::array kLatencies{kCopy, kLds, kScalar};
  const auto kind = std::min<std::size_t>(e.count, kKinds.size() - 1);
  const auto after = std::upper_bound(w.starts.begin(), w.starts.end(), e.phase,
                                      [](std::uint64_t at, const auto& start) { return at < start.first; });
  const auto& [instructions, time] = *std::prev(after);
  const WaitEnd end{time + static_cast<double>(e.phase - instructions) + kLatencies.at(kind), e.warp,
                    kCauses.at(kind), true};
  until(e, w, kKinds.at(kind), &end);
}

void Replayer::until(const TraceEvent& e, WarpState& w, const char* kind, const WaitEnd* end) {
  if (end == nullptr) {
    const bool nothing_pending = e.what == What::commit_wait || e.what == What::wgmma_wait;
    out_.unknown += static_cast<int>(!nothing_pending);
    return;
  }
  const bool groups = e.what == What::commit_wait || e.what == What::wgmma_wait;
  ReplayedWait wait{e.warp, e.line, kind, groups ? e.count : e.id, e.phase, w.now, w.now, 0, *end};
  if (end->time > w.now) {
    w.now = wait.to = end->time;
    w.starts.emplace_back(w.seen, w.now);
  } else {
    wait.slack = w.now - end->time;
  }
  out_.waits.push_back(std::move(wait));
}

Replay Replayer::finish() {
  int warp = 0;
  for (const auto& [index, w] : warps_) {
    out_.ends[index] = w.now;
    if (w.now > out_.end) warp = index;
    out_.end = std::max(out_.end, w.now);
  }
  constexpr int kMostSteps = 500;
  double time = out_.end;
  for (int i = 0; i < kMostSteps && time > 0; ++i) {
    const auto last = std::find_if(out_.waits.rbegin(), out_.waits.rend(), [&](const ReplayedWait& wait) {
      return wait.warp == warp && wait.to > wait.from && wait.to <= time;
    });
    out_.path.push_back({warp, last == out_.waits.rend() ? 0 : last->to, time});
    if (last == out_.waits.rend()) break;
    time = std::min(last->end.own ? last->from : last->end.time, last->to);
    warp = last->end.warp;
  }
  return std::move(out_);
}

constexpr const char* kStyle =
    "<style>text{font:15px system-ui,sans-serif;fill:#24292f}.t{font-size:17px;font-weight:600}.m{fill:#57606a}"
    ".w{fill:#54aeff}.o{fill:#fb8f44}.p{stroke:#cf222e;stroke-width:3}.b{fill:#fff}\n"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9198a1}.b{fill:#0d1117}.w{fill:#1f6feb}"
    ".o{fill:#bd561d}.p{stroke:#ff7b72}}</style>\n";

}  // namespace

Replay replay(const std::vector<TraceEvent>& events) {
  Replayer replayer;
  for (const TraceEvent& event : events) replayer.add(event);
  return replayer.finish();
}

Json replay_json(const Replay& replay) {
  Json warps = Json::array(), waits = Json::array(), path = Json::array();
  for (const auto& [warp, end] : replay.ends) warps.push_back({warp, end});
  for (const ReplayedWait& w : replay.waits) {
    Json each{{"warp", w.warp},   {"line", w.line}, {"kind", w.kind}, {"id", w.id},
              {"phase", w.phase}, {"from", w.from}, {"to", w.to}};
    if (w.to == w.from) each["slack"] = w.slack;
    each["cause"] = w.end.cause;
    waits.push_back(std::move(each));
  }
  for (const ReplayedStretch& s : replay.path) path.push_back({s.warp, s.from, s.to});
  return {
      {"end", replay.end}, {"unknown", replay.unknown}, {"warps", warps}, {"waits", waits}, {"path", path}};
}

std::string replay_svg(const Replay& replay, const std::string& title, const std::string& problem) {
  constexpr double kWidth = 840, kLeft = 76, kLane = 26, kTop = 40;
  const double scale = (kWidth - kLeft - 24) / std::max(replay.end, 1.0);
  const double foot = kTop + kLane * static_cast<double>(replay.ends.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\">\n{2}<title>{3}</title>"
      "<rect class=\"b\" width=\"{0:.0f}\" height=\"{1:.0f}\"/><text class=\"t\" x=\"4\" y=\"22\">{3}</text>\n",
      kWidth, foot + 72, kStyle, title);
  std::map<int, double> lanes;
  const auto bar = [&](const char* kind, int warp, double from, double to) {
    out += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\"/>\n",
                       kind, kLeft + from * scale, lanes[warp] + 3, std::max((to - from) * scale, 0.5),
                       kLane - 8);
  };
  for (const auto& [warp, end] : replay.ends) {
    const double y = lanes[warp] = kTop + kLane * static_cast<double>(lanes.size());
    out += fmt::format("<text x=\"4\" y=\"{:.0f}\">warp {}</text>\n", y + 17, warp);
    bar("w", warp, 0, end);
  }
  for (const ReplayedWait& w : replay.waits)
    if (w.to > w.from) bar("o", w.warp, w.from, w.to);
  for (const ReplayedStretch& s : replay.path)
    out += fmt::format("<path class=\"p\" d=\"M{:.1f} {:.0f}H{:.1f}\"/>\n", kLeft + s.from * scale,
                       lanes[s.warp] + kLane - 3, kLeft + s.to * scale);
  for (int i = 0; i <= 4; ++i)
    out += fmt::format("<text class=\"m\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\">{:.0f}</text>\n",
                       kLeft + replay.end * i / 4 * scale, foot + 16, i == 4 ? "end" : "middle",
                       replay.end * i / 4);
  out += fmt::format(
      "<text class=\"m\" x=\"4\" y=\"{:.0f}\">Blue works, orange waits, red is the critical path; units of an instruction."
      "</text>\n<text class=\"m\" x=\"4\" y=\"{:.0f}\">The first block of a run on the emulated device: {}</text></svg>\n",
      foot + 40, foot + 62, problem);
  return out;
}

}  // namespace kiln::cli
