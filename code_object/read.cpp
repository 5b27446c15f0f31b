// Reads a code object: ELF64 for AMDGPU, its metadata note, kernel descriptors, segments and relocations.
#include <kiln/code_object.hpp>

#include <algorithm>
#include <cstring>
#include <map>

#include "code_object/metadata.hpp"

namespace kiln::code_object {
namespace {

struct SectionHeader {
  std::uint32_t name, type;
  std::uint64_t flags, address, offset, size;
  std::uint32_t link, info;
  std::uint64_t align, entry_size;
};
struct ProgramHeader {
  std::uint32_t type, flags;
  std::uint64_t offset, address, physical, file_size, memory_size, align;
};
struct Symbol {
  std::uint32_t name;
  std::uint8_t info, other;
  std::uint16_t section;
  std::uint64_t value, size;
};
struct Rela {
  std::uint64_t offset, info;
  std::int64_t addend;
};

constexpr std::uint32_t kSymtab = 2, kRela = 4, kNote = 7, kDynsym = 11;
constexpr std::size_t kMaxImage = std::size_t{1} << 28;

class Elf {
 public:
  explicit Elf(std::span<const std::byte> bytes) : bytes_(bytes) {
    constexpr unsigned char magic[] = {0x7f, 'E', 'L', 'F',
                                       2,    1,   1,   64};  // 64 bit, little endian, ELFOSABI_AMDGPU_HSA
    if (bytes.size() < 64 || std::memcmp(bytes.data(), magic, 4) != 0) {
      throw Error(
          "not a code object: no ELF header (a bundle must be unpacked, or built with "
          "--no-gpu-bundle-output)");
    }
    if (std::memcmp(bytes.data(), magic, sizeof magic) != 0 || get<std::uint16_t>(18) != 224) {
      throw Error("not a code object: the ELF file is not for amdgcn-amd-amdhsa");
    }
    flags = get<std::uint32_t>(48);
    names = get<std::uint16_t>(62);
    headers(segments, get<std::uint64_t>(32), get<std::uint16_t>(54), get<std::uint16_t>(56),
            sizeof(ProgramHeader));
    headers(sections, get<std::uint64_t>(40), get<std::uint16_t>(58), get<std::uint16_t>(60),
            sizeof(SectionHeader));
  }

  template <class T>
  T get(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) throw Error("code object is cut short");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  std::span<const std::byte> slice(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) throw Error("code object is cut short");
    return bytes_.subspan(offset, size);
  }
  std::string text(const SectionHeader& table, std::uint32_t offset) const {
    const auto all = slice(table.offset, table.size);
    if (offset >= all.size()) throw Error("code object has a name outside of its string table");
    const char* begin = reinterpret_cast<const char*>(all.data()) + offset;
    return {begin, strnlen(begin, all.size() - offset)};
  }

  std::vector<ProgramHeader> segments;
  std::vector<SectionHeader> sections;
  std::uint32_t flags = 0;
  std::size_t names = 0;  ///< section with the sections' names

