#include "generator/emit/head.hpp"

#include <kiln/generator.hpp>
#include "generator/emit/writer.hpp"

namespace kiln {

std::string kernel_head(const std::string& name, const std::string& config_json, const std::string& facts,
                        const std::string& build_command) {
  std::string text = fmt::format(
      "{}: emitted by kiln {}. Do not edit: change the config and generate again.\n\nConfig: {}\n{}\n", name,
      version(), config_json, facts);
  text += fmt::format("\nRegenerate: kiln generate {}.json --out .\nCompile: {}\n", name, build_command);
  std::string out;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string line = text.substr(0, end);
    out += line.empty() ? "//\n" : "// " + line + "\n";
    text.erase(0, end + 1);
  }
  return out + "\n";
}

}  // namespace kiln
