// The part of the CUDA driver's binary interface that the stand-in speaks: handles, structures, numbers.
// Layouts and values are the interface's; tests/driver/layout_test.cpp compares them with <cuda.h> where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

#define KILN_API extern "C" __attribute__((visibility("default")))

namespace kiln::driver {
struct Context;
struct Stream;
struct Event;
struct Module;
struct Function;
struct Graph;
struct Node;
struct Exec;
struct Pool;
struct Array;
struct Mipmaps;
struct Link;
struct UserObject;
}  // namespace kiln::driver

// NOLINTBEGIN(readability-identifier-naming)
using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = kiln::driver::Context*;
using CUstream = kiln::driver::Stream*;
using CUevent = kiln::driver::Event*;
using CUmodule = kiln::driver::Module*;
using CUlibrary = kiln::driver::Module*;
using CUfunction = kiln::driver::Function*;
using CUkernel = kiln::driver::Function*;
using CUgraph = kiln::driver::Graph*;
using CUgraphNode = kiln::driver::Node*;
using CUgraphExec = kiln::driver::Exec*;
using CUmemoryPool = kiln::driver::Pool*;
using CUarray = kiln::driver::Array*;
using CUmipmappedArray = kiln::driver::Mipmaps*;
using CUlinkState = kiln::driver::Link*;
using CUuserObject = kiln::driver::UserObject*;
using CUgraphConditionalHandle = std::uint64_t;
using CUtexObject = std::uint64_t;
using CUsurfObject = std::uint64_t;
using CUmemGenericAllocationHandle = std::uint64_t;
using CUhostFn = void (*)(void*);

enum CUresult : int {
#define X(name, value, text) name = value,
#include "driver/results.inc"
#undef X
};
using CUstreamCallback = void (*)(CUstream, CUresult, void*);

inline CUstream const kLegacyStream = reinterpret_cast<CUstream>(1);
inline CUstream const kPerThreadStream = reinterpret_cast<CUstream>(2);

struct CUuuid {
  unsigned char bytes[16];
};

enum CUmemorytype : unsigned {
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_MEMORYTYPE_ARRAY = 3,
  CU_MEMORYTYPE_UNIFIED = 4
};

struct CUDA_MEMCPY2D {
  std::size_t srcXInBytes, srcY;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  std::size_t srcPitch;
  std::size_t dstXInBytes, dstY;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  std::size_t dstPitch;
  std::size_t WidthInBytes, Height;
};

/// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, which differ in the names of two unused members.
struct CUDA_MEMCPY3D {
  std::size_t srcXInBytes, srcY, srcZ, srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void* srcContext;
  std::size_t srcPitch, srcHeight;
  std::size_t dstXInBytes, dstY, dstZ, dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void* dstContext;
  std::size_t dstPitch, dstHeight;
  std::size_t WidthInBytes, Height, Depth;
};

struct CUDA_ARRAY_DESCRIPTOR {
  std::size_t Width, Height;
  unsigned Format, NumChannels;
};
struct CUDA_ARRAY3D_DESCRIPTOR {
  std::size_t Width, Height, Depth;
  unsigned Format, NumChannels, Flags;
};
struct CUDA_RESOURCE_DESC {
  unsigned resType;
  union {
    struct {
      CUarray hArray;
    } array;
    struct {
      CUmipmappedArray hMipmappedArray;
    } mipmap;
    struct {
      CUdeviceptr devPtr;
      unsigned format, numChannels;
      std::size_t sizeInBytes;
    } linear;
    struct {
      CUdeviceptr devPtr;
      unsigned format, numChannels;
      std::size_t width, height, pitchInBytes;
    } pitch2D;
    int reserved[32];
  } res;
  unsigned flags;
};
struct CUDA_TEXTURE_DESC {
  unsigned addressMode[3], filterMode, flags, maxAnisotropy, mipmapFilterMode;
  float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp, borderColor[4];
  int reserved[12];
};
struct CUDA_RESOURCE_VIEW_DESC {
  unsigned format;
  std::size_t width, height, depth;
  unsigned firstMipmapLevel, lastMipmapLevel, firstLayer, lastLayer, reserved[16];
};

