// Graphs: the runtime's node parameters to the driver's.
#include "driver/runtime/convert.hpp"

namespace kiln::runtime_stand_in {
namespace {

/// Calls `body` with the driver's form of a kernel node's parameters.
template <class F>
cudaError_t with_params(const cudaKernelNodeParams* p, const F& body) {
  return call([&]() -> int {
    CUDA_KERNEL_NODE_PARAMS d{};
    const int result = kernel_of(p->func, &d.func);
    if (result != CUDA_SUCCESS) return result;
    d.gridDimX = p->gridDim.x;
    d.gridDimY = p->gridDim.y;
    d.gridDimZ = p->gridDim.z;
    d.blockDimX = p->blockDim.x;
    d.blockDimY = p->blockDim.y;
    d.blockDimZ = p->blockDim.z;
    d.sharedMemBytes = p->sharedMemBytes;
    d.kernelParams = p->kernelParams;
    d.extra = p->extra;
    return body(d);
  });
}

/// The same of a node of any type, which differs in kernels and copies only.
template <class F>
cudaError_t with_node(cudaGraphNodeParams* p, const F& body) {
  auto* const same = reinterpret_cast<CUgraphNodeParams*>(p);
  if (p->type == CU_GRAPH_NODE_TYPE_KERNEL) {
    return with_params(&p->kernel, [&](const CUDA_KERNEL_NODE_PARAMS& kernel) {
      CUgraphNodeParams d{};
      d.type = p->type;
      d.kernel = kernel;
      return body(&d);
    });
  }
  if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    return call([&] {
      CUgraphNodeParams d{};
      d.type = p->type;
      d.memcpy.copyParams = copy_of(p->memcpy.copyParams);
      return body(&d);
    });
  }
  return call([&] { return body(same); });
}

}  // namespace
}  // namespace kiln::runtime_stand_in

using namespace kiln::runtime_stand_in;  // NOLINT(google-build-using-namespace)

KILN_API cudaError_t cudaGraphCreate(CUgraph* out, unsigned flags) {
  return call([&] { return cuGraphCreate(out, flags); });
}
KILN_API cudaError_t cudaGraphDestroy(CUgraph g) {
  return call([&] { return cuGraphDestroy(g); });
}
KILN_API cudaError_t cudaGraphClone(CUgraph* out, CUgraph g) {
  return call([&] { return cuGraphClone(out, g); });
}
KILN_API cudaError_t cudaGraphNodeFindInClone(CUgraphNode* out, CUgraphNode node, CUgraph g) {
  return call([&] { return cuGraphNodeFindInClone(out, node, g); });
}
KILN_API cudaError_t cudaGraphAddKernelNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                            const cudaKernelNodeParams* p) {
  return with_params(
      p, [&](const CUDA_KERNEL_NODE_PARAMS& d) { return cuGraphAddKernelNode_v2(out, g, on, n, &d); });
}
KILN_API cudaError_t cudaGraphAddMemcpyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                            const cudaMemcpy3DParms* p) {
  return call([&] {
    const CUDA_MEMCPY3D copy = copy_of(*p);
    return cuGraphAddMemcpyNode(out, g, on, n, &copy, nullptr);
  });
}
KILN_API cudaError_t cudaGraphAddMemcpyNode1D(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                              std::size_t n, void* to, const void* from, std::size_t bytes,
                                              int) {
  return call([&] {
    const CUDA_MEMCPY3D copy = copy_1d(to, from, bytes);
    return cuGraphAddMemcpyNode(out, g, on, n, &copy, nullptr);
  });
}
KILN_API cudaError_t cudaGraphAddMemcpyNodeToSymbol(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                                    std::size_t n, const void* symbol, const void* from,
                                                    std::size_t bytes, std::size_t offset, int) {
  return call([&]() -> int {
    CUdeviceptr to = 0;
    if (const int result = symbol_range(symbol, offset, bytes, &to); result != CUDA_SUCCESS) return result;
    const CUDA_MEMCPY3D copy = copy_1d(reinterpret_cast<void*>(to), from, bytes);
    return cuGraphAddMemcpyNode(out, g, on, n, &copy, nullptr);
  });
}
KILN_API cudaError_t cudaGraphAddMemcpyNodeFromSymbol(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                                      std::size_t n, void* to, const void* symbol,
                                                      std::size_t bytes, std::size_t offset, int) {
  return call([&]() -> int {
    CUdeviceptr from = 0;
    if (const int result = symbol_range(symbol, offset, bytes, &from); result != CUDA_SUCCESS) return result;
    const CUDA_MEMCPY3D copy = copy_1d(to, reinterpret_cast<void*>(from), bytes);
    return cuGraphAddMemcpyNode(out, g, on, n, &copy, nullptr);
  });
}
KILN_API cudaError_t cudaGraphAddMemsetNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                            const CUDA_MEMSET_NODE_PARAMS* p) {
  return call([&] { return cuGraphAddMemsetNode(out, g, on, n, p, nullptr); });
}
KILN_API cudaError_t cudaGraphAddHostNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                          const CUDA_HOST_NODE_PARAMS* p) {
  return call([&] { return cuGraphAddHostNode(out, g, on, n, p); });
}
KILN_API cudaError_t cudaGraphAddChildGraphNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                                std::size_t n, CUgraph child) {
  return call([&] { return cuGraphAddChildGraphNode(out, g, on, n, child); });
}
KILN_API cudaError_t cudaGraphAddEmptyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                           std::size_t n) {
  return call([&] { return cuGraphAddEmptyNode(out, g, on, n); });
}
KILN_API cudaError_t cudaGraphAddEventRecordNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                                 std::size_t n, CUevent event) {
  return call([&] { return cuGraphAddEventRecordNode(out, g, on, n, event); });
}
KILN_API cudaError_t cudaGraphAddEventWaitNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                               std::size_t n, CUevent event) {
  return call([&] { return cuGraphAddEventWaitNode(out, g, on, n, event); });
}
KILN_API cudaError_t cudaGraphAddMemAllocNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                              std::size_t n, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  return call([&] { return cuGraphAddMemAllocNode(out, g, on, n, p); });
}
KILN_API cudaError_t cudaGraphAddMemFreeNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                             std::size_t n, void* p) {
  return call([&] { return cuGraphAddMemFreeNode(out, g, on, n, at(p)); });
}
KILN_API cudaError_t cudaGraphAddNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                      const CUgraphEdgeData* edges, std::size_t n, cudaGraphNodeParams* p) {
  return with_node(p, [&](CUgraphNodeParams* d) { return cuGraphAddNode_v2(out, g, on, edges, n, d); });
}

