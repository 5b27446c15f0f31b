// Commands run through sh with redirections; the folder goes with the process.
#include "tests/cli/command.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kiln::test {
namespace {

std::string slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct Folder {
  std::string path =
      std::filesystem::temp_directory_path().string() + "/kiln-cli-" + std::to_string(getpid()) + "/";
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

const std::string& scratch() {
  static const Folder folder;
  return folder.path;
}

CommandResult run_kiln(const std::string& arguments, const std::string& input,
                       const std::string& environment) {
  const std::string base = scratch();
  std::ofstream(base + "in", std::ios::binary) << input;
  const std::string command = "cd " + base + " && KILN_CACHE_DIR=" + base + "cache KILN_LOG=error " +
                              environment + " " KILN_COMMAND " " + arguments + " <in >out 2>err";
  const int status = std::system(command.c_str());
  CommandResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = slurp(base + "out");
  result.err = slurp(base + "err");
  return result;
}

bool is_one_line(const std::string& text) {
  return text.size() > 1 && text.back() == '\n' && std::count(text.begin(), text.end(), '\n') == 1;
}

}  // namespace kiln::test
