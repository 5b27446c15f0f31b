// Loads a code object: decodes every function in it and places its image.
#include <kiln/code_object.hpp>

#include <algorithm>
#include <cstring>

#include "code_object/disassembler.hpp"
#include "emulator/amdgcn/load/line_table.hpp"
#include "emulator/amdgcn/load/module.hpp"

namespace kiln::emulator::amdgcn {
namespace {

Abi read_descriptor(std::span<const std::byte> d) {
  const auto word = [&](std::size_t offset) {
    std::uint32_t v;
    std::memcpy(&v, d.data() + offset, 4);
    return v;
  };
  const std::uint32_t rsrc2 = word(52), rsrc3 = word(44), properties = word(56);
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
  abi.split_block = rsrc3 >> 16 & 1;
  abi.workitem_dims = std::min(3, static_cast<int>(rsrc2 >> 11 & 3) + 1);
  return abi;
}

void decode_function(std::vector<code_object::Instruction> instructions, Program& program) {
  std::string label;
  for (code_object::Instruction& from : instructions) {
    Inst inst;
    inst.text = std::move(from.text);
    inst.address = from.address;
    // An unknown encoding, or data among the code, is an error only if it is executed.
    if (!inst.text.starts_with(code_object::kData)) {
      inst.size = from.bytes;
      parse_instruction(inst.text, inst, label);
    }
    program.by_address.emplace(inst.address, static_cast<int>(program.code.size()));
    program.code.push_back(std::move(inst));
  }
}

void attach_lines(const code_object::CodeObject& object, Module::Impl& impl) {
  const LineTable table = read_line_table(object.debug_line, object.debug_line_str, object.debug_str);
  if (table.rows.empty()) return;
  impl.files.assign(table.files.begin(), table.files.end());
  for (Inst& in : impl.program.code) {
    const auto after = std::ranges::upper_bound(table.rows, in.address, {}, &LineRow::address);
    if (after == table.rows.begin()) continue;
    in.source_file = &impl.files[std::prev(after)->file];
    in.source_line = std::prev(after)->line;
  }
}

std::shared_ptr<Module::Impl> load(std::span<const std::byte> bytes) {
  code_object::CodeObject object = code_object::read(bytes, kImageBase);
  auto impl = std::make_shared<Module::Impl>();
  impl->target_name = object.target;
  impl->target = parse_target(object.target);
  code_object::Disassembler disassembler(object.target);
  for (const code_object::Function& f : object.functions)
    decode_function(disassembler.decode(f, object.image), impl->program);
  link_branches(impl->program, {}, {});
  attach_lines(object, *impl);
  for (code_object::Kernel& from : object.kernels) {
    if (impl->program.find(from.entry) < 0)
      throw Error("kernel '" + from.info.name + "' has no code at its entry");
    const std::string name = from.info.name;
    impl->kernels.emplace(
        name, KernelCode{std::move(from.info), read_descriptor(from.descriptor), from.entry, from.end});
  }
  *impl->image = std::move(object.image);
  impl->segments = std::move(object.segments);
  return impl;
}

}  // namespace

Target parse_target(std::string_view name) {
  if (name == "gfx90a") return Target::gfx90a;
  if (name == "gfx942") return Target::gfx942;
  if (name == "gfx950") return Target::gfx950;
  throw Error("the emulated device knows gfx90a, gfx942 and gfx950, not '" + std::string(name) + "'");
}

Module Module::from_code_object(std::span<const std::byte> bytes, std::string name) {
  Module module;
  try {
    auto impl = load(bytes);
    impl->name = std::move(name);
    module.impl_ = std::move(impl);
  } catch (const code_object::MissingLibrary& error) {
    throw MissingLibrary(error.what());
  } catch (const code_object::Error& error) {
    throw Error(error.what());
  }
  return module;
}

}  // namespace kiln::emulator::amdgcn