enum CUlaunchAttributeID : unsigned {
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};
struct CUlaunchAttribute {
  CUlaunchAttributeID id;
  char pad[4];
  union {
    char bytes[64];
    int flag;
    unsigned dim[3];
  } value;
};
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};

struct CUmemLocation {
  int type, id;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  unsigned flags;
};
struct CUmulticastObjectProp {
  unsigned numDevices;
  std::size_t size;
  unsigned long long handleTypes, flags;
};
struct CUmemAllocationProp {
  int type, requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};
struct CUmemPoolProps {
  int allocType, handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void** kernelParams;
  void** extra;
  CUkernel kern;
  CUcontext ctx;
};
struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  std::size_t pitch;
  unsigned value, elementSize;
  std::size_t width, height;
};
struct CUDA_HOST_NODE_PARAMS {
  CUhostFn fn;
  void* userData;
};
struct CUDA_MEM_ALLOC_NODE_PARAMS {
  CUmemPoolProps poolProps;
  const void* accessDescs;
  std::size_t accessDescCount, bytesize;
  CUdeviceptr dptr;
};
union CUstreamBatchMemOpParams {
  unsigned operation;  // 1, 4: wait for 32 or 64 bits; 2, 5: write them; 3, 6: flush, barrier
  struct {
    unsigned operation;
    CUdeviceptr address;
    std::uint64_t value;
    unsigned flags;
    CUdeviceptr alias;
  } value;
  std::uint64_t pad[6];
};
struct CUDA_BATCH_MEM_OP_NODE_PARAMS {
  CUcontext ctx;
  unsigned count;
  CUstreamBatchMemOpParams* paramArray;
  unsigned flags;
};
struct CUDA_CONDITIONAL_NODE_PARAMS {
  CUgraphConditionalHandle handle;
  unsigned type;  // 0: if (else), 1: while, 2: switch
  unsigned size;
  CUgraph* phGraph_out;
  CUcontext ctx;
};
enum CUgraphNodeType : int {
  CU_GRAPH_NODE_TYPE_KERNEL = 0,
  CU_GRAPH_NODE_TYPE_MEMCPY = 1,
  CU_GRAPH_NODE_TYPE_MEMSET = 2,
  CU_GRAPH_NODE_TYPE_HOST = 3,
  CU_GRAPH_NODE_TYPE_GRAPH = 4,
  CU_GRAPH_NODE_TYPE_EMPTY = 5,
  CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
  CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
  CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
  CU_GRAPH_NODE_TYPE_MEM_FREE = 11,
  CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12,
  CU_GRAPH_NODE_TYPE_CONDITIONAL = 13
};
struct CUgraphNodeParams {
  CUgraphNodeType type;
  int reserved0[3];
  union {
    long long reserved1[29];
    CUDA_KERNEL_NODE_PARAMS kernel;
    struct {
      int flags, reserved;
      CUcontext copyCtx;
      CUDA_MEMCPY3D copyParams;
    } memcpy;
    CUDA_MEMSET_NODE_PARAMS memset;
    CUDA_HOST_NODE_PARAMS host;
    struct {
      CUgraph graph;
    } graph;
    struct {
      CUevent event;
    } event;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    struct {
      CUdeviceptr dptr;
    } free;
    CUDA_BATCH_MEM_OP_NODE_PARAMS memOp;
    CUDA_CONDITIONAL_NODE_PARAMS conditional;
  };
  long long reserved2;
};
struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};
struct CUDA_GRAPH_INSTANTIATE_PARAMS {
  std::uint64_t flags;
  CUstream hUploadStream;
  CUgraphNode hErrNode_out;
  int result_out;
};
struct CUgraphExecUpdateResultInfo {
  int result;
  CUgraphNode errorNode, errorFromNode;
};
// NOLINTEND(readability-identifier-naming)
