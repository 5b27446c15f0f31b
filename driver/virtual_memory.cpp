// Virtual memory: addresses that are reserved, memory that is created, and the mapping of one to the other. What is not
// mapped, or has no access, is no memory of the device; a kernel that comes there is out of bounds.
#include <algorithm>
#include <cstring>

#include "driver/api.hpp"
#include "driver/multicast.hpp"
#include "driver/state.hpp"
#include "emulator/machine/memory.hpp"

namespace kiln::driver {
namespace {

constexpr int kPinned = 1, kDeviceLocation = 1, kHostLocation = 2, kHostNuma = 3, kHostNumaCurrent = 4;

void check(Driver& d, const CUmemAllocationProp* p) {
  require(p != nullptr && p->type == kPinned);
  const int where = p->location.type;
  require(where == kDeviceLocation || where == kHostLocation || where == kHostNuma ||
          where == kHostNumaCurrent);
  if (where == kDeviceLocation) check_device(p->location.id);
  if (p->requestedHandleTypes != 0) {
    d.report.unsupported("cuMemCreate", "memory that other processes can open");
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  }
}

/// Addresses that nothing else will have. They cost nothing until they are mapped.
CUdeviceptr reserve(Driver& d, std::size_t bytes, std::size_t align) {
  auto& m = d.memory.impl();
  const std::lock_guard lock(m.mutex);
  align = std::max(align, kGranule);
  const std::size_t at = (em::kGlobalBase + m.next + align - 1) / align * align - em::kGlobalBase;
  require(bytes < m.capacity && at < m.capacity - bytes, CUDA_ERROR_OUT_OF_MEMORY);
  m.next = at + bytes + kGranule;
  ++m.live;  // as long as there are reservations the addresses do not start over
  return em::kGlobalBase + at;
}

Physical& physical(Driver& d, CUmemGenericAllocationHandle handle) {
  const auto it = d.physical.find(handle);
  require(it != d.physical.end());
  return it->second;
}

void drop(Driver& d, CUmemGenericAllocationHandle handle) {
  Physical& p = physical(d, handle);
  if (--p.uses == 0) d.physical.erase(handle);
}

/// Calls `body` for each mapping of [p, p + bytes), which they have to cover whole.
template <class F>
void for_mappings(Driver& d, CUdeviceptr p, std::size_t bytes, const F& body) {
  const CUdeviceptr end = p + bytes;
  for (CUdeviceptr at = p; at < end;) {
    const auto it = d.mappings.find(at);
    require(it != d.mappings.end() && it->second.bytes <= end - at);
    at += it->second.bytes;
  }
  for (auto it = d.mappings.find(p); it != d.mappings.end() && it->first < end;) {
    const auto next = std::next(it);
    body(it);
    it = next;
  }
}

void set_access(Driver& d, CUdeviceptr at, Mapping& m, unsigned access) {
  auto& memory = d.memory.impl();
  Physical& p = physical(d, m.handle);
  std::uint8_t* const shadow = memory.shadow_at(at);
  if (m.access == 0 && access != 0) std::memcpy(shadow, p.shadow.data(), m.bytes);
  if (m.access != 0 && access == 0) {
    p.shadow.assign(shadow, shadow + m.bytes);
    std::memset(shadow, em::kUnallocated, m.bytes);
  }
  m.access = access;
  refresh_multicast(d);
}

void map(Driver& d, CUdeviceptr at, std::size_t bytes, CUmemGenericAllocationHandle handle) {
  auto& memory = d.memory.impl();
  Physical& p = physical(d, handle);
  require(at % kGranule == 0 && bytes == p.bytes);
  auto range = d.reserved.upper_bound(at);
  require(range != d.reserved.begin());
  --range;
  require(at - range->first + bytes <= range->second);
  const auto next = d.mappings.lower_bound(at);
  require(next == d.mappings.end() || next->first >= at + bytes, CUDA_ERROR_ALREADY_MAPPED);
  if (next != d.mappings.begin())
    require(std::prev(next)->first + std::prev(next)->second.bytes <= at, CUDA_ERROR_ALREADY_MAPPED);
  if (p.mapped != 0) {
    d.report.unsupported("cuMemMap", "memory that has two addresses");
    throw Failure{CUDA_ERROR_NOT_SUPPORTED};
  }
  p.mapped = at;
  ++p.uses;
  std::memcpy(memory.at(at), p.data.data(), bytes);
  p.data = {};
  d.mappings[at] = {handle, bytes, 0};
  Block block;
  block.bytes = bytes;
  block.kind = p.properties.location.type == kDeviceLocation ? Block::Kind::device : Block::Kind::pinned;
  block.id = d.next_id++;
  {
    const std::lock_guard lock(memory.mutex);
    memory.allocations[at] = {bytes, "mapping " + std::to_string(block.id), false};
    memory.live_bytes += bytes;
  }
  d.blocks.emplace(at, block);
}

void unmap(Driver& d, std::map<CUdeviceptr, Mapping>::iterator it) {
  auto& memory = d.memory.impl();
  const CUdeviceptr at = it->first;
  set_access(d, at, it->second, 0);
  const CUmemGenericAllocationHandle handle = it->second.handle;
  const std::size_t bytes = it->second.bytes;
  Physical& p = physical(d, handle);
  p.mapped = 0;
  p.data.assign(memory.at(at), memory.at(at) + bytes);
  {
    const std::lock_guard lock(memory.mutex);
    memory.allocations[at].freed = true;
    memory.live_bytes -= bytes;
  }
  d.blocks.erase(at);
  d.mappings.erase(it);
  drop(d, handle);
}

}  // namespace
}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuMemGetAllocationGranularity(std::size_t* out, const CUmemAllocationProp* p, unsigned) {
  return on_device([&](Driver& d) {
    require(out != nullptr);
    check(d, p);
    *out = kGranule;
  });
}
KILN_API CUresult cuMemAddressReserve(CUdeviceptr* out, std::size_t bytes, std::size_t align, CUdeviceptr,
                                      unsigned long long flags) {
  return on_device([&](Driver& d) {
    require(out != nullptr && bytes != 0 && bytes % kGranule == 0 && flags == 0 &&
            (align & (align - 1)) == 0);
    *out = reserve(d, bytes, align);
    d.reserved[*out] = bytes;
  });
}
KILN_API CUresult cuMemAddressFree(CUdeviceptr p, std::size_t bytes) {
  return on_device([&](Driver& d) {
    const auto it = d.reserved.find(p);
    require(it != d.reserved.end() && it->second == bytes);
    const auto mapped = d.mappings.lower_bound(p);
    require(mapped == d.mappings.end() || mapped->first >= p + bytes);
    const auto view = d.multicast_views.lower_bound(p);
    require(view == d.multicast_views.end() || view->first >= p + bytes);
    d.reserved.erase(it);
    const std::lock_guard lock(d.memory.impl().mutex);
    --d.memory.impl().live;
  });
}
KILN_API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes,
                              const CUmemAllocationProp* p, unsigned long long flags) {
  return on_device([&](Driver& d) {
    require(out != nullptr && bytes != 0 && bytes % kGranule == 0 && flags == 0);
    check(d, p);
    Physical made;
    made.properties = *p;
    made.properties.allocFlags.compressionType = 0;  // as on a GPU that has no room for compressed memory
    made.bytes = bytes;
    made.data.assign(bytes, em::kPoison);
    const bool host = p->location.type != kDeviceLocation;
    made.shadow.assign(bytes, host ? em::kWritten : em::kAllocated);
    *out = d.next_id++;
    d.physical.emplace(*out, std::move(made));
  });
}
KILN_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return on_device([&](Driver& d) {
    if (!release_multicast(d, handle)) drop(d, handle);
  });
}
KILN_API CUresult cuMemMap(CUdeviceptr p, std::size_t bytes, std::size_t offset,
                           CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return on_device([&](Driver& d) {
    require(flags == 0);
    if (map_multicast(d, p, bytes, offset, handle)) return;
    require(offset == 0);
    map(d, p, bytes, handle);
  });
}
KILN_API CUresult cuMemUnmap(CUdeviceptr p, std::size_t bytes) {
  return on_device([&](Driver& d) {
    if (!unmap_multicast(d, p, bytes)) for_mappings(d, p, bytes, [&](auto it) { unmap(d, it); });
  });
}
KILN_API CUresult cuMemSetAccess(CUdeviceptr p, std::size_t bytes, const CUmemAccessDesc* access,
                                 std::size_t count) {
  return on_device([&](Driver& d) {
    require(access != nullptr && count != 0);
    for (std::size_t i = 0; i < count; ++i) {
      require(access[i].flags == 0 || access[i].flags == 1 || access[i].flags == 3);
      if (access[i].location.type != kDeviceLocation) continue;
      check_device(access[i].location.id);
      if (set_multicast_access(d, p, bytes, access[i].flags)) continue;
      for_mappings(d, p, bytes, [&](auto it) { set_access(d, it->first, it->second, access[i].flags); });
    }
  });
}
KILN_API CUresult cuMemGetAccess(unsigned long long* out, const CUmemLocation* where, CUdeviceptr p) {
  return on_device([&](Driver& d) {
    require(out != nullptr && where != nullptr);
    const auto* block = d.block_of(p);
    require(block != nullptr && d.mappings.count(block->first) != 0);
    *out = where->type == kDeviceLocation ? d.mappings.at(block->first).access : 0;
  });
}
KILN_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* p) {
  return on_device([&](Driver& d) {
    const auto* block = d.block_of(address_of(p));
    require(out != nullptr && block != nullptr && d.mappings.count(block->first) != 0);
    *out = d.mappings.at(block->first).handle;
    ++physical(d, *out).uses;
  });
}
KILN_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                         CUmemGenericAllocationHandle handle) {
  return on_device([&](Driver& d) {
    require(out != nullptr);
    *out = physical(d, handle).properties;
  });
}
