// Parts of graphs that few programs have: operations on memory, conditional nodes, user objects, changed events.
#include <cstring>

#include "driver/api.hpp"
#include "driver/state.hpp"

namespace kiln::driver {
namespace {

constexpr unsigned kIf = 0, kWhile = 1, kSwitch = 2;
constexpr unsigned kWait32 = 1, kWrite32 = 2, kFlush = 3, kWait64 = 4, kWrite64 = 5, kBarrier = 6;

std::uint64_t value_at(Driver& d, CUdeviceptr at, std::size_t bytes) {
  std::uint64_t found = 0;
  d.memory.read(at, {reinterpret_cast<std::byte*>(&found), bytes});
  return found;
}

/// All that could change the value has happened, or comes from another thread: a wait for what is not there would
/// hold everything up.
void wait_value(Driver& d, CUdeviceptr at, std::uint64_t value, std::size_t bytes, unsigned flags) {
  const std::uint64_t mask = bytes == 4 ? 0xffffffffu : ~std::uint64_t{0};
  const std::uint64_t found = value_at(d, at, bytes);
  const auto difference = bytes == 4 ? static_cast<std::int64_t>(static_cast<std::int32_t>(found - value))
                                     : static_cast<std::int64_t>(found - value);
  const unsigned how = flags & 3;
  const bool met = how == 0   ? difference >= 0
                   : how == 1 ? found == (value & mask)
                   : how == 2 ? (found & value) != 0
                              : (~(found | value) & mask) != 0;
  if (met) return;
  d.report.unsupported("cuStreamWaitValue",
                       "waiting for a value that later work writes: work runs as it is submitted");
  throw Failure{CUDA_ERROR_NOT_SUPPORTED};
}

/// References to a user object: `count` more, or fewer.
void add_references(std::map<UserObject*, HeldObject>& to, const std::shared_ptr<UserObject>& object,
                    unsigned count) {
  HeldObject& held = to[object.get()];
  held.object = object;
  held.count += count;
}
void drop_references(std::map<UserObject*, HeldObject>& from, CUuserObject object, unsigned count) {
  const auto it = from.find(object);
  require(it != from.end() && count > 0 && count <= it->second.count);
  if ((it->second.count -= count) == 0) from.erase(it);
}

template <class T>
T& work_of(Driver& d, CUgraphNode node) {
  T* const work = std::get_if<T>(&node_of(d, node).work);
  require(work != nullptr);
  return *work;
}

CUresult set_event(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams p{};
  p.type = type;
  p.event.event = event;
  return cuGraphExecNodeSetParams(exec, node, &p);
}

}  // namespace

MemOpsWork memory_operations(const CUDA_BATCH_MEM_OP_NODE_PARAMS& p) {
  require(p.paramArray != nullptr && p.count > 0 && p.count <= 256 && p.flags == 0);
  MemOpsWork work{{p.paramArray, p.paramArray + p.count}};
  for (const CUstreamBatchMemOpParams& o : work.operations) {
    require(o.operation >= kWait32 && o.operation <= kBarrier);
    if (o.operation != kFlush && o.operation != kBarrier)
      require(o.value.address % (o.operation >= kWait64 ? 8 : 4) == 0);
  }
  return work;
}

void run_memory_operations(Driver& d, const MemOpsWork& work) {
  for (const CUstreamBatchMemOpParams& o : work.operations) {
    const std::size_t bytes = o.operation == kWait64 || o.operation == kWrite64 ? 8 : 4;
    if (o.operation == kWait32 || o.operation == kWait64)
      wait_value(d, o.value.address, o.value.value, bytes, o.value.flags);
    else if (o.operation == kWrite32 || o.operation == kWrite64)
      d.memory.write(o.value.address, {reinterpret_cast<const std::byte*>(&o.value.value), bytes});
  }
}

ConditionalWork conditional_work(Driver& d, CUDA_CONDITIONAL_NODE_PARAMS& p) {
  require(d.conditionals.count(p.handle) != 0);
  require(p.type <= kSwitch && p.size >= 1 && p.size <= (p.type == kIf ? 2u : p.type == kWhile ? 1u : 1024u));
  ConditionalWork work{p.handle, p.type, {}};
  for (unsigned i = 0; i < p.size; ++i) work.bodies.push_back(d.graphs.make());
  // The array is the node's own, as long as the node is there.
  static std::map<CUgraphConditionalHandle, std::vector<CUgraph>> arrays;
  arrays[p.handle] = work.bodies;
  p.phGraph_out = arrays[p.handle].data();
  return work;
}

void own_bodies(Work& work) {
  auto* const conditional = std::get_if<ConditionalWork>(&work);
  if (conditional == nullptr) return;
  conditional->copies.clear();
  for (const Graph* body : conditional->bodies) {
    conditional->copies.push_back(clone(*body));
    for (const auto& node : conditional->copies.back()->nodes) own_bodies(node->work);
  }
}

void run_conditional(Driver& d, Stream& stream, const ConditionalWork& work) {
  const auto value = [&] { return static_cast<unsigned>(value_at(d, work.handle, 4)); };
  const auto body = [&](std::size_t i) {
    if (i < work.copies.size()) run_graph(d, stream, *work.copies[i]);
  };
  if (work.type == kSwitch) return body(value());
  if (work.type == kIf) return body(value() != 0 ? 0 : 1);
  while (value() != 0 && d.sticky == CUDA_SUCCESS) body(0);
}

}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                                        unsigned flags) {
  return on_device([&](Driver& d) {
    submit(d, stream, memory_operations({nullptr, count, operations, flags}));
  });
}
KILN_API CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* on,
                                           std::size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  params.memOp = *p;
  return cuGraphAddNode_v2(out, graph, on, nullptr, count, &params);
}
KILN_API CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  return on_device([&](Driver& d) {
    MemOpsWork& work = work_of<MemOpsWork>(d, node);
    *p = {context_stack().back(), static_cast<unsigned>(work.operations.size()), work.operations.data(), 0};
  });
}
KILN_API CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  return on_device([&](Driver& d) { work_of<MemOpsWork>(d, node) = memory_operations(*p); });
}
KILN_API CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                     const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  params.memOp = *p;
  return cuGraphExecNodeSetParams(exec, node, &params);
}

