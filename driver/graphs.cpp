// Graphs: nodes and dependencies, instantiation, launches.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "driver/api.hpp"
#include "driver/state.hpp"

namespace kiln::driver {
namespace {

CUgraphNodeType type_of(const Work& work) {
  static constexpr CUgraphNodeType kTypes[] = {
      CU_GRAPH_NODE_TYPE_EMPTY,      CU_GRAPH_NODE_TYPE_KERNEL,       CU_GRAPH_NODE_TYPE_MEMCPY,
      CU_GRAPH_NODE_TYPE_MEMSET,     CU_GRAPH_NODE_TYPE_HOST,         CU_GRAPH_NODE_TYPE_EVENT_RECORD,
      CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_MEM_ALLOC,    CU_GRAPH_NODE_TYPE_MEM_FREE,
      CU_GRAPH_NODE_TYPE_GRAPH,      CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_CONDITIONAL};
  return kTypes[work.index()];
}

template <class T>
T& work_of(Node& node) {
  T* const work = std::get_if<T>(&node.work);
  require(work != nullptr);
  return *work;
}

Exec make_exec(const Graph& graph, std::uint64_t flags) {
  Exec exec;
  exec.flags = flags;
  exec.held = graph.held;
  exec.defaults = graph.defaults;
  for (const Node* n : in_order(graph)) {
    exec.steps.push_back({n->key, n->work, true});
    own_bodies(exec.steps.back().work);
  }
  return exec;
}

Exec::Step& step_of(Driver& d, CUgraphExec exec, CUgraphNode node) {
  const std::uint64_t key = node_of(d, node).key;
  for (Exec::Step& s : d.execs.get(exec).steps)
    if (s.key == key) return s;
  throw Failure{CUDA_ERROR_INVALID_VALUE};
}

CUresult set_step(CUgraphExec exec, CUgraphNode node, const auto& make) {
  return on_device([&](Driver& d) {
    Exec::Step& step = step_of(d, exec, node);
    Work work = make(d);
    require(work.index() == step.work.index());
    step.work = std::move(work);
  });
}

CUresult add(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
             const auto& make) {
  return on_device([&](Driver& d) {
    require(out != nullptr);
    Graph& g = d.graphs.get(graph);
    *out = add_node(g, make(d), dependencies, count);
    (*out)->key = d.next_id++;
  });
}

KernelWork from_params(Driver& d, const CUDA_KERNEL_NODE_PARAMS& p) {
  const CUlaunchConfig config{p.gridDimX,  p.gridDimY,       p.gridDimZ, p.blockDimX, p.blockDimY,
                              p.blockDimZ, p.sharedMemBytes, nullptr,    nullptr,     0};
  return kernel_work(d, config, p.func != nullptr ? p.func : p.kern, p.kernelParams, p.extra);
}

CUDA_KERNEL_NODE_PARAMS to_params(Node& node) {
  KernelWork& w = work_of<KernelWork>(node);
  node.pointers.clear();
  for (auto& arg : w.args) node.pointers.push_back(arg.data());
  return {w.function,           w.grid.x, w.grid.y, w.grid.z, w.block.x, w.block.y, w.block.z, w.shared_bytes,
          node.pointers.data(), nullptr,  nullptr,  nullptr};
}

/// The number of nodes in `count`, or as many of them as fit.
void list(const std::vector<Node*>& nodes, CUgraphNode* out, std::size_t* count) {
  require(count != nullptr);
  if (out != nullptr) {
    const std::size_t n = std::min(*count, nodes.size());
    std::copy_n(nodes.begin(), n, out);
    std::fill(out + n, out + *count, nullptr);
    *count = n;
  } else {
    *count = nodes.size();
  }
}

AllocWork allocate(Driver& d, CUDA_MEM_ALLOC_NODE_PARAMS& p) {
  require(p.bytesize != 0);
  p.dptr = d.allocate_for_graph(p.bytesize);
  return {p.dptr, p.bytesize};
}

Work from_node_params(Driver& d, CUgraphNodeParams& p) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return from_params(d, p.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return CopyWork{p.memcpy.copyParams};
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return MemsetWork{p.memset};
    case CU_GRAPH_NODE_TYPE_HOST:
      return HostWork{p.host};
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return ChildWork{clone(d.graphs.get(p.graph.graph))};
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return EmptyWork{};
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return WaitWork{&d.events.get(p.event.event)};
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return RecordWork{&d.events.get(p.event.event)};
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return allocate(d, p.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return FreeWork{p.free.dptr};
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return memory_operations(p.memOp);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return conditional_work(d, p.conditional);
  }
  d.report.unsupported("cuGraphAddNode", "nodes of type " + std::to_string(p.type));
  throw Failure{CUDA_ERROR_NOT_SUPPORTED};
}

}  // namespace

Node& node_of(Driver& d, CUgraphNode handle) {
  const auto holds = [&](const Graph& g) {
    return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const auto& n) { return n.get() == handle; });
  };
  for (const auto& [key, graph] : d.graphs)
    if (holds(*graph)) return *handle;
  throw Failure{CUDA_ERROR_INVALID_VALUE};
}

