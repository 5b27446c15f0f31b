// Multicast objects: memory of the devices of a team behind one address, for the kernels' multimem instructions. The
// emulated device is alone, so a team has one member, and an address of the object stands for the memory bound there.
#include "driver/multicast.hpp"

#include "driver/api.hpp"
#include "emulator/machine/memory.hpp"

namespace kiln::driver {
namespace {

MulticastObject& object(Driver& d, CUmemGenericAllocationHandle handle) {
  const auto it = d.multicasts.find(handle);
  require(it != d.multicasts.end());
  return it->second;
}

void check(Driver& d, const CUmulticastObjectProp* p) {
  require(p != nullptr && p->flags == 0 && p->numDevices >= 1 && p->size != 0 && p->size % kGranule == 0);
  if (p->numDevices > 1) {
    d.report.unsupported("cuMulticastCreate", "teams of several devices: there is one");
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  }
  if (p->handleTypes != 0) {
    d.report.unsupported("cuMulticastCreate", "objects that other processes can open");
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  }
}

/// Where bound memory has its own address now; 0: nowhere.
CUdeviceptr address_of_bound(Driver& d, const MulticastObject::Binding& b) {
  if (b.handle == 0) return b.address;
  const auto it = d.physical.find(b.handle);
  if (it == d.physical.end() || it->second.mapped == 0) return 0;
  const auto mapping = d.mappings.find(it->second.mapped);
  return mapping != d.mappings.end() && mapping->second.access != 0 ? it->second.mapped + b.address : 0;
}

void bind(Driver& d, CUmemGenericAllocationHandle handle, std::size_t offset,
          const MulticastObject::Binding& binding, unsigned long long flags) {
  MulticastObject& o = object(d, handle);
  const std::size_t bytes = binding.bytes;
  require(flags == 0 && bytes != 0 && bytes % kGranule == 0 && offset % kGranule == 0);
  require(o.devices == 1, CUDA_ERROR_ILLEGAL_STATE);
  require(offset <= o.bytes && bytes <= o.bytes - offset);
  const auto next = o.bound.lower_bound(offset);
  require(next == o.bound.end() || next->first >= offset + bytes);
  require(next == o.bound.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= offset);
  o.bound[offset] = binding;
  refresh_multicast(d);
}

}  // namespace

void refresh_multicast(Driver& d) {
  auto& table = d.memory.impl().multicast;
  table.clear();
  for (const auto& [at, view] : d.multicast_views) {
    if (view.access == 0) continue;
    for (const auto& [offset, binding] : object(d, view.handle).bound) {
      const CUdeviceptr memory = address_of_bound(d, binding);
      const std::size_t begin = std::max(offset, view.offset);
      const std::size_t end = std::min(offset + binding.bytes, view.offset + view.bytes);
      if (memory != 0 && begin < end)
        table[at + begin - view.offset] = {end - begin, memory + (begin - offset)};
    }
  }
}

bool map_multicast(Driver& d, CUdeviceptr at, std::size_t bytes, std::size_t offset,
                   CUmemGenericAllocationHandle handle) {
  const auto it = d.multicasts.find(handle);
  if (it == d.multicasts.end()) return false;
  MulticastObject& o = it->second;
  require(o.devices == 1, CUDA_ERROR_ILLEGAL_STATE);
  require(at % kGranule == 0 && bytes % kGranule == 0 && offset % kGranule == 0 && bytes != 0);
  require(offset <= o.bytes && bytes <= o.bytes - offset);
  auto range = d.reserved.upper_bound(at);
  require(range != d.reserved.begin());
  --range;
  require(at - range->first + bytes <= range->second);
  for (const auto& [other, view] : d.multicast_views)
    require(other >= at + bytes || other + view.bytes <= at, CUDA_ERROR_ALREADY_MAPPED);
  for (const auto& [other, mapping] : d.mappings)
    require(other >= at + bytes || other + mapping.bytes <= at, CUDA_ERROR_ALREADY_MAPPED);
  d.multicast_views[at] = {handle, bytes, offset, 0};
  ++o.uses;
  return true;
}

bool unmap_multicast(Driver& d, CUdeviceptr at, std::size_t bytes) {
  const auto it = d.multicast_views.find(at);
  if (it == d.multicast_views.end()) return false;
  require(it->second.bytes == bytes);
  const CUmemGenericAllocationHandle handle = it->second.handle;
  d.multicast_views.erase(it);
  release_multicast(d, handle);
  return true;
}

bool set_multicast_access(Driver& d, CUdeviceptr at, std::size_t bytes, unsigned access) {
  const auto it = d.multicast_views.find(at);
  if (it == d.multicast_views.end()) return false;
  require(it->second.bytes == bytes);
  it->second.access = access;
  refresh_multicast(d);
  return true;
}

bool release_multicast(Driver& d, CUmemGenericAllocationHandle handle) {
  const auto it = d.multicasts.find(handle);
  if (it == d.multicasts.end()) return false;
  if (--it->second.uses == 0) d.multicasts.erase(it);
  refresh_multicast(d);
  return true;
}

}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuMulticastCreate(CUmemGenericAllocationHandle* out, const CUmulticastObjectProp* p) {
  return on_device([&](Driver& d) {
    require(out != nullptr);
    check(d, p);
    *out = d.next_id++;
    d.multicasts[*out].bytes = p->size;
  });
}
KILN_API CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  return on_device([&](Driver& d) {
    check_device(device);
    MulticastObject& o = object(d, handle);
    require(o.devices == 0);
    o.devices = 1;
  });
}
KILN_API CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t offset,
                                     CUmemGenericAllocationHandle memory, std::size_t memory_offset,
                                     std::size_t bytes, unsigned long long flags) {
  return on_device([&](Driver& d) {
    const auto it = d.physical.find(memory);
    require(it != d.physical.end() && memory_offset % kGranule == 0);
    require(memory_offset <= it->second.bytes && bytes <= it->second.bytes - memory_offset);
    bind(d, handle, offset, {memory, memory_offset, bytes}, flags);
  });
}
KILN_API CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, std::size_t offset,
                                      CUdeviceptr memory, std::size_t bytes, unsigned long long flags) {
  return on_device([&](Driver& d) {
    const auto* block = d.block_of(memory);
    require(block != nullptr && memory % kGranule == 0 &&
            bytes <= block->second.bytes - (memory - block->first));
    bind(d, handle, offset, {0, memory, bytes}, flags);
  });
}
KILN_API CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, std::size_t offset,
                                    std::size_t bytes) {
  return on_device([&](Driver& d) {
    check_device(device);
    MulticastObject& o = object(d, handle);
    const auto it = o.bound.find(offset);
    require(it != o.bound.end() && it->second.bytes == bytes);
    o.bound.erase(it);
    refresh_multicast(d);
  });
}
KILN_API CUresult cuMulticastGetGranularity(std::size_t* out, const CUmulticastObjectProp* p, unsigned) {
  return on_device([&](Driver&) {
    require(out != nullptr && p != nullptr);
    *out = kGranule;
  });
}
