// A loaded code object: its image, kernels and decoded instructions. Internal.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <kiln/emulator/amdgcn.hpp>
#include "emulator/amdgcn/load/isa.hpp"

namespace kiln::emulator::amdgcn {

/// What the kernel descriptor says of the registers a wave starts with.
struct Abi {
  bool private_segment_buffer = false, dispatch_ptr = false, queue_ptr = false, kernarg_ptr = false,
       dispatch_id = false, flat_scratch_init = false, private_segment_size = false;
  bool private_wave_offset = false;
  bool workgroup_id[3] = {};
  bool workgroup_info = false;
  /// Waves of a block may run on different compute units, whose accesses of memory keep no order (tgsplit).
  bool split_block = false;
  int workitem_dims = 1;  ///< 1: x, 2: x and y, 3: all
  int user_sgprs = 0;
  int preload_dwords = 0, preload_offset = 0;  ///< kernel arguments placed in SGPRs
  /// Where the workgroup's ids begin: behind what is enabled, or the count where that says more.
  int first_system_sgpr() const {
    const int pairs = dispatch_ptr + queue_ptr + kernarg_ptr + dispatch_id + flat_scratch_init;
    return std::max(4 * private_segment_buffer + 2 * pairs + private_segment_size + preload_dwords,
                    user_sgprs);
  }
};

struct KernelCode {
  KernelInfo info;
  Abi abi;
  std::uint64_t entry = 0, end = 0;  ///< address range of the code
  /// Whether a block of it is never more than one wave.
  bool one_wave() const { return info.max_workgroup > 0 && info.max_workgroup <= kLanes; }
};

/// Where code addresses start in the emulated address space: addresses in the code object are relative to it.
inline constexpr std::uint64_t kImageBase = 0x0000'5000'0000'0000;

/// Decoded instructions of all functions, in address order.
struct Program {
  std::vector<Inst> code;
  std::unordered_map<std::uint64_t, int> by_address;
  /// Index of the instruction at `address` (in the code object), or -1.
  int find(std::uint64_t address) const {
    const auto it = by_address.find(address);
    return it == by_address.end() ? -1 : it->second;
  }
};

struct Module::Impl {
  std::string name, target_name;
  Target target = Target::gfx90a;
  std::map<std::string, KernelCode, std::less<>> kernels;
  Program program;
  /// Bytes of all loaded segments; device variables live here and keep their value between launches.
  std::shared_ptr<std::vector<std::byte>> image = std::make_shared<std::vector<std::byte>>();

  std::vector<code_object::Segment> segments;  ///< of a code object

  std::deque<std::string> files;  ///< source files that instructions name

  const KernelCode& find(std::string_view kernel) const;
};

Target parse_target(std::string_view name);
/// Resolves branch targets; `labels` holds, per instruction, the label it names (or "").
void link_branches(Program& program, const std::vector<std::string>& labels,
                   const std::unordered_map<std::string, int>& label_index);

}  // namespace kiln::emulator::amdgcn
