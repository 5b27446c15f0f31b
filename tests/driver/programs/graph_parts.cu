// Graphs that decide for themselves (if with else, while, switch, nested), operations on memory in streams and graphs,
// objects that graphs keep, events of nodes that are changed.
#include <cuda.h>
#include <cuda_runtime.h>

#include "check.hpp"

namespace {

__global__ void countdown(cudaGraphConditionalHandle again, int* left, int* rounds) {
  ++*rounds;
  cudaGraphSetConditional(again, --*left > 0 ? 1 : 0);
}
__global__ void choose(cudaGraphConditionalHandle which, const int* from) { cudaGraphSetConditional(which, unsigned(*from)); }
__global__ void write(int* to, int value) { *to = value; }

cudaGraphNode_t add_kernel(cudaGraph_t graph, cudaGraphNode_t after, void* kernel, void** arguments) {
  cudaKernelNodeParams p{};
  p.func = kernel;
  p.gridDim = 1;
  p.blockDim = 1;
  p.kernelParams = arguments;
  cudaGraphNode_t node;
  OK(cudaGraphAddKernelNode(&node, graph, &after, after == nullptr ? 0 : 1, &p));
  cudaKernelNodeParams back{};
  OK(cudaGraphKernelNodeGetParams(node, &back));
  EXPECT(back.func == kernel);  // llama.cpp finds its copies by it
  return node;
}
cudaGraphNode_t add_write(cudaGraph_t graph, int* to, int value) {
  void* arguments[] = {&to, &value};
  return add_kernel(graph, nullptr, reinterpret_cast<void*>(write), arguments);
}
cudaGraph_t* add_conditional(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle,
                             cudaGraphConditionalNodeType type, unsigned size) {
  cudaGraphNodeParams p{};
  p.type = cudaGraphNodeTypeConditional;
  p.conditional.handle = handle;
  p.conditional.type = type;
  p.conditional.size = size;
  cudaGraphNode_t node;
  OK(cudaGraphAddNode(&node, graph, &after, nullptr, after == nullptr ? 0 : 1, &p));
  cudaGraphNodeType kind;
  OK(cudaGraphNodeGetType(node, &kind));
  EXPECT(kind == cudaGraphNodeTypeConditional);
  return p.conditional.phGraph_out;
}
void run(cudaGraph_t graph, int times = 1) {
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < times; ++i) OK(cudaGraphLaunch(exec, nullptr));
  OK(cudaDeviceSynchronize());
  OK(cudaGraphExecDestroy(exec));
}

/// A loop that counts down; in each round an `if` with an `else`, by how many rounds are left.
void loops(int* left, int* rounds, int* other) {
  cudaGraph_t graph;
  cudaGraphConditionalHandle again, more;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
  OK(cudaGraphConditionalHandleCreate(&more, graph, 0, 0));
  cudaGraph_t* const body = add_conditional(graph, nullptr, again, cudaGraphCondTypeWhile, 1);
  void* count[] = {&again, &left, &rounds};
  cudaGraphNode_t node = add_kernel(body[0], nullptr, reinterpret_cast<void*>(countdown), count);
  void* decide[] = {&more, &left};
  node = add_kernel(body[0], node, reinterpret_cast<void*>(choose), decide);
  cudaGraph_t* const branches = add_conditional(body[0], node, more, cudaGraphCondTypeIf, 2);
  add_write(branches[0], other, 1);
  add_write(branches[1], other + 1, 1);
  *left = 4, *rounds = other[0] = other[1] = 0;
  run(graph);
  EXPECT(*left == 0 && *rounds == 4 && other[0] == 1 && other[1] == 1);
  *left = 1, other[0] = other[1] = 0;
  run(graph);
  EXPECT(*left == 0 && *rounds == 5 && other[0] == 0 && other[1] == 1);
  OK(cudaGraphDestroy(graph));
}

