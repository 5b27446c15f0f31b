// Reads a code object: ELF64 for AMDGPU, its metadata note, kernel descriptors, segments and relocations, and
// decodes every function in it.
#include <algorithm>
#include <cstring>

#include "emulator/amdgcn/disassembler.hpp"
#include "emulator/amdgcn/line_table.hpp"
#include "emulator/amdgcn/module.hpp"
#include "emulator/amdgcn/msgpack.hpp"

namespace kiln::emulator::amdgcn {
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
constexpr std::size_t kDescriptorBytes = 64;
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

Abi read_descriptor(std::span<const std::byte> d) {
  const auto word = [&](std::size_t offset) {
    std::uint32_t v;
    std::memcpy(&v, d.data() + offset, 4);
    return v;
  };
  const std::uint32_t rsrc2 = word(52), properties = word(56);
  Abi abi;
  abi.private_segment_buffer = properties & 1;
  abi.dispatch_ptr = properties & 2;
  abi.queue_ptr = properties & 4;
  abi.kernarg_ptr = properties & 8;
  abi.dispatch_id = properties & 16;
  abi.flat_scratch_init = properties & 32;
  abi.private_segment_size = properties & 64;
  abi.preload_dwords = properties >> 16 & 0x7f;
  abi.preload_offset = properties >> 23 & 0x1ff;
  abi.private_wave_offset = rsrc2 & 1;
  abi.user_sgprs = rsrc2 >> 1 & 31;
  for (int i = 0; i < 3; ++i) abi.workgroup_id[i] = rsrc2 >> (7 + i) & 1;
  abi.workgroup_info = rsrc2 >> 10 & 1;
  abi.workitem_dims = std::min(3, static_cast<int>(rsrc2 >> 11 & 3) + 1);
  return abi;
}

struct Function {
  std::string name;
  std::uint64_t address, size;
};

void decode_function(const Function& f, std::span<const std::byte> image, Disassembler& disassembler,
                     Program& program) {
  if (f.address > image.size() || image.size() - f.address < f.size)
    throw Error("code of '" + f.name + "' is cut short");
  std::string label;
  for (std::uint64_t at = f.address; at < f.address + f.size;) {
    Inst inst;
    const std::size_t length = disassembler.decode(image.subspan(at, f.address + f.size - at), at, inst.text);
    inst.address = at;
    if (length == 0) {
      std::uint32_t word = 0;
      std::memcpy(&word, image.data() + at, std::min<std::size_t>(4, f.address + f.size - at));
      char hex[32];
      std::snprintf(hex, sizeof hex, ".long 0x%08x", word);
      inst.text = hex;  // an unknown encoding, or data among the code: an error only if it is executed
      at += 4;
    } else {
      const std::size_t first = inst.text.find_first_not_of(" \t");
      inst.text.erase(0, std::min(first, inst.text.size()));
      inst.size = static_cast<std::uint8_t>(length);
      parse_instruction(inst.text, inst, label);
      at += length;
    }
    program.by_address.emplace(inst.address, static_cast<int>(program.code.size()));
    program.code.push_back(std::move(inst));
  }
}

void relocate(const Elf& elf, std::span<const Symbol> symbols, std::vector<std::byte>& image) {
  for (const SectionHeader& s : elf.sections) {
    if (s.type != kRela || s.entry_size < sizeof(Rela)) continue;
    for (std::uint64_t i = 0; i < s.size / s.entry_size; ++i) {
      const auto r = elf.get<Rela>(s.offset + i * s.entry_size);
      const auto type = static_cast<std::uint32_t>(r.info), symbol = static_cast<std::uint32_t>(r.info >> 32);
      std::uint64_t value = kImageBase + static_cast<std::uint64_t>(r.addend);
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

void attach_lines(const Elf& elf, Module::Impl& impl) {
  std::span<const std::byte> line, line_str, str;
  if (elf.names >= elf.sections.size()) return;
  for (const SectionHeader& s : elf.sections) {
    const std::string name = elf.text(elf.sections[elf.names], s.name);
    if (name == ".debug_line") line = elf.slice(s.offset, s.size);
    if (name == ".debug_line_str") line_str = elf.slice(s.offset, s.size);
    if (name == ".debug_str") str = elf.slice(s.offset, s.size);
  }
  const LineTable table = read_line_table(line, line_str, str);
  if (table.rows.empty()) return;
  impl.files.assign(table.files.begin(), table.files.end());
  for (Inst& in : impl.program.code) {
    const auto after = std::ranges::upper_bound(table.rows, in.address, {}, &LineRow::address);
    if (after == table.rows.begin()) continue;
    in.source_file = &impl.files[std::prev(after)->file];
    in.source_line = std::prev(after)->line;
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

Target parse_target(std::string_view name) {
  if (name == "gfx90a") return Target::gfx90a;
  if (name == "gfx942") return Target::gfx942;
  if (name == "gfx950") return Target::gfx950;
  throw Error("the emulated device knows gfx90a, gfx942 and gfx950, not '" + std::string(name) + "'");
}

Module Module::from_code_object(std::span<const std::byte> bytes, std::string name) {
  const Elf elf(bytes);
  const MsgValue metadata = read_metadata(elf);
  auto impl = std::make_shared<Impl>();
  impl->name = std::move(name);
  // "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"
  std::string target = metadata["amdhsa.target"].string;
  if (target.empty()) {  // version 3 has it in the ELF flags only
    const std::uint32_t machine = elf.flags & 0xff;
    target = machine == 0x3f ? "gfx90a" : machine == 0x4c ? "gfx942" : machine == 0x4f ? "gfx950" : "unknown";
  }
  target = target.substr(target.find("gfx") == std::string::npos ? 0 : target.find("gfx"));
  impl->target_name = target.substr(0, target.find(':'));
  impl->target = parse_target(impl->target_name);

  std::vector<std::byte>& image = *impl->image;
  for (const ProgramHeader& p : elf.segments) {
    if (p.type != 1) continue;
    if (p.memory_size > kMaxImage || p.address > kMaxImage || p.memory_size < p.file_size) {
      throw Error("code object has a malformed segment");
    }
    image.resize(std::max<std::size_t>(image.size(), p.address + p.memory_size));
    impl->segments.push_back({p.address, p.file_size, p.offset});
    std::ranges::copy(elf.slice(p.offset, p.file_size),
                      image.begin() + static_cast<std::ptrdiff_t>(p.address));
  }

  std::vector<Symbol> dynamic;
  std::vector<Function> functions;
  std::map<std::string, std::uint64_t> descriptors;
  for (const SectionHeader& s : elf.sections) {
    if ((s.type != kSymtab && s.type != kDynsym) || s.entry_size < sizeof(Symbol) ||
        s.link >= elf.sections.size())
      continue;
    for (std::uint64_t i = 0; i < s.size / s.entry_size; ++i) {
      const auto symbol = elf.get<Symbol>(s.offset + i * s.entry_size);
      if (s.type == kDynsym) dynamic.push_back(symbol);
      if (symbol.section == 0) continue;
      std::string text = elf.text(elf.sections[s.link], symbol.name);
      if ((symbol.info & 15) == 2)
        functions.push_back({std::move(text), symbol.value, symbol.size});
      else if (text.ends_with(".kd"))
        descriptors[text] = symbol.value;
    }
  }
  relocate(elf, dynamic, image);

  std::ranges::sort(functions, [](const Function& a, const Function& b) { return a.address < b.address; });
  const auto same = std::ranges::unique(
      functions, [](const Function& a, const Function& b) { return a.address == b.address; });
  functions.erase(same.begin(), same.end());
  Disassembler disassembler(impl->target_name);
  for (const Function& f : functions) decode_function(f, image, disassembler, impl->program);
  link_branches(impl->program, {}, {});
  attach_lines(elf, *impl);

  for (const MsgValue& k : metadata["amdhsa.kernels"].array) {
    KernelCode kernel;
    kernel.info = read_kernel_info(k);
    const auto d = descriptors.find(k[".symbol"].string);
    if (d == descriptors.end() || d->second > image.size() || image.size() - d->second < kDescriptorBytes) {
      throw Error("kernel '" + kernel.info.name + "' has no descriptor");
    }
    const auto descriptor = std::span<const std::byte>(image).subspan(d->second, kDescriptorBytes);
    kernel.abi = read_descriptor(descriptor);
    std::int64_t offset;
    std::memcpy(&offset, descriptor.data() + 16, sizeof offset);
    kernel.entry = d->second + static_cast<std::uint64_t>(offset);
    for (const Function& f : functions) {
      if (f.address == kernel.entry) kernel.end = f.address + f.size;
    }
    if (impl->program.find(kernel.entry) < 0 || kernel.end == 0) {
      throw Error("kernel '" + kernel.info.name + "' has no code at its entry");
    }
    impl->kernels.emplace(kernel.info.name, std::move(kernel));
  }
  if (impl->kernels.empty()) throw Error("code object has no kernels");
  Module module;
  module.impl_ = std::move(impl);
  return module;
}

}  // namespace kiln::emulator::amdgcn
