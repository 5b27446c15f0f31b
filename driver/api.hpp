// The entry points of the driver's interface that are implemented, by the file that has them.
#pragma once

#include "driver/abi.hpp"

// device.cpp
KILN_API CUresult cuInit(unsigned flags);
KILN_API CUresult cuDriverGetVersion(int* version);
KILN_API CUresult cuDeviceGetCount(int* count);
KILN_API CUresult cuDeviceGet(CUdevice* device, int ordinal);
KILN_API CUresult cuDeviceGetName(char* name, int length, CUdevice device);
KILN_API CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device);
KILN_API CUresult cuDeviceGetAttribute(int* value, int number, CUdevice device);
KILN_API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device);
KILN_API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device);
KILN_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device);
KILN_API CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device);
KILN_API CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text);
KILN_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer);
KILN_API CUresult cuDeviceGetP2PAttribute(int* value, int, CUdevice device, CUdevice peer);
KILN_API CUresult cuCtxEnablePeerAccess(CUcontext, unsigned);
KILN_API CUresult cuCtxDisablePeerAccess(CUcontext);
KILN_API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device);
KILN_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
KILN_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
KILN_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active);
KILN_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);
KILN_API CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device);
KILN_API CUresult cuCtxCreate_v3(CUcontext* out, void*, int, unsigned flags, CUdevice device);
KILN_API CUresult cuCtxCreate_v4(CUcontext* out, void*, unsigned flags, CUdevice device);
KILN_API CUresult cuCtxDestroy_v2(CUcontext handle);
KILN_API CUresult cuCtxPushCurrent_v2(CUcontext handle);
KILN_API CUresult cuCtxPopCurrent_v2(CUcontext* out);
KILN_API CUresult cuCtxSetCurrent(CUcontext handle);
KILN_API CUresult cuCtxGetCurrent(CUcontext* out);
KILN_API CUresult cuCtxGetDevice(CUdevice* out);
KILN_API CUresult cuCtxGetDevice_v2(CUdevice* out, CUcontext handle);
KILN_API CUresult cuCtxGetFlags(unsigned* out);
KILN_API CUresult cuCtxSetFlags(unsigned flags);
KILN_API CUresult cuCtxGetId(CUcontext handle, unsigned long long* out);
KILN_API CUresult cuCtxGetApiVersion(CUcontext, unsigned* out);
KILN_API CUresult cuCtxSynchronize();
KILN_API CUresult cuCtxSynchronize_v2(CUcontext);
KILN_API CUresult cuCtxGetLimit(std::size_t* value, unsigned limit);
KILN_API CUresult cuCtxSetLimit(unsigned limit, std::size_t value);
KILN_API CUresult cuCtxGetCacheConfig(int* out);
KILN_API CUresult cuCtxSetCacheConfig(int);
KILN_API CUresult cuCtxGetSharedMemConfig(int* out);
KILN_API CUresult cuCtxSetSharedMemConfig(int);
KILN_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest);
KILN_API CUresult cuCtxResetPersistingL2Cache();
KILN_API CUresult cuProfilerStart();
KILN_API CUresult cuProfilerStop();
KILN_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device);
KILN_API CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device);
KILN_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
KILN_API CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties);
KILN_API CUresult cuMemPoolDestroy(CUmemoryPool pool);
KILN_API CUresult cuMemPoolTrimTo(CUmemoryPool, std::size_t);
KILN_API CUresult cuMemPoolSetAccess(CUmemoryPool, const void*, std::size_t);
KILN_API CUresult cuMemPoolGetAccess(int* flags, CUmemoryPool, CUmemLocation*);
KILN_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void* value);
KILN_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void* value);

// memory.cpp
KILN_API CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total);
KILN_API CUresult cuMemAlloc_v2(CUdeviceptr* p, std::size_t bytes);
KILN_API CUresult cuMemAllocPitch_v2(CUdeviceptr* p, std::size_t* pitch, std::size_t width,
                                     std::size_t height, unsigned element);
