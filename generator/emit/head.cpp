#include "generator/emit/head.hpp"

#include <kiln/generator.hpp>
#include "generator/emit/writer.hpp"

namespace kiln {

namespace {

/// What compiles the kernel by hand.
std::string compile_command(const Manifest& m) {
  if (m.target.starts_with("gfx")) {
    return fmt::format("clang -x hip --offload-device-only -nogpuinc -nogpulib -O3 --offload-arch={} {}.hip",
                       m.target, m.name);
  }
  const bool special = m.target.ends_with('a');  // instructions of this architecture alone
  const std::string arch = special ? fmt::format("-gencode=arch=compute_{0},code=sm_{0}", m.target.substr(3))
                                   : "-arch=" + m.target;
  return fmt::format("nvcc {} -cubin {}.cu", arch, m.name);
}

std::string kernel_head(const Manifest& m, const std::string& facts) {
  std::string text = fmt::format(
      "{}: emitted by kiln {}. Do not edit: change the config and generate again.\n\nConfig: {}\n{}\n",
      m.name, version(), m.config_json, facts);
  text +=
      fmt::format("\nRegenerate: kiln generate {}.json --out .\nCompile: {}\n", m.name, compile_command(m));
  std::string out;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string line = text.substr(0, end);
    out += line.empty() ? "//\n" : "// " + line + "\n";
    text.erase(0, end + 1);
  }
  return out + "\n";
}

/// A source file from the project's root on, wherever it was compiled.
std::string_view from_root(std::string_view file) {
  const auto at = file.rfind("generator/");
  return at == std::string_view::npos ? file : file.substr(at);
}

std::vector<LineOrigin> from_root(std::vector<LineOrigin> origins) {
  std::string_view file, shortened;  // of the line before
  for (LineOrigin& origin : origins) {
    if (origin.file.data() != file.data()) file = origin.file, shortened = from_root(file);
    origin.file = shortened;
  }
  return origins;
}

}  // namespace

void set_text(KernelSource& source, const std::string& facts, const Lines& body) {
  Lines all;
  all.add(kernel_head(source.manifest, facts), {__FILE__, __LINE__});
  source.head_bytes = all.text().size();
  all.add(body);
  source.text = all.text();
  source.origins = from_root(all.origins());
}

}  // namespace kiln