std::unique_ptr<Graph> clone(const Graph& from) {
  auto to = std::make_unique<Graph>();
  to->held = from.held;
  to->defaults = from.defaults;
  std::map<const Node*, Node*> twin;
  for (const auto& n : from.nodes) {
    auto copy = std::make_unique<Node>(*n);
    copy->graph = to.get();
    copy->pointers.clear();
    twin[n.get()] = copy.get();
    to->nodes.push_back(std::move(copy));
  }
  for (const auto& n : to->nodes)
    for (Node*& dependency : n->dependencies) dependency = twin.at(dependency);
  return to;
}

Node* add_node(Graph& graph, Work work, const CUgraphNode* dependencies, std::size_t count) {
  require(dependencies != nullptr || count == 0);
  auto node = std::make_unique<Node>();
  node->graph = &graph;
  node->work = std::move(work);
  for (std::size_t i = 0; i < count; ++i) {
    require(std::any_of(graph.nodes.begin(), graph.nodes.end(),
                        [&](const auto& n) { return n.get() == dependencies[i]; }));
    node->dependencies.push_back(dependencies[i]);
  }
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().get();
}

std::vector<const Node*> in_order(const Graph& graph) {
  std::vector<const Node*> order;
  std::set<const Node*> done;
  while (order.size() < graph.nodes.size()) {
    const std::size_t before = order.size();
    for (const auto& n : graph.nodes) {
      if (done.count(n.get()) != 0 || !std::all_of(n->dependencies.begin(), n->dependencies.end(),
                                                   [&](const Node* on) { return done.count(on) != 0; }))
        continue;
      done.insert(n.get());
      order.push_back(n.get());
    }
    require(order.size() > before);  // a cycle
  }
  return order;
}

void run_graph(Driver& d, Stream& stream, const Graph& graph) {
  for (const Node* n : in_order(graph)) run(d, stream, n->work);
}

}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  return on_device([&](Driver& d) {
    require(out != nullptr && flags == 0);
    *out = d.graphs.make();
  });
}
KILN_API CUresult cuGraphDestroy(CUgraph graph) {
  return guarded([&](Driver& d) { d.graphs.take(graph); });
}
KILN_API CUresult cuGraphClone(CUgraph* out, CUgraph from) {
  return on_device([&](Driver& d) {
    auto copy = clone(d.graphs.get(from));
    *out = d.graphs.make(std::move(*copy));
    for (const auto& n : (*out)->nodes) n->graph = *out;
  });
}
KILN_API CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph graph) {
  return on_device([&](Driver& d) {
    const std::uint64_t key = node_of(d, original).key;
    const auto& nodes = d.graphs.get(graph).nodes;
    const auto it = std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n->key == key; });
    require(it != nodes.end());
    *out = it->get();
  });
}