void switches(int* from, int* to) {
  cudaGraph_t graph;
  cudaGraphConditionalHandle which;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphConditionalHandleCreate(&which, graph, 0, 0));
  void* decide[] = {&which, &from};
  cudaGraph_t* const cases =
      add_conditional(graph, add_kernel(graph, nullptr, reinterpret_cast<void*>(choose), decide), which, cudaGraphCondTypeSwitch, 3);
  for (int i = 0; i < 3; ++i) add_write(cases[i], to, 10 + i);
  for (int i = 0; i < 4; ++i) {
    *from = i, *to = 0;
    run(graph);
    EXPECT(*to == (i < 3 ? 10 + i : 0));
  }
  OK(cudaGraphDestroy(graph));
}

void memory_operations(unsigned* at) {
  const auto address = reinterpret_cast<CUdeviceptr>(at);
  CUstreamBatchMemOpParams operations[3] = {};
  operations[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, address, {5}, 0, 0};
  operations[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, address, {4}, CU_STREAM_WAIT_VALUE_GEQ, 0};
  operations[2].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, address + 8, {}, 0, 0};
  operations[2].writeValue.value64 = 0x123456789a;
  EXPECT(cuStreamBatchMemOp(nullptr, 3, operations, 0) == CUDA_SUCCESS);
  EXPECT(at[0] == 5 && at[2] == 0x3456789a && at[3] == 0x12);
  EXPECT(cuStreamWaitValue32(nullptr, address, ~5u, CU_STREAM_WAIT_VALUE_NOR) != CUDA_SUCCESS);
  EXPECT(cuStreamWaitValue32(nullptr, address, 6, CU_STREAM_WAIT_VALUE_NOR) == CUDA_SUCCESS);
  // Captured, it is done when the graph runs.
  cudaStream_t stream;
  cudaGraph_t graph;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT(cuStreamWriteValue32(stream, address, 77, 0) == CUDA_SUCCESS);
  EXPECT(cuStreamWaitValue32(stream, address, 77, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  OK(cudaStreamEndCapture(stream, &graph));
  EXPECT(at[0] == 5);
  CUgraphNode node;
  operations[0].writeValue.value = 9;
  CUDA_BATCH_MEM_OP_NODE_PARAMS p{nullptr, 1, operations, 0};
  EXPECT(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &p) == CUDA_SUCCESS);
  operations[0].writeValue.address = address + 4;
  EXPECT(cuGraphBatchMemOpNodeSetParams(node, &p) == CUDA_SUCCESS);
  run(graph);
  EXPECT(at[0] == 77 && at[1] == 9);
  OK(cudaGraphDestroy(graph));
}

int ended = 0;
void objects() {
  cudaUserObject_t object;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaUserObjectCreate(&object, &ended, [](void* p) { ++*static_cast<int*>(p); }, 2, cudaUserObjectNoDestructorSync));
  OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  OK(cudaUserObjectRelease(object, 1));
  EXPECT(cudaUserObjectRelease(object, 1) != cudaSuccess);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  EXPECT(ended == 0);
  OK(cudaGraphExecDestroy(exec));
  EXPECT(ended == 1);
}

void events() {
  cudaGraph_t graph;
  cudaGraphNode_t node;
  cudaGraphExec_t exec;
  cudaEvent_t a, b, got;
  float ms = -1;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaEventCreate(&a));
  OK(cudaEventCreate(&b));
  OK(cudaGraphAddEventRecordNode(&node, graph, nullptr, 0, a));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphExecEventRecordNodeSetEvent(exec, node, b));
  OK(cudaEventRecord(a));
  OK(cudaGraphLaunch(exec, nullptr));
  OK(cudaEventElapsedTime(&ms, a, b));
  EXPECT(ms >= 0);
  OK(cudaGraphEventRecordNodeGetEvent(node, &got));
  EXPECT(got == a);
}

}  // namespace

int main() {
  int* memory = nullptr;
  OK(cudaMallocManaged(&memory, 256));
  loops(memory, memory + 1, memory + 2);
  switches(memory + 4, memory + 5);
  memory_operations(reinterpret_cast<unsigned*>(memory + 8));
  objects();
  events();
  std::printf("graph_parts: right\n");
}