KILN_API CUresult cuMemAllocManaged(CUdeviceptr* p, std::size_t bytes, unsigned flags);
KILN_API CUresult cuMemFree_v2(CUdeviceptr p);
KILN_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* size, CUdeviceptr p);
KILN_API CUresult cuMemHostAlloc(void** p, std::size_t bytes, unsigned flags);
KILN_API CUresult cuMemAllocHost_v2(void** p, std::size_t bytes);
KILN_API CUresult cuMemFreeHost(void* p);
KILN_API CUresult cuMemHostRegister_v2(void* p, std::size_t bytes, unsigned flags);
KILN_API CUresult cuMemHostUnregister(void* p);
KILN_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* p, unsigned flags);
KILN_API CUresult cuMemHostGetFlags(unsigned* flags, void* p);
KILN_API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t n);
KILN_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t n);
KILN_API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t n);
KILN_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t n);
KILN_API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t n);
KILN_API CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* p);
KILN_API CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* p);
KILN_API CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* p);
KILN_API CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D* p);
KILN_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t n, CUstream s);
KILN_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t n, CUstream s);
KILN_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t n, CUstream s);
KILN_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t n, CUstream s);
KILN_API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t n,
                                    CUstream s);
KILN_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream s);
KILN_API CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream s);
KILN_API CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D* p, CUstream s);
KILN_API CUresult cuMemsetD8_v2(CUdeviceptr p, unsigned char v, std::size_t n);
KILN_API CUresult cuMemsetD16_v2(CUdeviceptr p, unsigned short v, std::size_t n);
KILN_API CUresult cuMemsetD32_v2(CUdeviceptr p, unsigned v, std::size_t n);
KILN_API CUresult cuMemsetD2D8_v2(CUdeviceptr p, std::size_t pitch, unsigned char v, std::size_t w,
                                  std::size_t h);
KILN_API CUresult cuMemsetD2D16_v2(CUdeviceptr p, std::size_t pitch, unsigned short v, std::size_t w,
                                   std::size_t h);
KILN_API CUresult cuMemsetD2D32_v2(CUdeviceptr p, std::size_t pitch, unsigned v, std::size_t w,
                                   std::size_t h);
KILN_API CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, std::size_t n, CUstream s);
KILN_API CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short v, std::size_t n, CUstream s);
KILN_API CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, std::size_t n, CUstream s);
KILN_API CUresult cuMemsetD2D8Async(CUdeviceptr p, std::size_t pitch, unsigned char v, std::size_t w,
                                    std::size_t h, CUstream s);
KILN_API CUresult cuMemsetD2D16Async(CUdeviceptr p, std::size_t pitch, unsigned short v, std::size_t w,
                                     std::size_t h, CUstream s);
KILN_API CUresult cuMemsetD2D32Async(CUdeviceptr p, std::size_t pitch, unsigned v, std::size_t w,
                                     std::size_t h, CUstream s);
KILN_API CUresult cuPointerGetAttribute(void* data, int attribute, CUdeviceptr p);
KILN_API CUresult cuPointerGetAttributes(unsigned count, const int* attributes, void** data, CUdeviceptr p);
KILN_API CUresult cuPointerSetAttribute(const void*, int, CUdeviceptr);
KILN_API CUresult cuMemAdvise(CUdeviceptr, std::size_t, int, CUdevice);
KILN_API CUresult cuMemAdvise_v2(CUdeviceptr, std::size_t, int, CUmemLocation);
KILN_API CUresult cuMemPrefetchAsync(CUdeviceptr p, std::size_t, CUdevice, CUstream);
KILN_API CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, std::size_t, CUmemLocation, unsigned, CUstream);

// arrays.cpp
KILN_API CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape);
KILN_API CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* shape);
KILN_API CUresult cuArrayDestroy(CUarray handle);
KILN_API CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle);
KILN_API CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle);
KILN_API CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                         unsigned levels);
KILN_API CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle);
KILN_API CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned level);
KILN_API CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                                    const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* look);
KILN_API CUresult cuTexObjectDestroy(CUtexObject handle);
KILN_API CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle);
KILN_API CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle);
KILN_API CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle);
KILN_API CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource);
KILN_API CUresult cuSurfObjectDestroy(CUsurfObject handle);
KILN_API CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle);
KILN_API CUresult cuMemcpyHtoA_v2(CUarray to, std::size_t offset, const void* from, std::size_t n);
KILN_API CUresult cuMemcpyAtoH_v2(void* to, CUarray from, std::size_t offset, std::size_t n);
KILN_API CUresult cuMemcpyDtoA_v2(CUarray to, std::size_t offset, CUdeviceptr from, std::size_t n);
KILN_API CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, std::size_t offset, std::size_t n);
KILN_API CUresult cuMemcpyAtoA_v2(CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset,
                                  std::size_t n);