 private:
  template <class T>
  void headers(std::vector<T>& out, std::uint64_t offset, std::uint64_t stride, std::uint64_t count,
               std::size_t size) {
    if (count != 0 && stride < size) throw Error("code object has malformed headers");
    for (std::uint64_t i = 0; i < count; ++i) out.push_back(get<T>(offset + i * stride));
  }
  std::span<const std::byte> bytes_;
};

MsgValue read_metadata(const Elf& elf) {
  for (const SectionHeader& s : elf.sections) {
    if (s.type != kNote) continue;
    for (std::uint64_t at = s.offset; at + 12 <= s.offset + s.size;) {
      const auto name = elf.get<std::uint32_t>(at), size = elf.get<std::uint32_t>(at + 4),
                 type = elf.get<std::uint32_t>(at + 8);
      const std::uint64_t data = at + 12 + (std::uint64_t{name} + 3) / 4 * 4;
      if (type == 32) return parse_msgpack(elf.slice(data, size));  // NT_AMDGPU_METADATA
      at = data + (std::uint64_t{size} + 3) / 4 * 4;
    }
  }
  throw Error("code object has no metadata note (version 3 or newer is needed)");
}

void relocate(const Elf& elf, std::span<const Symbol> symbols, std::uint64_t base,
              std::vector<std::byte>& image) {
  for (const SectionHeader& s : elf.sections) {
    if (s.type != kRela || s.entry_size < sizeof(Rela)) continue;
    for (std::uint64_t i = 0; i < s.size / s.entry_size; ++i) {
      const auto r = elf.get<Rela>(s.offset + i * s.entry_size);
      const auto type = static_cast<std::uint32_t>(r.info), symbol = static_cast<std::uint32_t>(r.info >> 32);
      std::uint64_t value = base + static_cast<std::uint64_t>(r.addend);
      if (type == 3) {  // R_AMDGPU_ABS64
        if (symbol >= symbols.size() || symbols[symbol].section == 0) {
          throw Error("code object refers to a symbol that it does not define");
        }
        value += symbols[symbol].value;
      } else if (type != 13) {  // R_AMDGPU_RELATIVE64
        throw Error("code object has a relocation of unknown type " + std::to_string(type));
      }
      if (r.offset > image.size() || image.size() - r.offset < 8)
        throw Error("code object relocates outside of itself");
      std::memcpy(image.data() + r.offset, &value, 8);
    }
  }
}

/// "gfx90a" of "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-".
std::string read_target(const Elf& elf, const MsgValue& metadata) {
  std::string target = metadata["amdhsa.target"].string;
  if (target.empty()) {  // version 3 has it in the ELF flags only
    const std::uint32_t machine = elf.flags & 0xff;
    target = machine == 0x3f ? "gfx90a" : machine == 0x4c ? "gfx942" : machine == 0x4f ? "gfx950" : "unknown";
  }
  const std::size_t at = target.find("gfx");
  if (at != std::string::npos) target.erase(0, at);
  return target.substr(0, target.find(':'));
}

void read_segments(const Elf& elf, CodeObject& object) {
  std::vector<std::byte>& image = object.image;
  for (const ProgramHeader& p : elf.segments) {
    if (p.type != 1) continue;
    if (p.memory_size > kMaxImage || p.address > kMaxImage || p.memory_size < p.file_size) {
      throw Error("code object has a malformed segment");
    }
    image.resize(std::max<std::size_t>(image.size(), p.address + p.memory_size));
    object.segments.push_back({p.address, p.file_size, p.offset});
    std::ranges::copy(elf.slice(p.offset, p.file_size),
                      image.begin() + static_cast<std::ptrdiff_t>(p.address));
  }
}

struct Symbols {
  std::vector<Symbol> dynamic;
  std::map<std::string, std::uint64_t> descriptors;
};

/// Also the functions, sorted, each address once.
Symbols read_symbols(const Elf& elf, std::vector<Function>& functions) {
  Symbols symbols;
  for (const SectionHeader& s : elf.sections) {
    if ((s.type != kSymtab && s.type != kDynsym) || s.entry_size < sizeof(Symbol) ||
        s.link >= elf.sections.size())
      continue;
    for (std::uint64_t i = 0; i < s.size / s.entry_size; ++i) {
      const auto symbol = elf.get<Symbol>(s.offset + i * s.entry_size);
      if (s.type == kDynsym) symbols.dynamic.push_back(symbol);
      if (symbol.section == 0) continue;
      std::string text = elf.text(elf.sections[s.link], symbol.name);
      if ((symbol.info & 15) == 2)
        functions.push_back({std::move(text), symbol.value, symbol.size});
      else if (text.ends_with(".kd"))
        symbols.descriptors[text] = symbol.value;
    }
  }
  std::ranges::sort(functions, [](const Function& a, const Function& b) { return a.address < b.address; });
  const auto same = std::ranges::unique(
      functions, [](const Function& a, const Function& b) { return a.address == b.address; });
  functions.erase(same.begin(), same.end());
  return symbols;
}

void read_debug_sections(const Elf& elf, CodeObject& object) {
  if (elf.names >= elf.sections.size()) return;
  for (const SectionHeader& s : elf.sections) {
    const std::string name = elf.text(elf.sections[elf.names], s.name);
    if (name == ".debug_line") object.debug_line = elf.slice(s.offset, s.size);
    if (name == ".debug_line_str") object.debug_line_str = elf.slice(s.offset, s.size);
    if (name == ".debug_str") object.debug_str = elf.slice(s.offset, s.size);
  }
}

void read_all_kernels(const MsgValue& metadata, const Symbols& symbols, CodeObject& object) {
  for (const MsgValue& k : metadata["amdhsa.kernels"].array) {
    Kernel kernel;
    kernel.info = read_kernel_info(k);
    const auto d = symbols.descriptors.find(k[".symbol"].string);
    if (d == symbols.descriptors.end() || d->second > object.image.size() ||
        object.image.size() - d->second < kDescriptorBytes) {
      throw Error("kernel '" + kernel.info.name + "' has no descriptor");
    }
    std::memcpy(kernel.descriptor.data(), object.image.data() + d->second, kDescriptorBytes);
    std::int64_t offset;
    std::memcpy(&offset, kernel.descriptor.data() + 16, sizeof offset);
    kernel.entry = d->second + static_cast<std::uint64_t>(offset);
    for (const Function& f : object.functions) {
      if (f.address == kernel.entry) kernel.end = f.address + f.size;
    }
    if (kernel.end == 0) throw Error("kernel '" + kernel.info.name + "' has no code at its entry");
    object.kernels.push_back(std::move(kernel));
  }
}

}  // namespace

