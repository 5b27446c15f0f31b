// What the runtime's tests share: a scratch folder per test, environment variables that are put back, small
// kernels.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <kiln/runtime.hpp>

namespace kiln::test {

/// A private empty folder, removed with the object.
class Scratch {
 public:
  Scratch() {
    std::string path = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
    path_ = mkdtemp(path.data()) == nullptr ? "" : path;
  }
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Sets (or with nullptr unsets) a variable for a scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~ScopedEnv() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// The entries of a cache directory.
inline std::vector<std::string> entry_files(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& item : std::filesystem::recursive_directory_iterator(directory + "/v1", error)) {
    if (item.path().extension() == ".kiln") files.push_back(item.path().string());
  }
  return files;
}

using ParamKind = KernelParam::Kind;

/// A source whose head comment is `head` and whose code is `body`; no parameters.
inline KernelSource make_source(const std::string& name, const std::string& body,
                                const std::string& head = "// head\n") {
  KernelSource source;
  source.text = head + body;
  source.head_bytes = head.size();
  source.manifest.name = name;
  source.manifest.entry = "kernel";
  source.manifest.target = "sm_90a";
  source.manifest.num_threads = 32;
  return source;
}

/// A tiny kernel that differs by `tag`.
inline KernelSource tiny_source(int tag, const std::string& target = "sm_90a") {
  KernelSource source = make_source(
      "tiny" + std::to_string(tag),
      "extern \"C\" __global__ void kernel(int* out) { out[threadIdx.x] = " + std::to_string(tag) + "; }\n");
  source.manifest.target = target;
  return source;
}

/// Code of the Error that `work` throws, or nothing; its text in `message`.
template <class Work>
std::optional<ErrorCode> error_of(const Work& work, std::string* message = nullptr) {
  try {
    work();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  return std::nullopt;
}

/// A runtime on the emulated device that says nothing and keeps its cache in `directory` ("" for memory).
inline RuntimeOptions quiet(const std::string& directory = "") {
  RuntimeOptions options;
  options.device = "emulated";
  options.cache_dir = directory;
  options.log = [](LogLevel, const std::string&) {};
  return options;
}

}  // namespace kiln::test
