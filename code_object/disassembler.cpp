// See disassembler.hpp.
#include "code_object/disassembler.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

namespace kiln::code_object {
namespace {

// The few functions of llvm-c/Disassembler.h, llvm-c/Target.h and llvm-c/Core.h that are used; their
// signatures are stable across releases.
struct Library {
  std::string path, version;
  unsigned major = 0;
  void* (*create)(const char* triple, const char* cpu, const char* features, void* info, int tag,
                  void* op_info, void* symbols) = nullptr;
  std::size_t (*decode)(void* context, std::uint8_t* bytes, std::uint64_t size, std::uint64_t pc, char* out,
                        std::size_t out_size) = nullptr;
  void (*dispose)(void* context) = nullptr;
};

constexpr unsigned kNewest = 26, kOldest = 15;
constexpr const char* kTriple = "amdgcn-amd-amdhsa";

std::vector<std::string> candidates() {
  if (const char* forced = std::getenv("KILN_LLVM"); forced != nullptr && *forced != '\0') return {forced};
  std::vector<std::string> names;
  for (unsigned v = kNewest; v >= kOldest; --v) {
    const std::string n = std::to_string(v);
    names.push_back("libLLVM.so." + n + ".1");
    names.push_back("libLLVM-" + n + ".so.1");
    names.push_back("libLLVM-" + n + ".so");
    names.push_back("/usr/lib/llvm-" + n + "/lib/libLLVM.so");
  }
  names.emplace_back("libLLVM.so");
  names.emplace_back("/opt/rocm/llvm/lib/libLLVM.so");
  return names;
}

bool load(const std::string& path, Library& lib) {
  void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);  // most of what LLVM links is of no use here
  if (handle == nullptr) return false;
  for (const char* part : {"LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTarget",
                           "LLVMInitializeAMDGPUTargetMC", "LLVMInitializeAMDGPUDisassembler"}) {
    auto initialize = reinterpret_cast<void (*)()>(dlsym(handle, part));
    if (initialize == nullptr)
      return false;  // built without the target; the handle stays open, as LLVM wants
    initialize();
  }
  lib.create = reinterpret_cast<decltype(lib.create)>(dlsym(handle, "LLVMCreateDisasmCPUFeatures"));
  lib.decode = reinterpret_cast<decltype(lib.decode)>(dlsym(handle, "LLVMDisasmInstruction"));
  lib.dispose = reinterpret_cast<decltype(lib.dispose)>(dlsym(handle, "LLVMDisasmDispose"));
  if (lib.create == nullptr || lib.decode == nullptr || lib.dispose == nullptr) return false;
  lib.path = path;
  if (auto version =
          reinterpret_cast<void (*)(unsigned*, unsigned*, unsigned*)>(dlsym(handle, "LLVMGetVersion"))) {
    unsigned major = 0, minor = 0, patch = 0;
    version(&major, &minor, &patch);
    lib.major = major;
    lib.version = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  } else if (dlsym(handle, "LLVMGetCastOpcode") != nullptr) {
    lib.version = "15";
    lib.major = 15;
  } else {
    lib.version = "older than 15";  // whose text is another
  }
  return true;
}

/// Whether the library decodes for `cpu`. LLVM ends the process when asked for one that it does not know, or
/// falls back to a generic one with a word on stderr: so its version first (before LLVM 16 there is none),
/// and then the probe, an instruction that exactly the wanted target has.
bool knows(const Library& lib, const std::string& cpu) {
  struct Probe {
    const char* cpu;
    unsigned oldest;
    std::uint32_t words[2];
  };
  static constexpr Probe probes[] = {
      {"gfx90a", kOldest, {0xd3b04000, 0x1c1a0902}},  // v_pk_fma_f32
      {"gfx942", 17, {0xd3f30000, 0x04020500}},       // v_mfma_f32_16x16x32_fp8_fp8
      {"gfx950", 20, {0x7e02b302, 0x00000000}},       // v_permlane16_swap_b32
  };
  const auto* probe = std::ranges::find_if(probes, [&](const Probe& p) { return cpu == p.cpu; });
  if (probe == std::end(probes) || lib.major < probe->oldest) return false;
  void* context = lib.create(kTriple, cpu.c_str(), "", nullptr, 0, nullptr, nullptr);
  if (context == nullptr) return false;
  std::uint32_t words[2] = {probe->words[0], probe->words[1]};
  char text[256];
  const bool ok =
      lib.decode(context, reinterpret_cast<std::uint8_t*>(words), sizeof words, 0, text, sizeof text) != 0;
  lib.dispose(context);
  return ok;
}

struct Opened {
  std::mutex mutex;
  std::vector<std::pair<std::string, Library*>> by_cpu;
  std::deque<Library> libraries;  // which live as long as the process, and never move
};

Library* open_for(const std::string& cpu, std::string& error) {
  static Opened opened;
  const std::lock_guard lock(opened.mutex);
  for (const auto& [known, library] : opened.by_cpu) {
    if (known == cpu) return library;
  }
  for (Library& library : opened.libraries) {
    if (knows(library, cpu)) return opened.by_cpu.emplace_back(cpu, &library).second;
  }
  std::string tried;
  for (const std::string& path : candidates()) {
    Library lib;
    if (!load(path, lib)) continue;
    if (knows(lib, cpu)) {
      opened.libraries.push_back(lib);
      return opened.by_cpu.emplace_back(cpu, &opened.libraries.back()).second;
    }
    tried += (tried.empty() ? "" : ", ") + path + " (" + lib.version + ")";
  }
  error =
      tried.empty()
          ? "no LLVM library with the AMDGPU target was found (install libllvm22, or name one in KILN_LLVM)"
          : "no LLVM library that knows " + cpu + " was found (tried " + tried +
                "; install libllvm22, or name one in KILN_LLVM)";
  return nullptr;
}

}  // namespace

