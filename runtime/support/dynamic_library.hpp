// A shared library opened at run time, kept private to us (RTLD_LOCAL): other copies in the process are not
// disturbed.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

namespace kiln {

class DynamicLibrary {
 public:
  DynamicLibrary() = default;
  DynamicLibrary(DynamicLibrary&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  /// Opens by path or soname. On failure the object is false and `problem` holds the loader's message.
  static DynamicLibrary open(const std::string& name, std::string* problem = nullptr);

  explicit operator bool() const { return handle_ != nullptr; }
  void* find(const char* symbol) const;
  /// Sets a typed function pointer; false when the library lacks the symbol.
  template <class Function>
  bool resolve(Function*& function, const char* symbol) const {
    function = reinterpret_cast<Function*>(find(symbol));
    return function != nullptr;
  }
  /// Full path of the file that was opened.
  std::string path() const;

 private:
  // Never closed: compilers and drivers start threads and register exit handlers, and do not survive
  // unloading.
  void* handle_ = nullptr;
};

/// The folder of the library or program that holds this code; empty when the loader does not know.
std::filesystem::path own_folder();

/// GNU build id of an ELF file as hex; empty when it has none or is no ELF file.
std::string elf_build_id(const std::string& path);

/// A name for the contents of a file that does not depend on its path or times: its build id, else a hash.
std::string content_id(const std::string& path);

}  // namespace kiln