KILN_API CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                          const CUDA_KERNEL_NODE_PARAMS* p) {
  return add(out, g, on, n, [&](Driver& d) -> Work { return from_params(d, *p); });
}
KILN_API CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                       const CUDA_MEMCPY3D* p, CUcontext) {
  return add(out, g, on, n, [&](Driver&) -> Work { return CopyWork{*p}; });
}
KILN_API CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                       const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  return add(out, g, on, n, [&](Driver&) -> Work { return MemsetWork{*p}; });
}
KILN_API CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                     const CUDA_HOST_NODE_PARAMS* p) {
  return add(out, g, on, n, [&](Driver&) -> Work { return HostWork{*p}; });
}
KILN_API CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                           CUgraph child) {
  return add(out, g, on, n, [&](Driver& d) -> Work { return ChildWork{clone(d.graphs.get(child))}; });
}
KILN_API CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n) {
  return add(out, g, on, n, [&](Driver&) -> Work { return EmptyWork{}; });
}
KILN_API CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                            CUevent e) {
  return add(out, g, on, n, [&](Driver& d) -> Work { return RecordWork{&d.events.get(e)}; });
}
KILN_API CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                          CUevent e) {
  return add(out, g, on, n, [&](Driver& d) -> Work { return WaitWork{&d.events.get(e)}; });
}
KILN_API CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                         CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  return add(out, g, on, n, [&](Driver& d) -> Work { return allocate(d, *p); });
}
KILN_API CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                        CUdeviceptr p) {
  return add(out, g, on, n, [&](Driver&) -> Work { return FreeWork{p}; });
}
KILN_API CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* on,
                                    const CUgraphEdgeData*, std::size_t n, CUgraphNodeParams* p) {
  return add(out, g, on, n, [&](Driver& d) -> Work { return from_node_params(d, *p); });
}
KILN_API CUresult cuGraphAddNode(CUgraphNode* out, CUgraph g, const CUgraphNode* on, std::size_t n,
                                 CUgraphNodeParams* p) {
  return cuGraphAddNode_v2(out, g, on, nullptr, n, p);
}

KILN_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p) {
  return on_device([&](Driver& d) { *p = to_params(node_of(d, node)); });
}
KILN_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
  return on_device([&](Driver& d) { work_of<KernelWork>(node_of(d, node)) = from_params(d, *p); });
}
KILN_API CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, unsigned id, const void* value) {
  return on_device([&](Driver& d) {
    KernelWork& w = work_of<KernelWork>(node_of(d, node));
    CUlaunchAttribute a{};
    std::memcpy(&a.value, value, sizeof a.value);
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) w.cooperative = a.value.flag != 0;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      w.cluster = {a.value.dim[0], a.value.dim[1], a.value.dim[2]};
  });
}
KILN_API CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, unsigned id, void* value) {
  return on_device([&](Driver& d) {
    const KernelWork& w = work_of<KernelWork>(node_of(d, node));
    CUlaunchAttribute a{};
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) a.value.flag = w.cooperative ? 1 : 0;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      a.value.dim[0] = w.cluster.x;
      a.value.dim[1] = w.cluster.y;
      a.value.dim[2] = w.cluster.z;
    }
    std::memcpy(value, &a.value, sizeof a.value);
  });
}
KILN_API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return on_device([&](Driver& d) {
    const KernelWork& w = work_of<KernelWork>(node_of(d, from));
    work_of<KernelWork>(node_of(d, to)).cooperative = w.cooperative;
    work_of<KernelWork>(node_of(d, to)).cluster = w.cluster;
  });
}
KILN_API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* p) {
  return on_device([&](Driver& d) { *p = work_of<CopyWork>(node_of(d, node)).copy; });
}
KILN_API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* p) {
  return on_device([&](Driver& d) { work_of<CopyWork>(node_of(d, node)).copy = *p; });
}
KILN_API CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* p) {
  return on_device([&](Driver& d) { *p = work_of<MemsetWork>(node_of(d, node)).set; });
}
KILN_API CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p) {
  return on_device([&](Driver& d) { work_of<MemsetWork>(node_of(d, node)).set = *p; });
}
KILN_API CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* p) {
  return on_device([&](Driver& d) { *p = work_of<HostWork>(node_of(d, node)).host; });
}
KILN_API CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
  return on_device([&](Driver& d) { work_of<HostWork>(node_of(d, node)).host = *p; });
}
KILN_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
  return on_device([&](Driver& d) { *out = work_of<ChildWork>(node_of(d, node)).graph.get(); });
}
KILN_API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* out) {
  return on_device([&](Driver& d) { *out = work_of<FreeWork>(node_of(d, node)).address; });
}
KILN_API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  return on_device([&](Driver& d) {
    const AllocWork& w = work_of<AllocWork>(node_of(d, node));
    *p = {};
    p->dptr = w.address;
    p->bytesize = w.bytes;
  });
}
KILN_API CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* p) {
  return on_device([&](Driver& d) {
    Node& n = node_of(d, node);
    require(type_of(n.work) == p->type);
    n.work = from_node_params(d, *p);
  });
}

