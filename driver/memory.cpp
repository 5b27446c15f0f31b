// Allocation, copies, memset, and what there is to know of pointers.
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "driver/api.hpp"
#include "driver/state.hpp"
#include "emulator/machine/memory.hpp"

namespace kiln::driver {
namespace {

/// Memory of this machine that the device may still take: a byte costs its shadow and what remembers races, too.
std::size_t host_room() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::size_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024 / 3;
    file.ignore(64, '\n');
  }
  return std::size_t{1} << 30;
}

std::size_t total_bytes(const Driver& d) {
  return d.options.gpu.memory_gib << 30;
}
std::size_t free_bytes(const Driver& d) {
  const std::size_t used = d.memory.allocated_bytes(), total = total_bytes(d);
  return std::min(used < total ? total - used : 0, host_room());
}

CUdeviceptr allocate_checked(Driver& d, std::size_t bytes, Block::Kind kind, unsigned flags = 0) {
  require(bytes != 0);
  // Small ones are not worth the look at what the machine has.
  require(bytes < (std::size_t{64} << 20) || bytes <= free_bytes(d), CUDA_ERROR_OUT_OF_MEMORY);
  return d.allocate(bytes, kind, flags);
}

bool on_gpu(const Driver& d, CUdeviceptr address) {
  return d.memory.impl().contains(address, 1);
}

/// One row: plain memory on both sides; device memory knows which bytes were written.
void copy_row(Driver& d, CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  auto& m = d.memory.impl();
  const bool device_from = on_gpu(d, from), device_to = on_gpu(d, to);
  const auto whole = [&](CUdeviceptr address) {
    const auto* block = d.block_of(address);
    if (block != nullptr && bytes <= block->second.bytes - (address - block->first)) return true;
    // Variables of modules, and memory that is mapped in parts.
    return m.contains(address, bytes) &&
           std::memchr(m.shadow_at(address), em::kUnallocated, bytes) == nullptr;
  };
  require(!device_from || whole(from));
  require(!device_to || whole(to));
  require(to != 0 && from != 0);
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  if (!device_to) return;
  const auto* block = d.block_of(to);
  if (device_from && block != nullptr && block->second.kind == Block::Kind::device)
    std::memmove(m.shadow_at(to), m.shadow_at(from), bytes);
  else
    std::memset(m.shadow_at(to), em::kWritten, bytes);
}

/// One side of a copy: where rows and slices begin.
struct Side {
  CUdeviceptr base = 0;
  std::size_t pitch = 0, slice = 0;
  CUdeviceptr row(std::size_t y, std::size_t z) const { return base + z * slice + y * pitch; }
};

Side array_side(Driver& d, CUarray handle, const CUDA_MEMCPY3D& c, std::size_t x, std::size_t y,
                std::size_t z) {
  const Array& a = array_of(d, handle);
  const em::ImageLevel& l = a.level;
  const std::size_t texel =
      em::channel_bytes(static_cast<em::ChannelFormat>(a.shape.Format)) * a.shape.NumChannels;
  require(x + c.WidthInBytes <= l.width * texel && y + c.Height <= l.height && z + c.Depth <= l.depth);
  return {l.address + z * l.slice_pitch + y * l.row_pitch + x, l.row_pitch, l.slice_pitch};
}

Side memory_side(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t pitch,
                 std::size_t height, const CUDA_MEMCPY3D& c, std::size_t x, std::size_t y, std::size_t z) {
  const bool rows = c.Height > 1 || c.Depth > 1;
  require(!rows || pitch == 0 || pitch >= c.WidthInBytes);
  if (pitch == 0) pitch = c.WidthInBytes;
  const std::size_t slice = pitch * (height == 0 ? c.Height : height);
  const CUdeviceptr base = type == CU_MEMORYTYPE_HOST ? address_of(host) : device;
  return {base + z * slice + y * pitch + x, pitch, slice};
}

/// Registered host memory is known by its own address, too.
CUdeviceptr device_address(const Driver& d, CUdeviceptr address) {
  auto it = d.registered.upper_bound(reinterpret_cast<const void*>(address));
  if (it == d.registered.begin()) return address;
  --it;
  const std::size_t offset = address - address_of(it->first);
  return offset < d.blocks.at(it->second).bytes ? it->second + offset : address;
}

CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D& p) {
  CUDA_MEMCPY3D c{};
  c.srcXInBytes = p.srcXInBytes;
  c.srcY = p.srcY;
  c.srcMemoryType = p.srcMemoryType;
  c.srcHost = p.srcHost;
  c.srcDevice = p.srcDevice;
  c.srcArray = p.srcArray;
  c.srcPitch = p.srcPitch;
  c.dstXInBytes = p.dstXInBytes;
  c.dstY = p.dstY;
  c.dstMemoryType = p.dstMemoryType;
  c.dstHost = p.dstHost;
  c.dstDevice = p.dstDevice;
  c.dstArray = p.dstArray;
  c.dstPitch = p.dstPitch;
  c.WidthInBytes = p.WidthInBytes;
  c.Height = p.Height;
  c.Depth = 1;
  return c;
}