KernelInfo read_kernel_info(const MsgValue& k) {
  const auto number = [&](const char* key) { return static_cast<int>(k[key].integer); };
  KernelInfo info;
  info.name = k[".name"].string;
  // Larger than any device has; host memory is taken by these.
  const auto bytes = [&](const char* key, std::int64_t most) {
    const std::int64_t value = k[key].integer;
    if (value < 0 || value > most)
      throw Error("kernel '" + info.name + "': " + key + " is " + std::to_string(value) + ", at most " +
                  std::to_string(most));
    return static_cast<std::size_t>(value);
  };
  info.kernarg_bytes = bytes(".kernarg_segment_size", 65536);
  info.lds_bytes = bytes(".group_segment_fixed_size", 1 << 20);
  info.scratch_bytes = bytes(".private_segment_fixed_size", 131072);
  info.vgprs = number(".vgpr_count");
  info.agprs = number(".agpr_count");
  info.sgprs = number(".sgpr_count");
  info.vgpr_spills = number(".vgpr_spill_count");
  info.sgpr_spills = number(".sgpr_spill_count");
  info.max_workgroup = number(".max_flat_workgroup_size");
  if (number(".wavefront_size") != 64) throw Error("kernel '" + info.name + "' is not for waves of 64 lanes");
  for (const MsgValue& a : k[".args"].array) {
    Argument arg{a[".name"].string, a[".value_kind"].string, static_cast<std::size_t>(a[".size"].integer),
                 static_cast<std::size_t>(a[".offset"].integer)};
    if (arg.bytes == 0) throw Error("kernel '" + info.name + "' has an argument without a size");
    if (arg.offset > info.kernarg_bytes || info.kernarg_bytes - arg.offset < arg.bytes) {
      throw Error("kernel '" + info.name + "' has an argument outside of its argument segment");
    }
    info.args.push_back(std::move(arg));
  }
  return info;
}

std::vector<KernelInfo> read_kernels(std::span<const std::byte> bytes) {
  const MsgValue metadata = read_metadata(Elf(bytes));
  std::vector<KernelInfo> kernels;
  for (const MsgValue& k : metadata["amdhsa.kernels"].array) kernels.push_back(read_kernel_info(k));
  return kernels;
}

CodeObject read(std::span<const std::byte> bytes, std::uint64_t base) {
  const Elf elf(bytes);
  const MsgValue metadata = read_metadata(elf);
  CodeObject object;
  object.target = read_target(elf, metadata);
  read_segments(elf, object);
  const Symbols symbols = read_symbols(elf, object.functions);
  relocate(elf, symbols.dynamic, base, object.image);
  read_debug_sections(elf, object);
  read_all_kernels(metadata, symbols, object);
  if (object.kernels.empty()) throw Error("code object has no kernels");
  return object;
}

}  // namespace kiln::code_object
