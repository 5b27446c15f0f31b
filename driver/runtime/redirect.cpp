// Programs with NVIDIA's runtime linked statically, which is nvcc's default: before their first call, the runtime's
// functions in the program are made to jump to those of this library. The program's symbol table says where they are.
// The same is done with libraries that are opened later, before their constructors run, and with NVIDIA's own
// libcudart and nvJitLink. NVRTC's machine code is replaced by the PTX it was made of.
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
#include <set>
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
/// ret, with endbr64 before it or not.
bool does_nothing(const unsigned char* at) {
  constexpr unsigned char kMarked[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xc3};
  return *at == kMarked[4] || std::memcmp(at, kMarked, sizeof kMarked) == 0;
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
/// ret, with bti c before it or not.
bool does_nothing(const unsigned char* at) {
  std::uint32_t code[2];
  std::memcpy(code, at, sizeof code);
  constexpr std::uint32_t kReturn = 0xd65f03c0, kMark = 0xd503245f;
  return code[0] == kReturn || (code[0] == kMark && code[1] == kReturn);
}
#else
#error "write_jump for this processor"
#endif

struct Symbol {
  std::string name;
  std::uintptr_t value = 0;
  std::size_t bytes = 0;
};

bool is_ours_to_replace(std::string_view name) {
  return name.starts_with("cuda") || name.starts_with("__cuda") || name.starts_with("nvrtcGet") ||
         name.starts_with("nvJitLink") || name.starts_with("__nvJitLink");
}

/// The functions that an ELF file defines and whose names are the runtime's or NVRTC's: by its symbol table, and by its
/// dynamic symbols if it has been stripped.
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
  const bool whole = std::any_of(sections.begin(), sections.end(),
                                 [](const ElfW(Shdr) & s) { return s.sh_type == SHT_SYMTAB; });
  std::vector<Symbol> out;
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != (whole ? SHT_SYMTAB : SHT_DYNSYM) || section.sh_link >= sections.size()) continue;
    const std::vector<char> table = content(section), names = content(sections[section.sh_link]);
    for (std::size_t at = 0; at + sizeof(ElfW(Sym)) <= table.size(); at += sizeof(ElfW(Sym))) {
      ElfW(Sym) symbol;
      std::memcpy(&symbol, table.data() + at, sizeof symbol);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
          symbol.st_name >= names.size())
        continue;
      const std::string_view name(names.data() + symbol.st_name);
      if (is_ours_to_replace(name)) out.push_back({std::string(name), symbol.st_value, symbol.st_size});
    }
  }
  return out;
}

bool has(const std::vector<Symbol>& symbols, std::string_view name) {
  return std::any_of(symbols.begin(), symbols.end(), [&](const Symbol& s) { return s.name == name; });
}

/// Makes the function at `at` jump to `to`. Functions begin at multiples of 16: the bytes up to there are nobody else's.
void make_jump(std::uintptr_t at, std::size_t bytes, const void* to) {
  if ((bytes + 15) / 16 * 16 < kJumpBytes) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = at / page * page;
  const std::size_t range = at + kJumpBytes - first;
  if (mprotect(reinterpret_cast<void*>(first), range, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return;
  write_jump(reinterpret_cast<unsigned char*>(at), to);
  mprotect(reinterpret_cast<void*>(first), range, PROT_READ | PROT_EXEC);
}

void redirect(const std::string& path, std::uintptr_t base, void* self) {
  const std::vector<Symbol> symbols = runtime_symbols(path);
  // NVRTC keeps the PTX of what it compiles for a real GPU (-arch=sm_90).
  for (const Symbol& s : symbols)
    for (const Symbol& ptx : symbols)
      if ((s.name == "nvrtcGetCUBIN" && ptx.name == "nvrtcGetPTX") ||
          (s.name == "nvrtcGetCUBINSize" && ptx.name == "nvrtcGetPTXSize"))
        make_jump(base + s.value, s.bytes, reinterpret_cast<const void*>(base + ptx.value));
  for (const Symbol& s : symbols)
    if (const void* const to = jit_link_function(s.name); to != nullptr)
      make_jump(base + s.value, s.bytes, to);
  // What has the runtime inside defines this one.
  if (!has(symbols, "__cudaRegisterFatBinary") || !has(symbols, "cudaGetExportTable")) return;
  for (const Symbol& s : symbols)
    if (const void* const to = dlsym(self, s.name.c_str()); to != nullptr)
      make_jump(base + s.value, s.bytes, to);
}

struct Object {
  std::string path;
  std::uintptr_t base;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a 0 that is none
  auto operator<=>(const Object&) const = default;
};

/// What is loaded now and was not before.
void redirect_new() {
  static std::set<Object>* const known = new std::set<Object>;  // libraries are closed while the program ends
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&redirect_new), &info);
  static void* const self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (self == nullptr) return;
  std::set<Object> now;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        const std::string path = object->dlpi_name;
        static_cast<std::set<Object>*>(data)->insert(
            {path.empty() ? "/proc/self/exe" : path, object->dlpi_addr});
        return 0;
      },
      &now);
  now.swap(*known);
  for (const Object& o : *known)
    if (now.count(o) == 0 && o.path != info.dli_fname) redirect(o.path, o.base, self);
}

/// Called by the dynamic linker whenever the list of libraries changes, in place of its function for debuggers, which
/// does nothing: what is new is mapped, and none of its code has run.
void libraries_changed() {
  if (_r_debug.r_state == r_debug::RT_CONSISTENT) redirect_new();
}

/// The program and the libraries that are loaded with it; then those that it opens.
__attribute__((constructor)) void redirect_all() {
  if (std::getenv("KILN_DRIVER_OPTIONS") == nullptr) return;
  redirect_new();
  if (_r_debug.r_brk % 16 == 0 && does_nothing(reinterpret_cast<const unsigned char*>(_r_debug.r_brk)))
    make_jump(_r_debug.r_brk, 1, reinterpret_cast<const void*>(&libraries_changed));
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