KILN_API cudaError_t cudaGraphKernelNodeGetParams(CUgraphNode node, cudaKernelNodeParams* p) {
  return call([&] {
    CUDA_KERNEL_NODE_PARAMS d{};
    const int result = cuGraphKernelNodeGetParams_v2(node, &d);
    *p = {host_of(d.func),
          {d.gridDimX, d.gridDimY, d.gridDimZ},
          {d.blockDimX, d.blockDimY, d.blockDimZ},
          d.sharedMemBytes,
          d.kernelParams,
          d.extra};
    return result;
  });
}
KILN_API cudaError_t cudaGraphKernelNodeSetParams(CUgraphNode node, const cudaKernelNodeParams* p) {
  return with_params(
      p, [&](const CUDA_KERNEL_NODE_PARAMS& d) { return cuGraphKernelNodeSetParams_v2(node, &d); });
}
KILN_API cudaError_t cudaGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return call([&] { return cuGraphKernelNodeCopyAttributes(to, from); });
}
KILN_API cudaError_t cudaGraphKernelNodeGetAttribute(CUgraphNode node, unsigned id, void* value) {
  return call([&] { return cuGraphKernelNodeGetAttribute(node, id, value); });
}
KILN_API cudaError_t cudaGraphKernelNodeSetAttribute(CUgraphNode node, unsigned id, const void* value) {
  return call([&] { return cuGraphKernelNodeSetAttribute(node, id, value); });
}
KILN_API cudaError_t cudaGraphMemcpyNodeGetParams(CUgraphNode node, cudaMemcpy3DParms* p) {
  return call([&] {
    CUDA_MEMCPY3D copy{};
    const int result = cuGraphMemcpyNodeGetParams(node, &copy);
    *p = parms_of(copy);
    return result;
  });
}
KILN_API cudaError_t cudaGraphMemcpyNodeSetParams(CUgraphNode node, const cudaMemcpy3DParms* p) {
  return call([&] {
    const CUDA_MEMCPY3D copy = copy_of(*p);
    return cuGraphMemcpyNodeSetParams(node, &copy);
  });
}
KILN_API cudaError_t cudaGraphMemcpyNodeSetParams1D(CUgraphNode node, void* to, const void* from,
                                                    std::size_t bytes, int) {
  return call([&] {
    const CUDA_MEMCPY3D copy = copy_1d(to, from, bytes);
    return cuGraphMemcpyNodeSetParams(node, &copy);
  });
}
KILN_API cudaError_t cudaGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* p) {
  return call([&] { return cuGraphMemsetNodeGetParams(node, p); });
}
KILN_API cudaError_t cudaGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p) {
  return call([&] { return cuGraphMemsetNodeSetParams(node, p); });
}
KILN_API cudaError_t cudaGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* p) {
  return call([&] { return cuGraphHostNodeGetParams(node, p); });
}
KILN_API cudaError_t cudaGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
  return call([&] { return cuGraphHostNodeSetParams(node, p); });
}
KILN_API cudaError_t cudaGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
  return call([&] { return cuGraphChildGraphNodeGetGraph(node, out); });
}
KILN_API cudaError_t cudaGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  return call([&] { return cuGraphMemAllocNodeGetParams(node, p); });
}
KILN_API cudaError_t cudaGraphMemFreeNodeGetParams(CUgraphNode node, void* out) {
  return call([&] { return cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(out)); });
}
KILN_API cudaError_t cudaGraphNodeSetParams(CUgraphNode node, cudaGraphNodeParams* p) {
  return with_node(p, [&](CUgraphNodeParams* d) { return cuGraphNodeSetParams(node, d); });
}