KILN_API CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* out) {
  return on_device([&](Driver& d) { *out = type_of(node_of(d, node).work); });
}
KILN_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* out, std::size_t* count) {
  return on_device([&](Driver& d) {
    std::vector<Node*> nodes;
    for (const auto& n : d.graphs.get(graph).nodes) nodes.push_back(n.get());
    list(nodes, out, count);
  });
}
KILN_API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* out, std::size_t* count) {
  return on_device([&](Driver& d) {
    std::vector<Node*> nodes;
    for (const auto& n : d.graphs.get(graph).nodes)
      if (n->dependencies.empty()) nodes.push_back(n.get());
    list(nodes, out, count);
  });
}
KILN_API CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                     std::size_t* count) {
  return on_device([&](Driver& d) {
    std::vector<Node*> sources, targets;
    for (const auto& n : d.graphs.get(graph).nodes)
      for (Node* dependency : n->dependencies) {
        sources.push_back(dependency);
        targets.push_back(n.get());
      }
    std::size_t same = *count;
    list(sources, from, count);
    if (to != nullptr) list(targets, to, &same);
    if (data != nullptr) std::memset(data, 0, *count * sizeof *data);
  });
}
KILN_API CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}
KILN_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                                std::size_t* count) {
  return on_device([&](Driver& d) {
    list(node_of(d, node).dependencies, out, count);
    if (data != nullptr) std::memset(data, 0, *count * sizeof *data);
  });
}
KILN_API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, std::size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, out, nullptr, count);
}
KILN_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                                  std::size_t* count) {
  return on_device([&](Driver& d) {
    std::vector<Node*> nodes;
    for (const auto& n : node_of(d, node).graph->nodes)
      if (std::count(n->dependencies.begin(), n->dependencies.end(), node) != 0) nodes.push_back(n.get());
    list(nodes, out, count);
    if (data != nullptr) std::memset(data, 0, *count * sizeof *data);
  });
}
KILN_API CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, std::size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, out, nullptr, count);
}
KILN_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                            const CUgraphEdgeData*, std::size_t count) {
  return on_device([&](Driver& d) {
    d.graphs.get(graph);
    for (std::size_t i = 0; i < count; ++i) node_of(d, to[i]).dependencies.push_back(&node_of(d, from[i]));
  });
}
KILN_API CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                         std::size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}
KILN_API CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                               const CUgraphEdgeData*, std::size_t count) {
  return on_device([&](Driver& d) {
    d.graphs.get(graph);
    for (std::size_t i = 0; i < count; ++i) std::erase(node_of(d, to[i]).dependencies, from[i]);
  });
}
KILN_API CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                            std::size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}
KILN_API CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return on_device([&](Driver& d) {
    Graph& graph = *node_of(d, handle).graph;
    for (const auto& n : graph.nodes) std::erase(n->dependencies, handle);
    std::erase_if(graph.nodes, [&](const auto& n) { return n.get() == handle; });
  });
}

