// The bytes of a launch's parameters, by offset.
#include "runtime/launch/pack.hpp"

#include <algorithm>

namespace kiln {

void PackedParams::add_bytes(const void* data, std::size_t size, std::size_t align) {
  const std::size_t offset = (bytes_.size() + align - 1) / align * align;
  if (offsets_.size() == LaunchParams::kMaxParams || offset + size > LaunchParams::kMaxBytes) {
    throw Error(ErrorCode::internal, "a kernel asks for more parameters than a launch can carry");
  }
  bytes_.resize(offset + size);
  std::memcpy(bytes_.data() + offset, data, size);
  offsets_.push_back(offset);
  sizes_.push_back(static_cast<std::uint32_t>(size));
}

void PackedParams::add_pointer(Operand operand) {
  add(std::uint64_t{0});
  pointers_.push_back({last_offset(), operand});
}

void PackedParams::add_struct(const std::vector<std::byte>& bytes,
                              const std::vector<std::pair<std::size_t, Operand>>& operands) {
  add_bytes(bytes.data(), bytes.size(), alignof(std::uint64_t));
  for (const auto& [offset, operand] : operands) pointers_.push_back({last_offset() + offset, operand});
}

void PackedParams::add_scratch(std::uint64_t ScratchAddresses::*member) {
  add(std::uint64_t{0});
  scratch_.push_back({last_offset(), member});
}

void PackedParams::add_map(Operand operand, std::uint64_t shift, const TensorMapRequest& request) {
  const TensorMapBytes open{};
  add_bytes(open.data(), open.size(), 64);
  maps_.push_back({last_offset(), operand, shift, request});
}

const TensorMapBytes& PackedParams::encoded(Map& map, std::uint64_t address, Device& device) {
  for (const Encoded& known : map.recent) {
    if (known.valid && known.address == address) return known.bytes;
  }
  Encoded& slot = map.recent[map.next];
  map.next = (map.next + 1) % map.recent.size();
  slot.valid = false;
  map.request.address = address;
  slot.bytes = device.encode(map.request);
  slot.address = address;
  slot.valid = true;
  return slot.bytes;
}

ParamView PackedParams::fill(const std::array<std::uint64_t, kOperands>& addresses,
                             const ScratchAddresses& scratch, Device& device, LaunchParams& out) {
  std::memcpy(out.bytes.data(), bytes_.data(), bytes_.size());
  for (const Pointer& pointer : pointers_) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(pointer.operand)];
    std::memcpy(out.bytes.data() + pointer.offset, &address, sizeof address);
  }
  for (const ScratchPointer& pointer : scratch_) {
    const std::uint64_t address = scratch.*pointer.member;
    std::memcpy(out.bytes.data() + pointer.offset, &address, sizeof address);
  }
  for (Map& map : maps_) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(map.operand)] + map.shift;
    const TensorMapBytes& bytes = encoded(map, address, device);
    std::memcpy(out.bytes.data() + map.offset, bytes.data(), bytes.size());
  }
  for (std::size_t i = 0; i < offsets_.size(); ++i) out.addresses[i] = out.bytes.data() + offsets_[i];
  return {{out.addresses.data(), offsets_.size()}, sizes_};
}

}  // namespace kiln
