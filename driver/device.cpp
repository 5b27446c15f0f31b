// Initialisation, the device and its contexts.
#include <cstdio>
#include <cstring>

#include "driver/api.hpp"
#include "driver/state.hpp"
#include "emulator/machine/memory.hpp"

namespace kiln::driver {
namespace {

// Programs compare this with what their runtime needs.
constexpr int kVersion = 13000;

CUresult with_device(CUdevice device, const auto& body) {
  return guarded([&](Driver& d) {
    require(d.initialised, CUDA_ERROR_NOT_INITIALIZED);
    check_device(device);
    body(d);
  });
}

void initialise(Driver& d) {
  if (d.memory.impl().data != reinterpret_cast<std::uint8_t*>(em::kGlobalBase)) {
    d.report.unsupported(
        "cuInit", "device memory cannot have the same addresses as memory of the program on this host");
    throw Failure{CUDA_ERROR_OPERATING_SYSTEM};
  }
  d.initialised = true;
}

Context* context(Driver& d, CUcontext handle) {
  require(handle == &d.primary || d.contexts.has(handle), CUDA_ERROR_INVALID_CONTEXT);
  return handle;
}

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
  return with_device(device, [&](Driver& d) {
    require(out != nullptr);
    *out = d.contexts.make();
    (*out)->flags = flags;
    (*out)->id = d.next_id++;
    context_stack().push_back(*out);
  });
}

}  // namespace
}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuInit(unsigned flags) {
  return guarded([&](Driver& d) {
    require(flags == 0);
    initialise(d);
  });
}
KILN_API CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kVersion;
  return CUDA_SUCCESS;
}

KILN_API CUresult cuDeviceGetCount(int* count) {
  return with_device(0, [&](Driver&) {
    require(count != nullptr);
    *count = 1;
  });
}
KILN_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return with_device(ordinal, [&](Driver&) {
    require(device != nullptr);
    *device = ordinal;
  });
}
KILN_API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return with_device(device, [&](Driver& d) {
    require(name != nullptr && length > 0);
    std::snprintf(name, static_cast<std::size_t>(length), "%s", std::string(d.options.gpu.product).c_str());
  });
}
KILN_API CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  return with_device(device, [&](Driver& d) {
    require(bytes != nullptr);
    *bytes = d.options.gpu.memory_gib << 30;
  });
}
KILN_API CUresult cuDeviceGetAttribute(int* value, int number, CUdevice device) {
  return with_device(device, [&](Driver& d) {
    require(value != nullptr && number > 0);
    *value = attribute(d.options.gpu, number);
  });
}
KILN_API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return with_device(device, [&](Driver& d) {
    *major = d.options.gpu.major;
    *minor = d.options.gpu.minor;
  });
}
KILN_API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return with_device(device, [&](Driver& d) {
    require(uuid != nullptr);
    std::memset(uuid, 0, sizeof *uuid);
    std::memcpy(uuid->bytes, "kiln", 4);
    uuid->bytes[15] = static_cast<unsigned char>(d.options.gpu.cc());
  });
}
KILN_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid(uuid, device);
}
KILN_API CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return with_device(device, [&](Driver&) {
    require(text != nullptr && length > 0);
    std::snprintf(text, static_cast<std::size_t>(length), "0000:01:00.0");
  });
}
KILN_API CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  return with_device(0, [&](Driver&) {
    require(device != nullptr && text != nullptr);
    require(std::strstr(text, "01:00") != nullptr, CUDA_ERROR_INVALID_DEVICE);
    *device = 0;
  });
}
KILN_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return with_device(device, [&](Driver&) {
    check_device(peer);
    *can = 0;
  });
}
KILN_API CUresult cuDeviceGetP2PAttribute(int* value, int, CUdevice device, CUdevice peer) {
  return with_device(device, [&](Driver&) {
    check_device(peer);
    *value = 0;
    throw Failure{CUDA_ERROR_INVALID_DEVICE};
  });
}
KILN_API CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) {
  return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}
KILN_API CUresult cuCtxDisablePeerAccess(CUcontext) {
  return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

KILN_API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  return with_device(device, [&](Driver& d) {
    require(out != nullptr);
    ++d.primary_uses;
    *out = &d.primary;
  });
}
KILN_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return with_device(device, [&](Driver& d) {
    require(d.primary_uses > 0, CUDA_ERROR_INVALID_CONTEXT);
    --d.primary_uses;
  });
}
KILN_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return with_device(device, [&](Driver& d) { d.reset(); });
}
KILN_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return with_device(device, [&](Driver& d) {
    if (flags != nullptr) *flags = d.primary.flags;
    if (active != nullptr) *active = d.primary_uses > 0 ? 1 : 0;
  });
}
KILN_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return with_device(device, [&](Driver& d) { d.primary.flags = flags; });
}