KILN_API cudaError_t cudaGraphNodeGetType(CUgraphNode node, CUgraphNodeType* out) {
  return call([&] { return cuGraphNodeGetType(node, out); });
}
KILN_API cudaError_t cudaGraphGetNodes(CUgraph g, CUgraphNode* out, std::size_t* count) {
  return call([&] { return cuGraphGetNodes(g, out, count); });
}
KILN_API cudaError_t cudaGraphGetRootNodes(CUgraph g, CUgraphNode* out, std::size_t* count) {
  return call([&] { return cuGraphGetRootNodes(g, out, count); });
}
KILN_API cudaError_t cudaGraphGetEdges(CUgraph g, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges,
                                       std::size_t* count) {
  return call([&] { return cuGraphGetEdges_v2(g, from, to, edges, count); });
}
KILN_API cudaError_t cudaGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* edges,
                                                  std::size_t* count) {
  return call([&] { return cuGraphNodeGetDependencies_v2(node, out, edges, count); });
}
KILN_API cudaError_t cudaGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out,
                                                    CUgraphEdgeData* edges, std::size_t* count) {
  return call([&] { return cuGraphNodeGetDependentNodes_v2(node, out, edges, count); });
}
KILN_API cudaError_t cudaGraphAddDependencies(CUgraph g, const CUgraphNode* from, const CUgraphNode* to,
                                              const CUgraphEdgeData* edges, std::size_t count) {
  return call([&] { return cuGraphAddDependencies_v2(g, from, to, edges, count); });
}
KILN_API cudaError_t cudaGraphRemoveDependencies(CUgraph g, const CUgraphNode* from, const CUgraphNode* to,
                                                 const CUgraphEdgeData* edges, std::size_t count) {
  return call([&] { return cuGraphRemoveDependencies_v2(g, from, to, edges, count); });
}
KILN_API cudaError_t cudaGraphDestroyNode(CUgraphNode node) {
  return call([&] { return cuGraphDestroyNode(node); });
}