KILN_API CUresult cuMemcpyHtoAAsync_v2(CUarray to, std::size_t offset, const void* from, std::size_t n,
                                       CUstream stream);
KILN_API CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, std::size_t offset, std::size_t n,
                                       CUstream stream);

// virtual_memory.cpp
KILN_API CUresult cuMemGetAllocationGranularity(std::size_t* out, const CUmemAllocationProp* p, unsigned);
KILN_API CUresult cuMemAddressReserve(CUdeviceptr* out, std::size_t bytes, std::size_t align,
                                      CUdeviceptr hint, unsigned long long flags);
KILN_API CUresult cuMemAddressFree(CUdeviceptr p, std::size_t bytes);
KILN_API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes,
                              const CUmemAllocationProp* p, unsigned long long flags);
KILN_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
KILN_API CUresult cuMemMap(CUdeviceptr p, std::size_t bytes, std::size_t offset,
                           CUmemGenericAllocationHandle handle, unsigned long long flags);
KILN_API CUresult cuMemUnmap(CUdeviceptr p, std::size_t bytes);
KILN_API CUresult cuMemSetAccess(CUdeviceptr p, std::size_t bytes, const CUmemAccessDesc* access,
                                 std::size_t count);
KILN_API CUresult cuMemGetAccess(unsigned long long* out, const CUmemLocation* where, CUdeviceptr p);
KILN_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* p);
KILN_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                         CUmemGenericAllocationHandle handle);

// multicast.cpp
KILN_API CUresult cuMulticastCreate(CUmemGenericAllocationHandle* out, const CUmulticastObjectProp* p);
KILN_API CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device);
KILN_API CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, std::size_t offset,
                                     CUmemGenericAllocationHandle memory, std::size_t memory_offset,
                                     std::size_t bytes, unsigned long long flags);
KILN_API CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, std::size_t offset,
                                      CUdeviceptr memory, std::size_t bytes, unsigned long long flags);
KILN_API CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, std::size_t offset,
                                    std::size_t bytes);
KILN_API CUresult cuMulticastGetGranularity(std::size_t* out, const CUmulticastObjectProp* p, unsigned);

// linking.cpp
KILN_API CUresult cuLinkCreate_v2(unsigned count, int* options, void** values, CUlinkState* out);
KILN_API CUresult cuLinkAddData_v2(CUlinkState link, int type, void* data, std::size_t bytes,
                                   const char* name, unsigned, int*, void**);
KILN_API CUresult cuLinkAddFile_v2(CUlinkState link, int type, const char* path, unsigned, int*, void**);
KILN_API CUresult cuLinkComplete(CUlinkState handle, void** out, std::size_t* bytes);
KILN_API CUresult cuLinkDestroy(CUlinkState link);
KILN_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void* value);
KILN_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void* value);
KILN_API CUresult cuDeviceGraphMemTrim(CUdevice device);