CUresult copy_now(const CUDA_MEMCPY3D& copy) {
  return on_device([&](Driver& d) {
    refuse_capture(d, &d.legacy_stream);
    run_copy(d, copy);
  });
}
CUresult copy_in(CUstream stream, const CUDA_MEMCPY3D& copy) {
  return on_device([&](Driver& d) { submit(d, stream, CopyWork{copy}); });
}
CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr to, std::size_t pitch, unsigned value, unsigned element,
                               std::size_t width, std::size_t height) {
  return {to, pitch, value, element, width, height};
}
CUresult set_now(const CUDA_MEMSET_NODE_PARAMS& set) {
  return on_device([&](Driver& d) {
    refuse_capture(d, &d.legacy_stream);
    run_memset(d, set);
  });
}
CUresult set_in(CUstream stream, const CUDA_MEMSET_NODE_PARAMS& set) {
  return on_device([&](Driver& d) { submit(d, stream, MemsetWork{set}); });
}

}  // namespace

CUDA_MEMCPY3D copy_1d(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = from;
  c.dstDevice = to;
  c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  return c;
}

void run_copy(Driver& d, const CUDA_MEMCPY3D& c) {
  if (c.WidthInBytes == 0 || c.Height == 0 || c.Depth == 0) return;
  const Side from = c.srcMemoryType == CU_MEMORYTYPE_ARRAY
                        ? array_side(d, c.srcArray, c, c.srcXInBytes, c.srcY, c.srcZ)
                        : memory_side(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcPitch, c.srcHeight, c,
                                      c.srcXInBytes, c.srcY, c.srcZ);
  const Side to = c.dstMemoryType == CU_MEMORYTYPE_ARRAY
                      ? array_side(d, c.dstArray, c, c.dstXInBytes, c.dstY, c.dstZ)
                      : memory_side(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstPitch, c.dstHeight, c,
                                    c.dstXInBytes, c.dstY, c.dstZ);
  for (std::size_t z = 0; z < c.Depth; ++z)
    for (std::size_t y = 0; y < c.Height; ++y) copy_row(d, to.row(y, z), from.row(y, z), c.WidthInBytes);
}

void run_memset(Driver& d, const CUDA_MEMSET_NODE_PARAMS& s) {
  if (s.width == 0 || s.height == 0) return;
  require(s.elementSize == 1 || s.elementSize == 2 || s.elementSize == 4);
  require(s.dst % s.elementSize == 0);
  std::vector<std::byte> row(s.width * s.elementSize);
  for (std::size_t i = 0; i < s.width; ++i)
    std::memcpy(row.data() + i * s.elementSize, &s.value, s.elementSize);
  require(s.height == 1 || s.pitch >= row.size());
  const CUdeviceptr to = device_address(d, s.dst);
  for (std::size_t y = 0; y < s.height; ++y) d.memory.write(to + y * s.pitch, row);
}

}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace): entry points are global

KILN_API CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return on_device([&](Driver& d) {
    require(free != nullptr && total != nullptr);
    *free = free_bytes(d);
    *total = total_bytes(d);
  });
}

KILN_API CUresult cuMemAlloc_v2(CUdeviceptr* p, std::size_t bytes) {
  return on_device([&](Driver& d) {
    require(p != nullptr);
    *p = allocate_checked(d, bytes, Block::Kind::device);
  });
}
KILN_API CUresult cuMemAllocPitch_v2(CUdeviceptr* p, std::size_t* pitch, std::size_t width,
                                     std::size_t height, unsigned element) {
  return on_device([&](Driver& d) {
    require(p != nullptr && pitch != nullptr && width != 0 && height != 0);
    require(element == 4 || element == 8 || element == 16);
    *pitch = (width + 511) / 512 * 512;
    *p = allocate_checked(d, *pitch * height, Block::Kind::device);
  });
}
KILN_API CUresult cuMemAllocManaged(CUdeviceptr* p, std::size_t bytes, unsigned flags) {
  return on_device([&](Driver& d) {
    require(p != nullptr && (flags == 1 || flags == 2));
    *p = allocate_checked(d, bytes, Block::Kind::managed, flags);
  });
}
KILN_API CUresult cuMemFree_v2(CUdeviceptr p) {
  return on_device([&](Driver& d) {
    if (p == 0) return;
    const auto it = d.blocks.find(p);
    require(it != d.blocks.end() && it->second.kind != Block::Kind::registered);
    d.release(p);
  });
}
KILN_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* size, CUdeviceptr p) {
  return on_device([&](Driver& d) {
    const auto* block = d.block_of(p);
    require(block != nullptr, CUDA_ERROR_NOT_FOUND);
    if (base != nullptr) *base = block->first;
    if (size != nullptr) *size = block->second.bytes;
  });
}

