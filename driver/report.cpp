#include "driver/report.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "emulator/machine/causes.hpp"

namespace kiln::driver {
namespace {

namespace em = kiln::emulator;

Json to_json(const em::Site& s) {
  return {{"kernel", s.kernel},
          {"block", {s.block.x, s.block.y, s.block.z}},
          {"warp", s.warp},
          {"lane", s.lane},
          {"ptx_line", s.ptx_line},
          {"ptx_column", s.ptx_column},
          {"ptx_length", s.ptx_length},
          {"ptx", s.ptx_text},
          {"source_file", s.source_file},
          {"source_line", s.source_line},
          {"source_column", s.source_column},
          {"caller_file", s.caller_file},
          {"caller_line", s.caller_line},
          {"caller_column", s.caller_column}};
}

em::Site site_from(const Json& j) {
  em::Site s;
  s.kernel = j.at("kernel");
  s.block = {j.at("block").at(0), j.at("block").at(1), j.at("block").at(2)};
  s.warp = j.at("warp");
  s.lane = j.at("lane");
  s.ptx_line = j.at("ptx_line");
  s.ptx_column = j.at("ptx_column");
  s.ptx_length = j.at("ptx_length");
  s.ptx_text = j.at("ptx");
  s.source_file = j.at("source_file");
  s.source_line = j.at("source_line");
  s.source_column = j.at("source_column");
  s.caller_file = j.at("caller_file");
  s.caller_line = j.at("caller_line");
  s.caller_column = j.at("caller_column");
  return s;
}

void add(em::Counters& to, const em::Counters& from) {
  to.warp_instructions += from.warp_instructions;
  to.lane_instructions += from.lane_instructions;
  to.shared_accesses += from.shared_accesses;
  to.shared_bank_conflicts += from.shared_bank_conflicts;
  to.global_accesses += from.global_accesses;
  to.global_sectors += from.global_sectors;
  to.global_bytes_read += from.global_bytes_read;
  to.global_bytes_written += from.global_bytes_written;
  to.async_bytes += from.async_bytes;
  to.matrix_flops += from.matrix_flops;
}

}  // namespace

Json to_json(const em::Finding& f) {
  Json j{{"kind", f.kind},       {"severity", static_cast<int>(f.severity)},
         {"message", f.message}, {"count", f.count},
         {"places", f.places},   {"site", to_json(f.site)}};
  if (f.has_other) j["other"] = to_json(f.other);
  for (const em::Finding::Place& p : f.more) j["more"].push_back({to_json(p.site), to_json(p.other)});
  return j;
}

em::Finding finding_from(const Json& j) {
  em::Finding f;
  f.kind = j.at("kind");
  f.severity = static_cast<em::Severity>(j.at("severity").get<int>());
  f.message = j.at("message");
  f.count = j.at("count");
  f.places = j.at("places");
  f.site = site_from(j.at("site"));
  f.has_other = j.contains("other");
  if (f.has_other) f.other = site_from(j.at("other"));
  if (j.contains("more"))
    for (const Json& p : j.at("more")) f.more.push_back({site_from(p.at(0)), site_from(p.at(1))});
  return f;
}

void Report::line(const Json& json) {
  if (path_.empty()) return;
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  // O_APPEND and one write: lines of several processes do not mix.
  const int file = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  close(file);
}

void Report::name_module(std::uint64_t module, const std::string& name, const std::string& ptx) {
  if (!std::exchange(modules_[module].named, true))
    line({{"type", "module"}, {"process", getpid()}, {"module", module}, {"name", name}, {"ptx", ptx}});
}

void Report::launched(const std::string& kernel, std::uint64_t instructions, std::uint64_t module,
                      const std::string& name, const std::string& ptx) {
  auto& longest = modules_[module].longest;
  const auto [known, first] = longest.try_emplace(kernel, instructions);
  if (!first && instructions <= known->second) return;
  known->second = instructions;
  name_module(module, name, ptx);
  line({{"type", "launch"},
        {"process", getpid()},
        {"module", module},
        {"kernel", kernel},
        {"instructions", instructions}});
}

void Report::launch(const em::Report& report, std::uint64_t module, const em::Module& code,
                    const std::string& name, const std::string& ptx) {
  ++launches_;
  add(counters_, report.counters);
  for (const em::Finding& f : report.findings) {
    Known& known = modules_[module];
    if (!known.mistakes.add(f, em::causes_of(code.impl(), f))) continue;
    if (path_.empty())
      std::fprintf(stderr, "kiln: %s: %s, in %s\n", f.kind.c_str(), f.message.c_str(), f.site.kernel.c_str());
    name_module(module, name, ptx);
    line({{"type", "finding"}, {"process", getpid()}, {"module", module}, {"finding", to_json(f)}});
  }
}

void Report::unsupported(const std::string& what, const std::string& reason) {
  if (++unsupported_[what] > 1) return;
  if (path_.empty()) std::fprintf(stderr, "kiln: %s: %s\n", what.c_str(), reason.c_str());
  line({{"type", "unsupported"}, {"process", getpid()}, {"what", what}, {"reason", reason}});
}

void Report::finish() {
  if (finished_) return;
  finished_ = true;
  Json findings = Json::array(), calls = Json::object();
  for (auto& [module, known] : modules_)
    for (const em::Finding& f : known.mistakes.take())
      findings.push_back({{"module", module}, {"finding", to_json(f)}});
  for (const auto& [what, times] : unsupported_) calls[what] = times;
  const em::Counters& c = counters_;
  line({{"type", "end"},
        {"process", getpid()},
        {"launches", launches_},
        {"findings", findings},
        {"unsupported", calls},
        {"instructions", c.warp_instructions},
        {"shared_accesses", c.shared_accesses},
        {"bank_conflicts", c.shared_bank_conflicts},
        {"global_accesses", c.global_accesses},
        {"global_sectors", c.global_sectors},
        {"global_bytes_read", c.global_bytes_read},
        {"global_bytes_written", c.global_bytes_written},
        {"async_bytes", c.async_bytes},
        {"matrix_flops", c.matrix_flops}});
}

}  // namespace kiln::driver
