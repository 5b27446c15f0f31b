#include "cli/execute/emulate_program.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <kiln/error.hpp>
#include <map>
#include <set>
#include <utility>

#include "base/printable.hpp"
#include "cli/execute/emulate_report.hpp"
#include "cli/execute/program_environment.hpp"
#include "cli/generate/diagnostics.hpp"
#include "cli/output.hpp"
#include "cli/signals.hpp"
#include "driver/report.hpp"
#include "generator/config/json_text.hpp"
#include "runtime/support/scratch.hpp"

namespace kiln::cli {
namespace {

namespace em = kiln::emulator;

std::vector<std::string> environment(const ProgramOptions& o, const driver::Gpu& gpu,
                                     const std::string& report) {
  std::vector<std::string> out;
  std::set<std::string> names;
  for (const auto& [name, value] : program_environment(o, gpu, report)) {
    out.push_back(fmt::format("{}={}", name, value));
    names.insert(name);
  }
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string one = *at;
    if (names.count(one.substr(0, one.find('='))) == 0) out.push_back(one);
  }
  return out;
}

std::vector<char*> pointers(const std::vector<std::string>& of) {
  std::vector<char*> out;
  out.reserve(of.size() + 1);
  for (const std::string& one : of) out.push_back(const_cast<char*>(one.c_str()));
  out.push_back(nullptr);
  return out;
}

/// Runs the program to its end; what waitpid says.
int run(const std::vector<std::string>& program, const std::vector<std::string>& variables, bool quiet) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  // Standard output is for the document.
  if (quiet) posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  std::fflush(stdout);
  const int problem = posix_spawnp(&child, program[0].c_str(), &files, &how, pointers(program).data(),
                                   pointers(variables).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  if (problem != 0)
    throw Error(ErrorCode::bad_input, fmt::format("cannot run '{}': {}", program[0], std::strerror(problem)));
  forward_signals(child);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  forward_signals(0);
  return status;
}

/// What the stand-ins wrote.
struct ProgramOutcome {
  struct Unsupported {
    std::string what, reason;
    std::uint64_t times = 1;
  };
  std::vector<em::Finding> findings;
  std::vector<std::string> texts;  ///< of each finding
  std::vector<Unsupported> unsupported;
  std::uint64_t launches = 0;
  Json counters = Json::object();
  bool seen = false;
};

ProgramOutcome read(const std::string& path) {
  ProgramOutcome out;
  std::map<std::pair<int, std::uint64_t>, Diagnostics> modules;
  // Of a process that ended by itself the findings at its end, of others what they reported on the way.
  std::map<int, Json> findings;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json j = json_of(line);
    if (j.is_discarded()) continue;  // cut off where the program ended
    out.seen = true;
    const std::string type = j.at("type");
    const int process = j.at("process");
    if (type == "module") {
      modules.emplace(std::pair(process, j.at("module").get<std::uint64_t>()),
                      Diagnostics(j.at("name"), j.at("ptx").get<std::string>()));
    } else if (type == "finding") {
      findings[process].push_back(j);
    } else if (type == "unsupported") {
      const auto same = [&](const ProgramOutcome::Unsupported& u) {
        return u.what == j.at("what").get<std::string>();
      };
      if (std::none_of(out.unsupported.begin(), out.unsupported.end(), same))
        out.unsupported.push_back({j.at("what"), j.at("reason")});
    } else if (type == "end") {
      out.launches += j.at("launches").get<std::uint64_t>();
      findings[process] = j.at("findings");
      for (ProgramOutcome::Unsupported& u : out.unsupported)
        if (j.at("unsupported").contains(u.what)) u.times = j.at("unsupported").at(u.what);
      for (const auto& [name, value] : j.items())
        if (value.is_number() && name != "process" && name != "launches")
          out.counters[name] = out.counters.value(name, std::uint64_t{0}) + value.get<std::uint64_t>();
    }
  }
  for (const auto& [process, all] : findings)
    for (const Json& j : all) {
      out.findings.push_back(driver::finding_from(j.at("finding")));
      out.texts.push_back(
          modules.at({process, j.at("module").get<std::uint64_t>()}).text(out.findings.back()));
    }
  return out;
}

void print(const ProgramOutcome& out, const driver::Gpu& gpu) {
  for (const std::string& text : out.texts) fmt::print(stderr, "{}\n", text);
  for (const ProgramOutcome::Unsupported& u : out.unsupported)
    fmt::print(stderr, "kiln: not supported: {}{}: {}\n", printable(u.what),
               u.times > 1 ? fmt::format(" ({} times)", u.times) : "", printable(u.reason));
  if (!out.seen) {
    fmt::print(stderr, "kiln: the program used no GPU\n");
    return;
  }
  const std::string summary = findings_summary(out.findings);
  fmt::print(stderr, "kiln: {} launch{} on {}, {} warp instructions, {}\n", out.launches,
             out.launches == 1 ? "" : "es", gpu.product, out.counters.value("instructions", std::uint64_t{0}),
             summary.empty() ? "no findings" : summary);
}

Json document(const ProgramOutcome& out, const std::vector<std::string>& program, const driver::Gpu& gpu,
              int status) {
  Json findings = Json::array(), unsupported = Json::array();
  for (const em::Finding& f : out.findings) findings.push_back(finding_json(f));
  for (const ProgramOutcome::Unsupported& u : out.unsupported)
    unsupported.push_back({{"what", u.what}, {"reason", u.reason}, {"times", u.times}});
  Json j{{"program", program},
         {"gpu", gpu.product},
         {"status", WIFEXITED(status) ? Json(WEXITSTATUS(status)) : Json()},
         {"signal", WIFSIGNALED(status) ? Json(WTERMSIG(status)) : Json()},
         {"launches", out.launches},
         {"findings", findings},
         {"unsupported", unsupported}};
  j.update(out.counters);
  return j;
}

}  // namespace

int emulate_program(const ProgramOptions& options, const std::vector<std::string>& program, bool json) {
  if (program[0].empty()) throw Error(ErrorCode::bad_input, "no program after --");
  const driver::Gpu& gpu = chosen_gpu(options);
  const ScratchFolder scratch;
  const std::string report = scratch.path() + "/report";
  std::ofstream(report).close();  // the program's processes append to it
  const int status = run(program, environment(options, gpu, report), json);
  const ProgramOutcome out = read(report);
  if (json)
    print_json(document(out, program, gpu, status));
  else
    print(out, gpu);
  const bool found = std::any_of(out.findings.begin(), out.findings.end(),
                                 [](const em::Finding& f) { return f.severity != em::Severity::note; });
  if (WIFSIGNALED(status)) {
    fmt::print(stderr, "kiln: the program was ended by signal {} ({})\n", WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    return 128 + WTERMSIG(status);
  }
  return found ? options.error_status : WEXITSTATUS(status);
}

}  // namespace kiln::cli