KILN_API CUresult cuMemHostAlloc(void** p, std::size_t bytes, unsigned flags) {
  return on_device([&](Driver& d) {
    require(p != nullptr && flags < 8);
    *p = reinterpret_cast<void*>(allocate_checked(d, bytes, Block::Kind::pinned, flags));
  });
}
KILN_API CUresult cuMemAllocHost_v2(void** p, std::size_t bytes) {
  return cuMemHostAlloc(p, bytes, 0);
}
KILN_API CUresult cuMemFreeHost(void* p) {
  return on_device([&](Driver& d) {
    if (p == nullptr) return;
    const auto it = d.blocks.find(address_of(p));
    require(it != d.blocks.end() && it->second.kind == Block::Kind::pinned);
    d.release(it->first);
  });
}
KILN_API CUresult cuMemHostRegister_v2(void* p, std::size_t bytes, unsigned flags) {
  return on_device([&](Driver& d) {
    require(p != nullptr && bytes != 0);
    require(device_address(d, address_of(p)) == address_of(p) && d.registered.count(p) == 0,
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    const CUdeviceptr address = allocate_checked(d, bytes, Block::Kind::registered, flags);
    d.blocks.at(address).host = p;
    d.registered.emplace(p, address);
  });
}
KILN_API CUresult cuMemHostUnregister(void* p) {
  return on_device([&](Driver& d) {
    const auto it = d.registered.find(p);
    require(it != d.registered.end(), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    d.release(it->second);
    d.registered.erase(it);
  });
}
KILN_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* p, unsigned flags) {
  return on_device([&](Driver& d) {
    require(device != nullptr && flags == 0);
    const CUdeviceptr at = device_address(d, address_of(p));
    require(d.block_of(at) != nullptr);
    *device = at;
  });
}
KILN_API CUresult cuMemHostGetFlags(unsigned* flags, void* p) {
  return on_device([&](Driver& d) {
    const auto* block = d.block_of(device_address(d, address_of(p)));
    require(flags != nullptr && block != nullptr && block->second.kind >= Block::Kind::pinned);
    *flags = block->second.flags | 2;
  });
}

KILN_API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t n) {
  return copy_now(copy_1d(to, from, n));
}
KILN_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t n) {
  return copy_now(copy_1d(to, address_of(from), n));
}
KILN_API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t n) {
  return copy_now(copy_1d(address_of(to), from, n));
}
KILN_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t n) {
  return copy_now(copy_1d(to, from, n));
}
KILN_API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t n) {
  return copy_now(copy_1d(to, from, n));
}
KILN_API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* p) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_now(from_2d(*p));
}
KILN_API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* p) {
  return cuMemcpy2D_v2(p);
}
KILN_API CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* p) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_now(*p);
}
KILN_API CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D* p) {
  return cuMemcpy3D_v2(p);
}
KILN_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t n, CUstream s) {
  return copy_in(s, copy_1d(to, from, n));
}
KILN_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t n, CUstream s) {
  return copy_in(s, copy_1d(to, address_of(from), n));
}
KILN_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t n, CUstream s) {
  return copy_in(s, copy_1d(address_of(to), from, n));
}
KILN_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t n, CUstream s) {
  return copy_in(s, copy_1d(to, from, n));
}
KILN_API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t n,
                                    CUstream s) {
  return copy_in(s, copy_1d(to, from, n));
}
KILN_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream s) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_in(s, from_2d(*p));
}
KILN_API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream s) {
  return p == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_in(s, *p);
}
KILN_API CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D* p, CUstream s) {
  return cuMemcpy3DAsync_v2(p, s);
}