// streams.cpp
KILN_API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority);
KILN_API CUresult cuStreamCreate(CUstream* out, unsigned flags);
KILN_API CUresult cuStreamDestroy_v2(CUstream handle);
KILN_API CUresult cuStreamSynchronize(CUstream handle);
KILN_API CUresult cuStreamQuery(CUstream handle);
KILN_API CUresult cuStreamGetFlags(CUstream handle, unsigned* out);
KILN_API CUresult cuStreamGetPriority(CUstream handle, int* out);
KILN_API CUresult cuStreamGetId(CUstream handle, unsigned long long* out);
KILN_API CUresult cuStreamGetDevice(CUstream handle, CUdevice* out);
KILN_API CUresult cuStreamGetCtx(CUstream handle, CUcontext* out);
KILN_API CUresult cuStreamGetAttribute(CUstream handle, int, void* value);
KILN_API CUresult cuStreamSetAttribute(CUstream handle, int, const void* value);
KILN_API CUresult cuStreamCopyAttributes(CUstream to, CUstream from);
KILN_API CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr, std::size_t, unsigned);
KILN_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned);
KILN_API CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void* data);
KILN_API CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback fn, void* data, unsigned);
KILN_API CUresult cuEventCreate(CUevent* out, unsigned flags);
KILN_API CUresult cuEventDestroy_v2(CUevent handle);
KILN_API CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags);
KILN_API CUresult cuEventRecord(CUevent handle, CUstream stream);
KILN_API CUresult cuEventQuery(CUevent handle);
KILN_API CUresult cuEventSynchronize(CUevent handle);
KILN_API CUresult cuEventElapsedTime_v2(float* ms, CUevent start, CUevent end);
KILN_API CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end);
KILN_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool,
                                          CUstream stream);
KILN_API CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream stream);
KILN_API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream);
KILN_API CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr to, std::uint32_t value, unsigned);
KILN_API CUresult cuStreamWriteValue64_v2(CUstream s, CUdeviceptr to, std::uint64_t value, unsigned);
KILN_API CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr at, std::uint32_t value, unsigned flags);
KILN_API CUresult cuStreamWaitValue64_v2(CUstream, CUdeviceptr at, std::uint64_t value, unsigned flags);
KILN_API CUresult cuStreamBeginCapture_v2(CUstream s, int mode);
KILN_API CUresult cuStreamBeginCaptureToGraph(CUstream s, CUgraph graph, const CUgraphNode* nodes,
                                              const CUgraphEdgeData*, std::size_t count, int mode);
KILN_API CUresult cuStreamEndCapture(CUstream s, CUgraph* out);
KILN_API CUresult cuStreamIsCapturing(CUstream s, int* status);
KILN_API CUresult cuStreamGetCaptureInfo_v2(CUstream s, int* status, std::uint64_t* id, CUgraph* graph,
                                            const CUgraphNode** nodes, std::size_t* count);
KILN_API CUresult cuStreamGetCaptureInfo_v3(CUstream s, int* status, std::uint64_t* id, CUgraph* graph,
                                            const CUgraphNode** nodes, const CUgraphEdgeData** edges,
                                            std::size_t* count);
KILN_API CUresult cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode* nodes, std::size_t count,
                                                    unsigned flags);
KILN_API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream s, CUgraphNode* nodes, const CUgraphEdgeData*,
                                                       std::size_t count, unsigned flags);
KILN_API CUresult cuThreadExchangeStreamCaptureMode(int* mode);

// modules.cpp
KILN_API CUresult cuModuleLoad(CUmodule* out, const char* path);
KILN_API CUresult cuModuleLoadData(CUmodule* out, const void* code);
KILN_API CUresult cuModuleLoadDataEx(CUmodule* out, const void* code, unsigned count, int* options,
                                     void** values);
KILN_API CUresult cuModuleLoadFatBinary(CUmodule* out, const void* code);
KILN_API CUresult cuModuleUnload(CUmodule handle);
KILN_API CUresult cuModuleGetLoadingMode(int* mode);
KILN_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name);
KILN_API CUresult cuModuleGetFunctionCount(unsigned* out, CUmodule handle);
KILN_API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned room, CUmodule handle);
KILN_API CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule handle,
                                       const char* name);
KILN_API CUresult cuLibraryLoadData(CUlibrary* out, const void* code, int* options, void** values,
                                    unsigned count, int*, void**, unsigned);
KILN_API CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, int*, void**, unsigned, int*,
                                        void**, unsigned);
KILN_API CUresult cuLibraryUnload(CUlibrary handle);
KILN_API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name);
KILN_API CUresult cuLibraryGetKernelCount(unsigned* out, CUlibrary handle);
KILN_API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned room, CUlibrary handle);
KILN_API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle);
KILN_API CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary handle,
                                     const char* name);
