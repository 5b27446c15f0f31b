// Programs with NVIDIA's runtime linked statically, which is nvcc's default: before their first call, the runtime's
// functions in the program are made to jump to those of this library. The program's symbol table says where they are.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "driver/runtime/registry.hpp"

namespace kiln::runtime_stand_in {
namespace {

#if defined(__x86_64__)
constexpr std::size_t kJumpBytes = 14;
/// jmp *0(%rip), and the address.
void write_jump(unsigned char* at, const void* to) {
  const unsigned char code[6] = {0xff, 0x25, 0, 0, 0, 0};
  std::memcpy(at, code, sizeof code);
  std::memcpy(at + sizeof code, &to, sizeof to);
}
#elif defined(__aarch64__)
constexpr std::size_t kJumpBytes = 16;
/// ldr x16, #8; br x16, and the address.
void write_jump(unsigned char* at, const void* to) {
  const std::uint32_t code[2] = {0x58000050, 0xd61f0200};
  std::memcpy(at, code, sizeof code);
  std::memcpy(at + sizeof code, &to, sizeof to);
  __builtin___clear_cache(reinterpret_cast<char*>(at), reinterpret_cast<char*>(at + kJumpBytes));
}
#else
#error "write_jump for this processor"
#endif

struct Symbol {
  std::string name;
  std::uintptr_t value = 0;
  std::size_t bytes = 0;
};

/// The functions that an ELF file defines and whose names are the runtime's.
std::vector<Symbol> runtime_symbols(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ElfW(Ehdr) header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return {};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != sizeof(ElfW(Shdr)))
    return {};
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  file.seekg(static_cast<std::streamoff>(header.e_shoff));
  if (!file.read(reinterpret_cast<char*>(sections.data()),
                 static_cast<std::streamsize>(sections.size() * sizeof(ElfW(Shdr)))))
    return {};
  const auto content = [&](const ElfW(Shdr) & s) {
    std::vector<char> bytes(s.sh_size);
    file.seekg(static_cast<std::streamoff>(s.sh_offset));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file ? bytes : std::vector<char>{};
  };
  std::vector<Symbol> out;
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const std::vector<char> table = content(section), names = content(sections[section.sh_link]);
    for (std::size_t at = 0; at + sizeof(ElfW(Sym)) <= table.size(); at += sizeof(ElfW(Sym))) {
      ElfW(Sym) symbol;
      std::memcpy(&symbol, table.data() + at, sizeof symbol);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
          symbol.st_name >= names.size())
        continue;
      const std::string_view name(names.data() + symbol.st_name);
      if (name.starts_with("cuda") || name.starts_with("__cuda"))
        out.push_back({std::string(name), symbol.st_value, symbol.st_size});
    }
  }
  return out;
}

bool has(const std::vector<Symbol>& symbols, std::string_view name) {
  return std::any_of(symbols.begin(), symbols.end(), [&](const Symbol& s) { return s.name == name; });
}

void redirect(const std::string& path, std::uintptr_t base, void* self) {
  const std::vector<Symbol> symbols = runtime_symbols(path);
  // What has the runtime inside defines this one.
  if (!has(symbols, "__cudaRegisterFatBinary") || !has(symbols, "cudaGetExportTable")) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const Symbol& s : symbols) {
    const void* to = dlsym(self, s.name.c_str());
    // Functions begin at multiples of 16: the bytes up to there are nobody else's.
    const std::size_t room = (s.bytes + 15) / 16 * 16;
    if (to == nullptr || room < kJumpBytes) continue;
    const std::uintptr_t at = base + s.value, first = at / page * page;
    const std::size_t bytes = at + kJumpBytes - first;
    if (mprotect(reinterpret_cast<void*>(first), bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) continue;
    write_jump(reinterpret_cast<unsigned char*>(at), to);
    mprotect(reinterpret_cast<void*>(first), bytes, PROT_READ | PROT_EXEC);
  }
}

/// The program and the libraries that are loaded with it.
__attribute__((constructor)) void redirect_all() {
  if (std::getenv("KILN_DRIVER_OPTIONS") == nullptr) return;
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&redirect_all), &info);
  void* const self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (self == nullptr) return;
  struct Object {
    std::string path;
    std::uintptr_t base;
  };
  std::vector<Object> objects;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        const std::string path = object->dlpi_name;
        static_cast<std::vector<Object>*>(data)->push_back(
            {path.empty() ? "/proc/self/exe" : path, object->dlpi_addr});
        return 0;
      },
      &objects);
  for (const Object& o : objects)
    if (o.path != info.dli_fname) redirect(o.path, o.base, self);
}

}  // namespace
}  // namespace kiln::runtime_stand_in

// NOLINTBEGIN(readability-identifier-naming)
#define X(name)                                                    \
  KILN_API cudaError_t name() {                                    \
    kiln_driver_unsupported(#name);                                \
    return kiln::runtime_stand_in::note(CUDA_ERROR_NOT_SUPPORTED); \
  }
#include "driver/runtime/unsupported.inc"
#undef X
// NOLINTEND(readability-identifier-naming)

KILN_API cudaError_t cudaGetExportTable(const void** out, const CUuuid*) {
  if (out != nullptr) *out = nullptr;
  kiln_driver_unsupported("cudaGetExportTable");
  return kiln::runtime_stand_in::note(CUDA_ERROR_NOT_SUPPORTED);
}
