#include "runtime/support/dynamic_library.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "runtime/support/hash.hpp"

namespace kiln {

DynamicLibrary DynamicLibrary::open(const std::string& name, std::string* problem) {
  DynamicLibrary library;
  library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle_ == nullptr && problem != nullptr) {
    const char* message = dlerror();
    *problem = message == nullptr ? name + ": cannot be opened" : message;
  }
  return library;
}

std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  // A program's own name may be relative, or only its first argument.
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, ignored);
  if (!file.empty()) return file.parent_path();
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

void* DynamicLibrary::find(const char* symbol) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, symbol);
}

std::string DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return map->l_name;
}

std::string elf_build_id(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return {};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof segment));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return {};
    if (segment.p_type != PT_NOTE || segment.p_filesz > 65536) continue;
    std::vector<char> notes(segment.p_filesz);
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!file.read(notes.data(), static_cast<std::streamsize>(notes.size()))) return {};
    for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
      Elf64_Nhdr note{};
      std::memcpy(&note, notes.data() + at, sizeof note);
      const std::size_t name = at + sizeof note;
      const std::size_t desc = name + (note.n_namesz + 3) / 4 * 4;
      const std::size_t end = desc + (note.n_descsz + 3) / 4 * 4;
      if (end > notes.size()) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(&notes[name], "GNU", 4) == 0) {
        std::string id;
        for (std::size_t k = 0; k < note.n_descsz; ++k) {
          id += fmt::format("{:02x}", static_cast<unsigned char>(notes[desc + k]));
        }
        return id;
      }
      at = end;
    }
  }
  return {};
}

std::string content_id(const std::string& path) {
  if (std::string id = elf_build_id(path); !id.empty()) return id;
  std::ifstream file(path, std::ios::binary);
  Hasher hasher;
  std::vector<char> chunk(1 << 20);
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    hasher.bytes({chunk.data(), static_cast<std::size_t>(file.gcount())});
  }
  return hasher.digest().hex();
}

}  // namespace kiln