KILN_API CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return create(out, flags, device);
}
KILN_API CUresult cuCtxCreate_v3(CUcontext* out, void*, int, unsigned flags, CUdevice device) {
  return create(out, flags, device);
}
KILN_API CUresult cuCtxCreate_v4(CUcontext* out, void*, unsigned flags, CUdevice device) {
  return create(out, flags, device);
}
KILN_API CUresult cuCtxDestroy_v2(CUcontext handle) {
  return guarded([&](Driver& d) {
    require(d.contexts.has(handle), CUDA_ERROR_INVALID_CONTEXT);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == handle) stack.pop_back();
    d.contexts.take(handle);
  });
}
KILN_API CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return guarded([&](Driver& d) { context_stack().push_back(context(d, handle)); });
}
KILN_API CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  return guarded([&](Driver&) {
    auto& stack = context_stack();
    require(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
    if (out != nullptr) *out = stack.back();
    stack.pop_back();
  });
}
KILN_API CUresult cuCtxSetCurrent(CUcontext handle) {
  return guarded([&](Driver& d) {
    auto& stack = context_stack();
    if (handle != nullptr) context(d, handle);
    if (!stack.empty()) stack.pop_back();
    if (handle != nullptr) stack.push_back(handle);
  });
}
KILN_API CUresult cuCtxGetCurrent(CUcontext* out) {
  return guarded([&](Driver& d) {
    require(d.initialised, CUDA_ERROR_NOT_INITIALIZED);
    require(out != nullptr);
    *out = context_stack().empty() ? nullptr : context_stack().back();
  });
}
KILN_API CUresult cuCtxGetDevice(CUdevice* out) {
  return guarded([&](Driver&) {
    require(!context_stack().empty(), CUDA_ERROR_INVALID_CONTEXT);
    *out = 0;
  });
}
KILN_API CUresult cuCtxGetDevice_v2(CUdevice* out, CUcontext handle) {
  return guarded([&](Driver& d) {
    if (handle != nullptr) context(d, handle);
    *out = 0;
  });
}
KILN_API CUresult cuCtxGetFlags(unsigned* out) {
  return on_device([&](Driver&) { *out = context_stack().back()->flags; });
}
KILN_API CUresult cuCtxSetFlags(unsigned flags) {
  return on_device([&](Driver&) { context_stack().back()->flags = flags; });
}
KILN_API CUresult cuCtxGetId(CUcontext handle, unsigned long long* out) {
  return on_device(
      [&](Driver& d) { *out = (handle == nullptr ? context_stack().back() : context(d, handle))->id; });
}
KILN_API CUresult cuCtxGetApiVersion(CUcontext, unsigned* out) {
  return guarded([&](Driver&) { *out = kVersion; });
}
KILN_API CUresult cuCtxSynchronize() {
  return on_device([](Driver& d) { refuse_capture(d, nullptr); });
}
KILN_API CUresult cuCtxSynchronize_v2(CUcontext) {
  return cuCtxSynchronize();
}
KILN_API CUresult cuCtxGetLimit(std::size_t* value, unsigned limit) {
  return on_device([&](Driver& d) {
    require(limit < std::size(d.limits), CUDA_ERROR_UNSUPPORTED_LIMIT);
    *value = d.limits[limit];
  });
}
KILN_API CUresult cuCtxSetLimit(unsigned limit, std::size_t value) {
  return on_device([&](Driver& d) {
    require(limit < std::size(d.limits), CUDA_ERROR_UNSUPPORTED_LIMIT);
    d.limits[limit] = value;
  });
}
KILN_API CUresult cuCtxGetCacheConfig(int* out) {
  *out = 0;
  return CUDA_SUCCESS;
}
KILN_API CUresult cuCtxSetCacheConfig(int) {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuCtxGetSharedMemConfig(int* out) {
  *out = 1;
  return CUDA_SUCCESS;
}
KILN_API CUresult cuCtxSetSharedMemConfig(int) {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}
KILN_API CUresult cuCtxResetPersistingL2Cache() {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuProfilerStart() {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuProfilerStop() {
  return CUDA_SUCCESS;
}

// Pools are names: memory of every pool is the device's.
KILN_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  return with_device(device, [&](Driver& d) { *out = &d.default_pool; });
}
KILN_API CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  return with_device(device, [&](Driver& d) { *out = d.current_pool; });
}
KILN_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return with_device(device, [&](Driver& d) {
    if (pool != &d.default_pool) d.pools.get(pool);
    d.current_pool = pool;
  });
}
KILN_API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  return on_device([&](Driver& d) {
    require(out != nullptr && properties != nullptr && properties->handleTypes == 0,
            CUDA_ERROR_NOT_SUPPORTED);
    *out = d.pools.make();
  });
}
KILN_API CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return on_device([&](Driver& d) {
    if (d.current_pool == pool) d.current_pool = &d.default_pool;
    for (auto& [address, block] : d.blocks)
      if (block.pool == pool) block.pool = nullptr;
    d.pools.take(pool);
  });
}
KILN_API CUresult cuMemPoolTrimTo(CUmemoryPool, std::size_t) {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuMemPoolSetAccess(CUmemoryPool, const void*, std::size_t) {
  return CUDA_SUCCESS;
}
KILN_API CUresult cuMemPoolGetAccess(int* flags, CUmemoryPool, CUmemLocation*) {
  *flags = 3;
  return CUDA_SUCCESS;
}
KILN_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void* value) {
  return on_device([&](Driver& d) {
    if (pool != &d.default_pool) d.pools.get(pool);
    require(attribute >= 1 && attribute <= 8 && value != nullptr);
    if (attribute <= 3) std::memcpy(&pool->reuse[attribute - 1], value, sizeof(int));
    if (attribute == 4) std::memcpy(&pool->release_threshold, value, sizeof pool->release_threshold);
  });
}
KILN_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void* value) {
  return on_device([&](Driver& d) {
    if (pool != &d.default_pool) d.pools.get(pool);
    require(attribute >= 1 && attribute <= 8 && value != nullptr);
    if (attribute <= 3) {
      std::memcpy(value, &pool->reuse[attribute - 1], sizeof(int));
      return;
    }
    std::uint64_t bytes = attribute == 4 ? pool->release_threshold : 0;
    if (attribute > 4)
      for (const auto& [address, block] : d.blocks) bytes += block.pool == pool ? block.bytes : 0;
    std::memcpy(value, &bytes, sizeof bytes);
  });
}