Disassembler::Disassembler(const std::string& cpu) {
  std::string error;
  const Library* library = open_for(cpu, error);
  if (library == nullptr) throw MissingLibrary(error);
  library_ = library;
  context_ = library->create(kTriple, cpu.c_str(), "", nullptr, 0, nullptr, nullptr);
  if (context_ == nullptr) throw Error("LLVM makes no disassembler for " + cpu);
}

Disassembler::~Disassembler() {
  if (context_ != nullptr) static_cast<const Library*>(library_)->dispose(context_);
}

std::size_t Disassembler::decode_one(std::span<const std::byte> bytes, std::uint64_t address,
                                     std::string& text) {
  char out[512];
  auto* data = const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(bytes.data()));
  const std::size_t length =
      static_cast<const Library*>(library_)->decode(context_, data, bytes.size(), address, out, sizeof out);
  text = length == 0 ? "" : out;
  return length;
}

std::vector<Instruction> Disassembler::decode(const Function& function, std::span<const std::byte> image) {
  if (function.address > image.size() || image.size() - function.address < function.size)
    throw Error("code of '" + function.name + "' is cut short");
  std::vector<Instruction> all;
  const std::uint64_t end = function.address + function.size;
  for (std::uint64_t at = function.address; at < end; at += all.back().bytes) {
    Instruction inst{.address = at, .bytes = 4, .text = {}};
    if (const std::size_t length = decode_one(image.subspan(at, end - at), at, inst.text); length > 0) {
      inst.bytes = static_cast<std::uint8_t>(length);
      inst.text.erase(0, std::min(inst.text.find_first_not_of(" \t"), inst.text.size()));
    } else {  // an unknown encoding, or data among the code
      std::uint32_t word = 0;
      std::memcpy(&word, image.data() + at, std::min<std::size_t>(4, end - at));
      char hex[32];
      std::snprintf(hex, sizeof hex, ".long 0x%08x", word);
      inst.text = hex;
    }
    all.push_back(std::move(inst));
  }
  return all;
}

std::vector<Instruction> disassemble(const CodeObject& object, std::string_view kernel) {
  const auto k =
      std::ranges::find_if(object.kernels, [&](const Kernel& each) { return each.info.name == kernel; });
  if (k == object.kernels.end()) throw Error("code object has no kernel '" + std::string(kernel) + "'");
  return Disassembler(object.target).decode({k->info.name, k->entry, k->end - k->entry}, object.image);
}

DisassemblerInfo disassembler_info() {
  DisassemblerInfo info;
  for (const char* cpu : {"gfx950", "gfx942", "gfx90a"}) {
    if (const Library* library = open_for(cpu, info.error)) {
      return {true, library->path, library->version, ""};
    }
  }
  return info;
}

}  // namespace kiln::code_object