KILN_API CUresult cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes, CUlibrary handle,
                                      const char* name);
KILN_API CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle);
KILN_API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel handle);
KILN_API CUresult cuKernelGetName(const char** out, CUkernel handle);
KILN_API CUresult cuKernelGetParamInfo(CUkernel handle, std::size_t index, std::size_t* offset,
                                       std::size_t* bytes);
KILN_API CUresult cuKernelGetAttribute(int* out, int number, CUkernel handle, CUdevice);
KILN_API CUresult cuKernelSetAttribute(int number, int value, CUkernel handle, CUdevice);
KILN_API CUresult cuKernelSetCacheConfig(CUkernel, int, CUdevice);
KILN_API CUresult cuFuncGetAttribute(int* out, int number, CUfunction handle);
KILN_API CUresult cuFuncSetAttribute(CUfunction handle, int number, int value);
KILN_API CUresult cuFuncSetCacheConfig(CUfunction, int);
KILN_API CUresult cuFuncSetSharedMemConfig(CUfunction, int);
KILN_API CUresult cuFuncGetModule(CUmodule* out, CUfunction handle);
KILN_API CUresult cuFuncGetName(const char** out, CUfunction handle);
KILN_API CUresult cuFuncGetParamInfo(CUfunction handle, std::size_t index, std::size_t* offset,
                                     std::size_t* bytes);
KILN_API CUresult cuFuncIsLoaded(int* state, CUfunction handle);
KILN_API CUresult cuFuncLoad(CUfunction handle);

// launch.cpp
KILN_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** params, void** extra);
KILN_API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, CUstream stream, void** params,
                                 void** extra);
KILN_API CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                            void** params);
KILN_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction f, int threads,
                                                                       std::size_t dynamic, unsigned);
KILN_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction f, int threads,
                                                              std::size_t dynamic);
KILN_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction f,
                                                            std::size_t (*bytes_of)(int), std::size_t dynamic,
                                                            int limit, unsigned);
KILN_API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction f,
                                                   std::size_t (*bytes_of)(int), std::size_t dynamic,
                                                   int limit);
KILN_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* out, CUfunction f, int blocks,
                                                          int threads);
KILN_API CUresult cuOccupancyMaxPotentialClusterSize(int* out, CUfunction f, const CUlaunchConfig* config);
KILN_API CUresult cuOccupancyMaxActiveClusters(int* out, CUfunction f, const CUlaunchConfig* config);

// tensor_maps.cpp
KILN_API CUresult cuTensorMapEncodeTiled(void* map, unsigned type, std::uint32_t rank, void* address,
                                         const std::uint64_t* dims, const std::uint64_t* strides,
                                         const std::uint32_t* box, const std::uint32_t* element_strides,
                                         unsigned interleave, unsigned swizzle, unsigned, unsigned fill);
KILN_API CUresult cuTensorMapEncodeIm2col(void* map, unsigned type, std::uint32_t rank, void* address,
                                          const std::uint64_t* dims, const std::uint64_t* strides,
                                          const int* lower_corner, const int* upper_corner,
                                          std::uint32_t channels, std::uint32_t pixels,
                                          const std::uint32_t* element_strides, unsigned interleave,
                                          unsigned swizzle, unsigned, unsigned fill);
KILN_API CUresult cuTensorMapEncodeIm2colWide(void* map, unsigned type, std::uint32_t rank, void* address,
                                              const std::uint64_t* dims, const std::uint64_t* strides,
                                              int lower_corner, int upper_corner, std::uint32_t channels,
                                              std::uint32_t pixels, const std::uint32_t* element_strides,
                                              unsigned interleave, unsigned mode, unsigned swizzle, unsigned,
                                              unsigned fill);
KILN_API CUresult cuTensorMapReplaceAddress(void* map, void* address);