KILN_API CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph graph, CUcontext,
                                                 unsigned value, unsigned flags) {
  return on_device([&](Driver& d) {
    constexpr unsigned kAssignDefault = 1;
    require(out != nullptr && flags <= kAssignDefault && (flags != 0 || value == 0));
    Graph& g = d.graphs.get(graph);
    // Where the value is: kernels store there (cudaGraphSetConditional).
    *out = d.allocate(sizeof value, Block::Kind::managed);
    d.conditionals.insert(*out);
    if (flags == kAssignDefault) g.defaults[*out] = value;
  });
}

KILN_API CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned count,
                                     unsigned flags) {
  return on_device([&](Driver& d) {
    constexpr unsigned kNoDestructorSync = 1;
    require(out != nullptr && destroy != nullptr && count > 0 && flags == kNoDestructorSync);
    const auto object = std::make_shared<UserObject>(pointer, destroy);
    add_references(d.user_objects, object, count);
    *out = object.get();
  });
}
KILN_API CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  return guarded([&](Driver& d) {
    const auto it = d.user_objects.find(object);
    require(it != d.user_objects.end() && count > 0);
    it->second.count += count;
  });
}
KILN_API CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  return guarded([&](Driver& d) { drop_references(d.user_objects, object, count); });
}
KILN_API CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                          unsigned flags) {
  return guarded([&](Driver& d) {
    constexpr unsigned kMove = 1;
    const auto it = d.user_objects.find(object);
    require(it != d.user_objects.end() && count > 0 && flags <= kMove);
    require(flags != kMove || count <= it->second.count);
    add_references(d.graphs.get(graph).held, it->second.object, count);
    if (flags == kMove) drop_references(d.user_objects, object, count);
  });
}
KILN_API CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  return guarded([&](Driver& d) { drop_references(d.graphs.get(graph).held, object, count); });
}

KILN_API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  return on_device([&](Driver& d) { *out = work_of<RecordWork>(d, node).event; });
}
KILN_API CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return on_device([&](Driver& d) { work_of<RecordWork>(d, node).event = &d.events.get(event); });
}
KILN_API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return on_device([&](Driver& d) { *out = work_of<WaitWork>(d, node).event; });
}
KILN_API CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return on_device([&](Driver& d) { work_of<WaitWork>(d, node).event = &d.events.get(event); });
}
KILN_API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set_event(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
KILN_API CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set_event(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
