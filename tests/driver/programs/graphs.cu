// Streams, events, capture of streams into graphs, graphs made of nodes, changes of executables.
#include <cuda_runtime.h>

#include "check.hpp"

__global__ void add(int* p, int value) {
  p[threadIdx.x] += value;
}
void on_host(void* data) {
  *static_cast<int*>(data) += 1;
}

int main() {
  int* p;
  OK(cudaMalloc(&p, 128));
  OK(cudaMemset(p, 0, 128));
  cudaStream_t a, b;
  OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  OK(cudaStreamCreate(&b));
  cudaEvent_t start, stop;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&stop));
  OK(cudaEventRecord(start, a));
  add<<<1, 32, 0, a>>>(p, 1);
  OK(cudaEventRecord(stop, a));
  OK(cudaStreamWaitEvent(b, stop, 0));
  add<<<1, 32, 0, b>>>(p, 2);
  OK(cudaStreamSynchronize(b));
  OK(cudaEventSynchronize(stop));
  float ms = -1;
  OK(cudaEventElapsedTime(&ms, start, stop));
  EXPECT(ms >= 0);
  int calls = 0;
  OK(cudaLaunchHostFunc(b, on_host, &calls));
  OK(cudaStreamSynchronize(b));
  EXPECT(calls == 1);

  // Captured: a fork to b, a join, and nothing runs before the launch.
  int out[32];
  cudaGraph_t graph;
  OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  add<<<1, 32, 0, a>>>(p, 10);
  OK(cudaEventRecord(start, a));
  OK(cudaStreamWaitEvent(b, start, 0));
  OK(cudaLaunchHostFunc(b, on_host, &calls));
  OK(cudaEventRecord(stop, b));
  add<<<1, 32, 0, a>>>(p, 20);
  OK(cudaStreamWaitEvent(a, stop, 0));
  OK(cudaMemcpyAsync(out, p, sizeof out, cudaMemcpyDeviceToHost, a));
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(b, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  OK(cudaStreamEndCapture(a, &graph));
  OK(cudaMemcpy(out, p, sizeof out, cudaMemcpyDeviceToHost));
  EXPECT(out[7] == 3 && calls == 1);
  size_t nodes = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 4);
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, a));
  OK(cudaGraphLaunch(exec, a));
  OK(cudaStreamSynchronize(a));
  EXPECT(out[7] == 63 && calls == 3);

  // What a capture refuses.
  OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
  EXPECT(cudaStreamSynchronize(a) == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t none;
  EXPECT(cudaStreamEndCapture(a, &none) == cudaErrorStreamCaptureInvalidated && none == nullptr);
  cudaGetLastError();

  // Made of nodes.
  cudaGraph_t made;
  OK(cudaGraphCreate(&made, 0));
  cudaGraphNode_t set, kernel, copy, host, empty;
  cudaMemsetParams zero = {};
  zero.dst = p;
  zero.value = 5;
  zero.elementSize = 4;
  zero.width = 32;
  zero.height = 1;
  OK(cudaGraphAddMemsetNode(&set, made, nullptr, 0, &zero));
  int seven = 7;
  void* args[] = {&p, &seven};
  cudaKernelNodeParams k = {};
  k.func = (void*)add;
  k.gridDim = dim3(1);
  k.blockDim = dim3(32);
  k.kernelParams = args;
  OK(cudaGraphAddKernelNode(&kernel, made, &set, 1, &k));
  OK(cudaGraphAddEmptyNode(&empty, made, &kernel, 1));
  OK(cudaGraphAddMemcpyNode1D(&copy, made, &empty, 1, out, p, sizeof out, cudaMemcpyDeviceToHost));
  cudaHostNodeParams h = {on_host, &calls};
  OK(cudaGraphAddHostNode(&host, made, &copy, 1, &h));
  cudaGraphNodeType type;
  OK(cudaGraphNodeGetType(copy, &type));
  EXPECT(type == cudaGraphNodeTypeMemcpy);
  cudaGraphExec_t run;
  OK(cudaGraphInstantiate(&run, made, 0));
  OK(cudaGraphLaunch(run, b));
  OK(cudaStreamSynchronize(b));
  EXPECT(out[31] == 12 && calls == 4);
  seven = 100;
  OK(cudaGraphExecKernelNodeSetParams(run, kernel, &k));
  OK(cudaGraphLaunch(run, b));
  OK(cudaStreamSynchronize(b));
  EXPECT(out[31] == 105);
  cudaGraph_t clone;
  cudaGraphExec_t from_clone;
  OK(cudaGraphClone(&clone, made));
  OK(cudaGraphInstantiate(&from_clone, clone, 0));
  OK(cudaGraphLaunch(from_clone, b));
  OK(cudaStreamSynchronize(b));
  EXPECT(out[31] == 12);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  std::puts("graphs: right");
  return 0;
}
