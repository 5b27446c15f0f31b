// cache stats|list|verify|prune|clear|export|import, and doctor.
#include <fmt/format.h>

#include <kiln/code_object.hpp>
#include <kiln/kiln.hpp>

#include "base/printable.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "runtime/support/settings.hpp"

namespace kiln::cli {
namespace {

Cache open_cache() {
  return Cache(Cache::default_directory());
}

Json stats_json(const CacheStats& s) {
  return {{"directory", s.directory}, {"problem", s.problem},     {"entries", s.entries},
          {"bytes", s.bytes},         {"max_bytes", s.max_bytes}, {"quarantined", s.quarantined}};
}

std::string stats_text(const CacheStats& s) {
  if (s.directory.empty()) return "memory only" + (s.problem.empty() ? "" : ": " + s.problem);
  return fmt::format("{}: {} {}, {} of {}{}", printable(s.directory), s.entries,
                     s.entries == 1 ? "kernel" : "kernels", bytes_text(s.bytes),
                     s.max_bytes == 0 ? "unlimited" : bytes_text(s.max_bytes),
                     s.quarantined > 0 ? fmt::format(", {} set aside as damaged", s.quarantined) : "");
}

int stats(bool json) {
  const Cache cache = open_cache();
  if (json) {
    print_json(stats_json(cache.stats()));
  } else {
    fmt::print("{}\n", stats_text(cache.stats()));
  }
  return 0;
}

int list(bool json) {
  const Cache cache = open_cache();
  Json document = Json::array();
  std::vector<std::vector<std::string>> rows{{"key", "name", "target", "size", "compile", "compiler"}};
  for (const CacheEntryInfo& e : cache.list()) {
    document.push_back({{"key", e.key},
                        {"name", e.name},
                        {"entry", e.entry},
                        {"target", e.target},
                        {"compiler", e.compiler},
                        {"kiln_version", e.kiln_version},
                        {"bytes", e.bytes},
                        {"compile_ms", e.compile_ms},
                        {"created", e.created},
                        {"used", e.used}});
    rows.push_back({e.key.substr(0, 12), e.name, e.target, bytes_text(e.bytes), time_text(e.compile_ms * 1e3),
                    e.compiler});
  }
  if (json) {
    print_json(document);
  } else if (rows.size() > 1) {
    fmt::print("{}", table(rows, true));
  } else {
    fmt::print("no kernels in {}\n", stats_text(cache.stats()));
  }
  return 0;
}

template <class Work>
auto with_clock(const std::string& what, const Work& work) {
  const ProgressClock clock(what);
  return work();
}

int verify(bool json) {
  Cache cache = open_cache();
  const CacheVerifyResult result = with_clock("reading every entry", [&] { return cache.verify(); });
  if (json) {
    print_json({{"checked", result.checked}, {"bad", result.bad}});
  } else {
    fmt::print("{} {} checked, {} damaged and set aside\n", result.checked,
               result.checked == 1 ? "entry" : "entries", result.bad.size());
    for (const std::string& line : result.bad) fmt::print("  {}\n", printable(line));
  }
  return result.bad.empty() ? 0 : 1;
}

int count(bool json, const char* word, std::uint64_t value) {
  if (json) {
    print_json({{word, value}});
  } else {
    fmt::print("{} {} {}\n", value, value == 1 ? "kernel" : "kernels", word);
  }
  return 0;
}

std::uint64_t size_option(const std::string& text) {
  if (const auto size = parse_size(text)) return *size;
  throw Error(ErrorCode::bad_input, fmt::format("--max-size: '{}' is not a size; {}", text, kSizeForm));
}

Json compiler_json(const DoctorReport::Compiler& c) {
  return {{"kind", c.kind},       {"found", c.found},     {"path", c.path},
          {"version", c.version}, {"targets", c.targets}, {"problem", c.problem}};
}

// AMD code objects are disassembled through an installed LLVM.
std::string emulated_targets() {
  const auto llvm = code_object::disassembler_info();
  return "runs sm_80 sm_90a sm_100a sm_103a " +
         (llvm.found ? fmt::format("gfx90a gfx942 gfx950 (LLVM {})", llvm.version)
                     : "and no AMD target: " + llvm.error);
}

int doctor(bool json) {
  Runtime runtime;
  const DoctorReport report =
      with_clock("looking for compilers and devices", [&] { return runtime.doctor(); });
  if (json) {
    Json document{{"kiln", report.kiln_version},
                  {"compilers", Json::array()},
                  {"drivers", Json::array()},
                  {"devices", Json::array()}};
    for (const auto& c : report.compilers) document["compilers"].push_back(compiler_json(c));
    document["targets"] = Json::object();
    for (const auto& c : report.choices)
      document["targets"][c.target] = {{"compiler", c.compiler}, {"problem", c.problem}};
    for (const auto& d : report.drivers) {
      document["drivers"].push_back({{"kind", d.kind},
                                     {"found", d.found},
                                     {"path", d.path},
                                     {"version", d.version},
                                     {"problem", d.problem}});
    }
    for (const auto& d : report.devices) {
      document["devices"].push_back({{"device", d.selector},
                                     {"name", d.name},
                                     {"target", d.target},
                                     {"num_sms", d.num_sms},
                                     {"memory_bytes", d.memory_bytes}});
    }
    document["cache"] = stats_json(report.cache);
    print_json(document);
    return 0;
  }
  fmt::print("{} {}\n", bold("kiln"), report.kiln_version);
  for (const auto& c : report.compilers) {
    fmt::print("compiler  {:<8} {}\n", c.kind,
               c.found ? fmt::format("{} ({}), compiles {}", c.version, c.path, fmt::join(c.targets, " "))
                       : bad("missing") + ": " + c.problem);
  }
  for (const auto& c : report.choices) {
    if (!c.compiler.empty()) fmt::print("target    {:<8} by {}\n", c.target, c.compiler);
  }
  for (const auto& d : report.drivers) {
    const std::string version = d.version.empty() ? "" : d.version + " ";
    fmt::print("driver    {:<8} {}\n", d.kind,
               !d.found            ? "missing: " + d.problem
               : d.problem.empty() ? fmt::format("{}({})", version, d.path)
                                   : fmt::format("{}({}): {}", version, d.path, d.problem));
  }
  for (const auto& d : report.devices) {
    fmt::print("device    {:<8} {}, {}\n", d.selector, d.name,
               d.target.empty() ? emulated_targets() : d.target);
  }
  fmt::print("cache     {}\n", stats_text(report.cache));
  return 0;
}

}  // namespace

Action add_cache(CLI::App& command, Common& common) {
  struct Options {
    std::string size = "0", file;
    std::vector<std::string> keys;
  };
  auto options = std::make_shared<Options>();
  command.require_subcommand(1, 1);
  const auto sub = [&](const char* name, const char* help) {
    CLI::App* app = command.add_subcommand(name, help);
    app->add_flag("--json", common.json, "One JSON document on standard output");
    return app;
  };
  CLI::App* stats_app = sub("stats", "Where the cache is and how full");
  CLI::App* list_app = sub("list", "Its kernels, most recently used first");
  CLI::App* verify_app = sub("verify", "Check every entry; damaged ones are set aside");
  CLI::App* prune_app = sub("prune", "Remove the least recently used kernels");
  prune_app->add_option("--max-size", options->size, "Size to shrink to: bytes, or with K, M, G, T")
      ->required();
  CLI::App* clear_app = sub("clear", "Remove every kernel");
  CLI::App* export_app = sub("export", "Write kernels into one file");
  export_app->add_option("FILE", options->file, "File to write")->required();
  export_app->add_option("--key", options->keys, "Only these kernels");
  CLI::App* import_app = sub("import", "Add the kernels of such a file");
  import_app->add_option("FILE", options->file, "File to read")->required();
  return [=, &common] {
    if (*stats_app) return stats(common.json);
    if (*list_app) return list(common.json);
    if (*verify_app) return verify(common.json);
    if (*prune_app) return count(common.json, "removed", open_cache().prune(size_option(options->size)));
    if (*export_app) {
      return count(common.json, "exported", with_clock("writing " + options->file, [&] {
                     return open_cache().export_to(options->file, options->keys);
                   }));
    }
    if (*import_app) {
      return count(common.json, "imported", with_clock("reading " + options->file, [&] {
                     return open_cache().import_from(options->file);
                   }));
    }
    return *clear_app ? count(common.json, "removed", open_cache().clear()) : 2;
  };
}

Action add_doctor(CLI::App&, Common& common) {
  return [&common] { return doctor(common.json); };
}

}  // namespace kiln::cli