KILN_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return on_device([&](Driver& d) {
    require(out != nullptr);
    *out = d.execs.make(make_exec(d.graphs.get(graph), flags));
  });
}
KILN_API CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error, char* log,
                                        std::size_t bytes) {
  if (error != nullptr) *error = nullptr;
  if (log != nullptr && bytes > 0) *log = '\0';
  return cuGraphInstantiateWithFlags(out, graph, 0);
}
KILN_API CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                               CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  p->hErrNode_out = nullptr;
  p->result_out = 0;
  return cuGraphInstantiateWithFlags(out, graph, p->flags);
}
KILN_API CUresult cuGraphExecGetFlags(CUgraphExec exec, std::uint64_t* out) {
  return on_device([&](Driver& d) { *out = d.execs.get(exec).flags; });
}
KILN_API CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return guarded([&](Driver& d) { d.execs.take(exec); });
}
KILN_API CUresult cuGraphUpload(CUgraphExec exec, CUstream) {
  return on_device([&](Driver& d) { d.execs.get(exec); });
}
KILN_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return on_device([&](Driver& d) {
    // A copy: a host node may change or destroy the executable.
    const std::vector<Exec::Step> steps = d.execs.get(exec).steps;
    for (const auto& [handle, value] : d.execs.get(exec).defaults)
      d.memory.write(handle, {reinterpret_cast<const std::byte*>(&value), sizeof value});
    Stream& s = stream_of(d, stream);
    for (const Exec::Step& step : steps) {
      if (!step.enabled) continue;
      if (s.capture)
        submit(d, stream, step.work);
      else
        run(d, s, step.work);
      if (d.sticky != CUDA_SUCCESS) return;
    }
  });
}
KILN_API CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  return on_device([&](Driver& d) {
    Exec& e = d.execs.get(exec);
    Exec fresh = make_exec(d.graphs.get(graph), e.flags);
    const bool same =
        e.steps.size() == fresh.steps.size() &&
        std::equal(e.steps.begin(), e.steps.end(), fresh.steps.begin(),
                   [](const auto& a, const auto& b) { return a.work.index() == b.work.index(); });
    constexpr int kTopologyChanged = 2;
    if (info != nullptr) *info = {same ? 0 : kTopologyChanged, nullptr, nullptr};
    require(same, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    // Handles of the first graph's nodes stay good for changes.
    for (std::size_t i = 0; i < fresh.steps.size(); ++i) e.steps[i].work = std::move(fresh.steps[i].work);
  });
}
KILN_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode n,
                                                    const CUDA_KERNEL_NODE_PARAMS* p) {
  return set_step(e, n, [&](Driver& d) -> Work { return from_params(d, *p); });
}
KILN_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_MEMCPY3D* p,
                                                 CUcontext) {
  return set_step(e, n, [&](Driver&) -> Work { return CopyWork{*p}; });
}
KILN_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec e, CUgraphNode n,
                                                 const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  return set_step(e, n, [&](Driver&) -> Work { return MemsetWork{*p}; });
}
KILN_API CUresult cuGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_HOST_NODE_PARAMS* p) {
  return set_step(e, n, [&](Driver&) -> Work { return HostWork{*p}; });
}
KILN_API CUresult cuGraphExecNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraphNodeParams* p) {
  return set_step(e, n, [&](Driver& d) -> Work { return from_node_params(d, *p); });
}
KILN_API CUresult cuGraphNodeSetEnabled(CUgraphExec e, CUgraphNode n, unsigned enabled) {
  return on_device([&](Driver& d) { step_of(d, e, n).enabled = enabled != 0; });
}
KILN_API CUresult cuGraphNodeGetEnabled(CUgraphExec e, CUgraphNode n, unsigned* out) {
  return on_device([&](Driver& d) { *out = step_of(d, e, n).enabled ? 1 : 0; });
}