KILN_API CUresult cuMemsetD8_v2(CUdeviceptr p, unsigned char v, std::size_t n) {
  return set_now(set_of(p, 0, v, 1, n, 1));
}
KILN_API CUresult cuMemsetD16_v2(CUdeviceptr p, unsigned short v, std::size_t n) {
  return set_now(set_of(p, 0, v, 2, n, 1));
}
KILN_API CUresult cuMemsetD32_v2(CUdeviceptr p, unsigned v, std::size_t n) {
  return set_now(set_of(p, 0, v, 4, n, 1));
}
KILN_API CUresult cuMemsetD2D8_v2(CUdeviceptr p, std::size_t pitch, unsigned char v, std::size_t w,
                                  std::size_t h) {
  return set_now(set_of(p, pitch, v, 1, w, h));
}
KILN_API CUresult cuMemsetD2D16_v2(CUdeviceptr p, std::size_t pitch, unsigned short v, std::size_t w,
                                   std::size_t h) {
  return set_now(set_of(p, pitch, v, 2, w, h));
}
KILN_API CUresult cuMemsetD2D32_v2(CUdeviceptr p, std::size_t pitch, unsigned v, std::size_t w,
                                   std::size_t h) {
  return set_now(set_of(p, pitch, v, 4, w, h));
}
KILN_API CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, std::size_t n, CUstream s) {
  return set_in(s, set_of(p, 0, v, 1, n, 1));
}
KILN_API CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short v, std::size_t n, CUstream s) {
  return set_in(s, set_of(p, 0, v, 2, n, 1));
}
KILN_API CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, std::size_t n, CUstream s) {
  return set_in(s, set_of(p, 0, v, 4, n, 1));
}
KILN_API CUresult cuMemsetD2D8Async(CUdeviceptr p, std::size_t pitch, unsigned char v, std::size_t w,
                                    std::size_t h, CUstream s) {
  return set_in(s, set_of(p, pitch, v, 1, w, h));
}
KILN_API CUresult cuMemsetD2D16Async(CUdeviceptr p, std::size_t pitch, unsigned short v, std::size_t w,
                                     std::size_t h, CUstream s) {
  return set_in(s, set_of(p, pitch, v, 2, w, h));
}
KILN_API CUresult cuMemsetD2D32Async(CUdeviceptr p, std::size_t pitch, unsigned v, std::size_t w,
                                     std::size_t h, CUstream s) {
  return set_in(s, set_of(p, pitch, v, 4, w, h));
}

KILN_API CUresult cuPointerGetAttribute(void* data, int attribute, CUdeviceptr p) {
  return guarded([&](Driver& d) {
    require(data != nullptr);
    const CUdeviceptr at = device_address(d, p);
    const auto* block = d.block_of(at);
    const auto put = [&](auto value) {
      // NOLINTNEXTLINE(bugprone-sizeof-expression): some values are pointers
      std::memcpy(data, &value, sizeof value);
    };
    require(block != nullptr);
    const Block& b = block->second;
    const bool host = b.kind == Block::Kind::pinned || b.kind == Block::Kind::registered;
    switch (attribute) {
      case 1:
        return put(&d.primary);
      case 2:
        return put(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      case 3:
        return put(at);
      case 4:
        require(b.kind != Block::Kind::device);
        return put(b.host != nullptr ? static_cast<char*>(b.host) + (at - block->first)
                                     : reinterpret_cast<char*>(at));
      case 6:
        return put(0);
      case 7:
      case 20:
        return put(b.id);
      case 8:
        return put(b.kind == Block::Kind::managed ? 1u : 0u);
      case 9:
      case 10:
        return put(0);
      case 11:
      case 19:
        return put(block->first);
      case 12:
      case 18:
        return put(b.bytes);
      case 13:
        return put(1);
      case 14:
        return put(std::uint64_t{0});
      case 15:
      case 21:
        return put(0);
      case 16:
        return put(3);
      case 17:
        return put(b.pool);
      default:
        throw Failure{CUDA_ERROR_INVALID_VALUE};
    }
  });
}
KILN_API CUresult cuPointerGetAttributes(unsigned count, const int* attributes, void** data, CUdeviceptr p) {
  // Of memory that it does not know the driver says nothing, and no error.
  static constexpr std::size_t kBytes[] = {0, 8, 4, 8, 8, 16, 4, 8, 4, 4, 4, 8, 8, 4, 8, 4, 4, 8, 8, 8, 8, 4};
  for (unsigned i = 0; i < count; ++i) {
    if (cuPointerGetAttribute(data[i], attributes[i], p) == CUDA_SUCCESS) continue;
    if (attributes[i] > 0 && attributes[i] < 22) std::memset(data[i], 0, kBytes[attributes[i]]);
    if (attributes[i] == 9)
      std::memset(data[i], 0xfe, 1), std::memset(static_cast<char*>(data[i]) + 1, 0xff, 3);
  }
  return CUDA_SUCCESS;
}
KILN_API CUresult cuPointerSetAttribute(const void*, int, CUdeviceptr) {
  return CUDA_SUCCESS;
}

// Where managed memory is does not matter here.
KILN_API CUresult cuMemAdvise(CUdeviceptr, std::size_t, int, CUdevice) {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuMemAdvise_v2(CUdeviceptr, std::size_t, int, CUmemLocation) {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuMemPrefetchAsync(CUdeviceptr p, std::size_t, CUdevice, CUstream) {
  return on_device([&](Driver& d) { require(d.block_of(p) != nullptr); });
}
KILN_API CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, std::size_t, CUmemLocation, unsigned, CUstream) {
  return on_device([&](Driver& d) { require(d.block_of(p) != nullptr); });
}
