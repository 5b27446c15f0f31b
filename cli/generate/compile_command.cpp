// compile: source to machine code through the cache, optionally into a file.
#include <fmt/format.h>

#include <kiln/kiln.hpp>

#include "cli/commands.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/output.hpp"
#include "runtime/compiler/code_object.hpp"
#include "runtime/support/files.hpp"

namespace kiln::cli {
namespace {

struct CompileOptions {
  std::string config, emit, out;
};

// The bytes that --emit asks for. Checked before compiling, so that a wrong word costs nothing.
void check_emit(const std::string& emit, Target target) {
  const bool amd = is_amd(target);
  if ((emit == "ptx" || emit == "cubin") && amd) {
    throw Error(ErrorCode::bad_input, fmt::format("--emit {} is for NVIDIA targets; {} has hsaco and asm",
                                                  emit, to_string(target)));
  }
  if ((emit == "hsaco" || emit == "asm") && !amd) {
    throw Error(ErrorCode::bad_input,
                fmt::format("--emit {} is for AMD targets; {} has ptx and cubin", emit, to_string(target)));
  }
}

int compile(const CompileOptions& options, bool json) {
  const Config config = load_config(options.config);
  const std::string emit = !options.emit.empty() ? options.emit : is_amd(config.target) ? "hsaco" : "cubin";
  check_emit(emit, config.target);
  const KernelSource source = generate(make_plan(config));
  Runtime runtime;
  std::optional<ProgressClock> clock(std::in_place, "compiling " + source.manifest.name);
  const Stopwatch watch;
  const std::shared_ptr<const Binary> binary = runtime.compile(source);
  const double ms = watch.ms();
  clock.reset();
  const std::string bytes = emit == "ptx"   ? binary->ptx
                            : emit == "asm" ? disassemble(*binary)
                                            : binary->image;
  if (!options.out.empty()) write_atomically(options.out, bytes);

  if (json) {
    print_json({{"name", source.manifest.name},
                {"cache", to_string(binary->cache)},
                {"compile_ms", binary->cache == CacheState::miss ? binary->compile_ms : ms},
                {"bytes", bytes.size()},
                {"registers", binary->registers},
                {"spill_bytes", binary->spill_bytes},
                {"smem_bytes", source.manifest.smem_bytes + binary->static_smem_bytes},
                {"log", binary->log},
                {"warnings", binary->warnings},
                {"compiler", binary->compiler},
                {"key", binary->key}});
  } else {
    fmt::print("{}: {} of {}, {} registers, {} bytes spilled, {} shared, cache {}, {}\n",
               bold(source.manifest.name), bytes_text(bytes.size()), emit, binary->registers,
               binary->spill_bytes,
               bytes_text(static_cast<std::uint64_t>(source.manifest.smem_bytes) +
                          static_cast<std::uint64_t>(binary->static_smem_bytes)),
               to_string(binary->cache), time_text(ms * 1e3));
    if (!options.out.empty()) fmt::print("written to {}\n", options.out);
    for (const std::string& warning : binary->warnings) fmt::print("{} {}\n", bad("check failed:"), warning);
  }
  return binary->warnings.empty() ? 0 : 1;
}

}  // namespace

Action add_compile(CLI::App& command, Common& common) {
  auto options = std::make_shared<CompileOptions>();
  command.add_option("CONFIG", options->config, "Config to compile")->required();
  command.add_option("--emit", options->emit, "What --out gets: ptx, cubin, hsaco or asm")
      ->check(CLI::IsMember({"ptx", "cubin", "hsaco", "asm"}));
  command.add_option("--out", options->out, "File to write; without it the cache alone is filled");
  return [options, &common] { return compile(*options, common.json); };
}

}  // namespace kiln::cli