// graphs.cpp
KILN_API CUresult cuGraphCreate(CUgraph* out, unsigned flags);
KILN_API CUresult cuGraphDestroy(CUgraph graph);
KILN_API CUresult cuGraphClone(CUgraph* out, CUgraph from);
KILN_API CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph graph);
KILN_API CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                          const CUDA_KERNEL_NODE_PARAMS* p);
KILN_API CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                       const CUDA_MEMCPY3D* p, CUcontext);
KILN_API CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                       const CUDA_MEMSET_NODE_PARAMS* p, CUcontext);
KILN_API CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                     const CUDA_HOST_NODE_PARAMS* p);
KILN_API CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                           CUgraph child);
KILN_API CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n);
KILN_API CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                            CUevent e);
KILN_API CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                          CUevent e);
KILN_API CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                         CUDA_MEM_ALLOC_NODE_PARAMS* p);
KILN_API CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                        CUdeviceptr p);
KILN_API CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                    const CUgraphEdgeData*, std::size_t n, CUgraphNodeParams* p);
KILN_API CUresult cuGraphAddNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                 CUgraphNodeParams* p);
KILN_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p);
KILN_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p);
KILN_API CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, unsigned id, const void* value);
KILN_API CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, unsigned id, void* value);
KILN_API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from);
KILN_API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* p);
KILN_API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* p);
KILN_API CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* p);
KILN_API CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p);
KILN_API CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* p);
KILN_API CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p);
KILN_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out);
KILN_API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* out);
KILN_API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* p);
KILN_API CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* p);
KILN_API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* out);
KILN_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* out, std::size_t* count);
KILN_API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* out, std::size_t* count);
KILN_API CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                     std::size_t* count);
KILN_API CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count);
KILN_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                                std::size_t* count);
KILN_API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, std::size_t* count);
KILN_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                                  std::size_t* count);
KILN_API CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, std::size_t* count);
KILN_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                            const CUgraphEdgeData*, std::size_t count);
KILN_API CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                         std::size_t count);
KILN_API CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                               const CUgraphEdgeData*, std::size_t count);
KILN_API CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                            std::size_t count);
KILN_API CUresult cuGraphDestroyNode(CUgraphNode handle);
KILN_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags);
KILN_API CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error, char* log,
                                        std::size_t bytes);
KILN_API CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                               CUDA_GRAPH_INSTANTIATE_PARAMS* p);
KILN_API CUresult cuGraphExecGetFlags(CUgraphExec exec, std::uint64_t* out);
KILN_API CUresult cuGraphExecDestroy(CUgraphExec exec);
KILN_API CUresult cuGraphUpload(CUgraphExec exec, CUstream);
KILN_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
KILN_API CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info);
KILN_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode n,
                                                    const CUDA_KERNEL_NODE_PARAMS* p);
KILN_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_MEMCPY3D* p,
                                                 CUcontext);
KILN_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec e, CUgraphNode n,
                                                 const CUDA_MEMSET_NODE_PARAMS* p, CUcontext);
KILN_API CUresult cuGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_HOST_NODE_PARAMS* p);
KILN_API CUresult cuGraphExecNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraphNodeParams* p);
KILN_API CUresult cuGraphNodeSetEnabled(CUgraphExec e, CUgraphNode n, unsigned enabled);
KILN_API CUresult cuGraphNodeGetEnabled(CUgraphExec e, CUgraphNode n, unsigned* out);

// entry.cpp
KILN_API CUresult cuGetProcAddress_v2(const char* name, void** out, int version, std::uint64_t flags,
                                      int* status);
/// Names a function of the stand-in for the runtime that is not implemented, in the report.
KILN_API void kiln_driver_unsupported(const char* name);

// graph_parts.cpp
KILN_API CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                                        unsigned flags);
KILN_API CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* on,
                                           std::size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p);
KILN_API CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* p);
KILN_API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p);
KILN_API CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_BATCH_MEM_OP_NODE_PARAMS* p);
KILN_API CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph graph, CUcontext,
                                                 unsigned value, unsigned flags);
KILN_API CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned count,
                                     unsigned flags);
KILN_API CUresult cuUserObjectRetain(CUuserObject object, unsigned count);
KILN_API CUresult cuUserObjectRelease(CUuserObject object, unsigned count);
KILN_API CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags);
KILN_API CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count);
KILN_API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out);
KILN_API CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event);
KILN_API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out);
KILN_API CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event);
KILN_API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event);
KILN_API CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event);