KILN_API cudaError_t cudaGraphInstantiateWithFlags(CUgraphExec* out, CUgraph g, unsigned long long flags) {
  return call([&] { return cuGraphInstantiateWithFlags(out, g, flags); });
}
KILN_API cudaError_t cudaGraphInstantiate(CUgraphExec* out, CUgraph g, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(out, g, flags);
}
KILN_API cudaError_t cudaGraphInstantiateWithParams(CUgraphExec* out, CUgraph g,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  return call([&] { return cuGraphInstantiateWithParams(out, g, p); });
}
KILN_API cudaError_t cudaGraphExecGetFlags(CUgraphExec e, unsigned long long* out) {
  return call([&] {
    std::uint64_t flags = 0;
    const int result = cuGraphExecGetFlags(e, &flags);
    *out = flags;
    return result;
  });
}
KILN_API cudaError_t cudaGraphExecDestroy(CUgraphExec e) {
  return call([&] { return cuGraphExecDestroy(e); });
}
KILN_API cudaError_t cudaGraphUpload(CUgraphExec e, cudaStream_t s) {
  return call([&] { return cuGraphUpload(e, s); });
}
KILN_API cudaError_t cudaGraphLaunch(CUgraphExec e, cudaStream_t s) {
  return call([&] { return cuGraphLaunch(e, s); });
}
KILN_API cudaError_t cudaGraphExecUpdate(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo* info) {
  return call([&] { return cuGraphExecUpdate_v2(e, g, info); });
}
KILN_API cudaError_t cudaGraphExecKernelNodeSetParams(CUgraphExec e, CUgraphNode node,
                                                      const cudaKernelNodeParams* p) {
  return with_params(
      p, [&](const CUDA_KERNEL_NODE_PARAMS& d) { return cuGraphExecKernelNodeSetParams_v2(e, node, &d); });
}
KILN_API cudaError_t cudaGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode node,
                                                      const cudaMemcpy3DParms* p) {
  return call([&] {
    const CUDA_MEMCPY3D copy = copy_of(*p);
    return cuGraphExecMemcpyNodeSetParams(e, node, &copy, nullptr);
  });
}
KILN_API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(CUgraphExec e, CUgraphNode node, void* to,
                                                        const void* from, std::size_t bytes, int) {
  return call([&] {
    const CUDA_MEMCPY3D copy = copy_1d(to, from, bytes);
    return cuGraphExecMemcpyNodeSetParams(e, node, &copy, nullptr);
  });
}
KILN_API cudaError_t cudaGraphExecMemsetNodeSetParams(CUgraphExec e, CUgraphNode node,
                                                      const CUDA_MEMSET_NODE_PARAMS* p) {
  return call([&] { return cuGraphExecMemsetNodeSetParams(e, node, p, nullptr); });
}
KILN_API cudaError_t cudaGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode node,
                                                    const CUDA_HOST_NODE_PARAMS* p) {
  return call([&] { return cuGraphExecHostNodeSetParams(e, node, p); });
}
KILN_API cudaError_t cudaGraphExecNodeSetParams(CUgraphExec e, CUgraphNode node, cudaGraphNodeParams* p) {
  return with_node(p, [&](CUgraphNodeParams* d) { return cuGraphExecNodeSetParams(e, node, d); });
}
KILN_API cudaError_t cudaGraphNodeSetEnabled(CUgraphExec e, CUgraphNode node, unsigned enabled) {
  return call([&] { return cuGraphNodeSetEnabled(e, node, enabled); });
}
KILN_API cudaError_t cudaGraphNodeGetEnabled(CUgraphExec e, CUgraphNode node, unsigned* out) {
  return call([&] { return cuGraphNodeGetEnabled(e, node, out); });
}

KILN_API cudaError_t cudaGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph g,
                                                      unsigned value, unsigned flags) {
  return call([&] { return cuGraphConditionalHandleCreate(out, g, nullptr, value, flags); });
}
KILN_API cudaError_t cudaUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned count,
                                          unsigned flags) {
  return call([&] { return cuUserObjectCreate(out, pointer, destroy, count, flags); });
}
KILN_API cudaError_t cudaUserObjectRetain(CUuserObject object, unsigned count) {
  return call([&] { return cuUserObjectRetain(object, count); });
}
KILN_API cudaError_t cudaUserObjectRelease(CUuserObject object, unsigned count) {
  return call([&] { return cuUserObjectRelease(object, count); });
}
KILN_API cudaError_t cudaGraphRetainUserObject(CUgraph g, CUuserObject object, unsigned count,
                                               unsigned flags) {
  return call([&] { return cuGraphRetainUserObject(g, object, count, flags); });
}
KILN_API cudaError_t cudaGraphReleaseUserObject(CUgraph g, CUuserObject object, unsigned count) {
  return call([&] { return cuGraphReleaseUserObject(g, object, count); });
}
KILN_API cudaError_t cudaGraphEventRecordNodeGetEvent(CUgraphNode node, cudaEvent_t* out) {
  return call([&] { return cuGraphEventRecordNodeGetEvent(node, out); });
}
KILN_API cudaError_t cudaGraphEventRecordNodeSetEvent(CUgraphNode node, cudaEvent_t event) {
  return call([&] { return cuGraphEventRecordNodeSetEvent(node, event); });
}
KILN_API cudaError_t cudaGraphEventWaitNodeGetEvent(CUgraphNode node, cudaEvent_t* out) {
  return call([&] { return cuGraphEventWaitNodeGetEvent(node, out); });
}
KILN_API cudaError_t cudaGraphEventWaitNodeSetEvent(CUgraphNode node, cudaEvent_t event) {
  return call([&] { return cuGraphEventWaitNodeSetEvent(node, event); });
}
KILN_API cudaError_t cudaGraphExecEventRecordNodeSetEvent(CUgraphExec e, CUgraphNode node,
                                                          cudaEvent_t event) {
  return call([&] { return cuGraphExecEventRecordNodeSetEvent(e, node, event); });
}
KILN_API cudaError_t cudaGraphExecEventWaitNodeSetEvent(CUgraphExec e, CUgraphNode node, cudaEvent_t event) {
  return call([&] { return cuGraphExecEventWaitNodeSetEvent(e, node, event); });
}
