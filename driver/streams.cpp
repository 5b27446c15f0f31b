// Streams and events, stream-ordered memory, host functions, and the capture of streams into graphs.
#include <algorithm>
#include <cstring>
#include <set>

#include "driver/api.hpp"
#include "driver/state.hpp"

namespace kiln::driver {
namespace {

constexpr unsigned kNonBlocking = 1, kDisableTiming = 2;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

bool blocking_capture(const Driver& d) {
  const auto captures = [](const Stream& s) { return s.capture && (s.flags & kNonBlocking) == 0; };
  if (captures(d.per_thread_stream)) return true;
  return std::any_of(d.streams.begin(), d.streams.end(), [&](const auto& s) { return captures(*s.second); });
}

/// Whether every node of `part` is among the ancestors of `whole`, or in it.
bool joined(const std::vector<Node*>& part, const std::vector<Node*>& whole) {
  std::set<const Node*> seen;
  std::vector<const Node*> open(whole.begin(), whole.end());
  while (!open.empty()) {
    const Node* n = open.back();
    open.pop_back();
    if (seen.insert(n).second) open.insert(open.end(), n->dependencies.begin(), n->dependencies.end());
  }
  return std::all_of(part.begin(), part.end(), [&](const Node* n) { return seen.count(n) != 0; });
}

void record(Event& event, Stream& stream) {
  event.capture = stream.capture;
  event.frontier = stream.frontier;
  if (!stream.capture) event.time = std::chrono::steady_clock::now();
}

void wait(Driver& d, Stream& stream, Event& event) {
  if (!event.capture) return;  // what it recorded is over
  require(!event.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  require(&stream != &d.legacy_stream, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  require(!stream.capture || stream.capture == event.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  stream.capture = event.capture;
  for (Node* n : event.frontier)
    if (std::find(stream.frontier.begin(), stream.frontier.end(), n) == stream.frontier.end())
      stream.frontier.push_back(n);
}

void begin_capture(Driver& d, CUstream handle, Graph* graph, int mode) {
  Stream& stream = stream_of(d, handle);
  require(&stream != &d.legacy_stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  require(!stream.capture, CUDA_ERROR_ILLEGAL_STATE);
  auto capture = std::make_shared<Capture>();
  capture->id = d.next_id++;
  capture->mode = mode;
  capture->owns_graph = graph == nullptr;
  capture->graph = graph == nullptr ? d.graphs.make() : graph;
  capture->origin = &stream;
  stream.capture = std::move(capture);
  stream.frontier.clear();
}

void end_capture(Driver& d, CUstream handle, CUgraph* out) {
  Stream& origin = stream_of(d, handle);
  require(origin.capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  const auto capture = origin.capture;
  require(capture->origin == &origin, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  bool all_joined = true;
  const auto leave = [&](Stream& s) {
    if (s.capture != capture) return;
    all_joined &= joined(s.frontier, origin.frontier);
    if (&s == &origin) return;
    s.capture.reset();
    s.frontier.clear();
  };
  for (const auto& [key, stream] : d.streams) leave(*stream);
  leave(d.per_thread_stream);
  origin.capture.reset();
  origin.frontier.clear();
  for (const auto& [key, event] : d.events)
    if (event->capture == capture) event->capture.reset(), event->frontier.clear();
  const bool good = !capture->invalid && all_joined;
  if (out != nullptr) *out = good ? capture->graph : nullptr;
  if (!good && capture->owns_graph) d.graphs.take(capture->graph);
  require(!capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  require(all_joined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

void capture_info(Driver& d, CUstream handle, int* status, std::uint64_t* id, CUgraph* graph,
                  const CUgraphNode** dependencies, std::size_t* count) {
  // Asking the legacy stream while another captures would depend on that.
  Stream& s = stream_of(d, handle);
  require(&s != &d.legacy_stream || !blocking_capture(d), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  require(status != nullptr);
  *status = !s.capture ? 0 : s.capture->invalid ? 2 : 1;
  if (!s.capture) return;
  if (id != nullptr) *id = s.capture->id;
  if (graph != nullptr) *graph = s.capture->graph;
  if (dependencies != nullptr) *dependencies = s.frontier.data();
  if (count != nullptr) *count = s.frontier.size();
}

void update_dependencies(Driver& d, CUstream handle, CUgraphNode* nodes, std::size_t count,
                         unsigned replace) {
  Stream& s = stream_of(d, handle);
  require(s.capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  if (replace != 0) s.frontier.clear();
  s.frontier.insert(s.frontier.end(), nodes, nodes + count);
}

CUresult one_operation(CUstream stream, unsigned operation, CUdeviceptr at, std::uint64_t value,
                       unsigned flags) {
  return on_device([&](Driver& d) {
    CUstreamBatchMemOpParams one{};
    one.value = {operation, at, value, flags, 0};
    submit(d, stream, MemOpsWork{{one}});
  });
}

}  // namespace

void refuse_capture(Driver& d, Stream* stream) {
  const auto invalidate = [](Stream& s) {
    if (!s.capture) return false;
    s.capture->invalid = true;
    return true;
  };
  if (stream == nullptr) {
    bool any = invalidate(d.per_thread_stream);
    for (const auto& [key, s] : d.streams) any |= invalidate(*s);
    require(!any, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  } else if (stream == &d.legacy_stream) {
    require(!blocking_capture(d), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  } else {
    require(!invalidate(*stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
}

void submit(Driver& d, CUstream handle, Work work) {
  Stream& stream = stream_of(d, handle);
  if (!stream.capture) {
    if (&stream == &d.legacy_stream) require(!blocking_capture(d), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    run(d, stream, work);
    return;
  }
  require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  Node* const node =
      add_node(*stream.capture->graph, std::move(work), stream.frontier.data(), stream.frontier.size());
  node->key = d.next_id++;
  stream.frontier = {node};
}

void run(Driver& d, Stream& stream, const Work& work) {
  const bool after_release = std::exchange(stream.after_release, false);
  std::visit(
      Overloaded{[&](const KernelWork& w) { stream.after_release = run_kernel(d, w, after_release); },
                 [&](const CopyWork& w) { run_copy(d, w.copy); },
                 [&](const MemsetWork& w) { run_memset(d, w.set); },
                 [&](const HostWork& w) {
                   // It may wait for other threads that call the driver.
                   d.mutex.unlock();
                   w.host.fn(w.host.userData);
                   d.mutex.lock();
                 },
                 [&](const RecordWork& w) { record(d.events.get(w.event), stream); }, [&](const WaitWork&) {},
                 [&](const AllocWork& w) { d.allocate_again(w); },
                 [&](const FreeWork& w) {
                   if (w.address != 0) d.release(w.address);
                 },
                 [&](const ChildWork& w) { run_graph(d, stream, *w.graph); },
                 [&](const MemOpsWork& w) { run_memory_operations(d, w); },
                 [&](const ConditionalWork& w) { run_conditional(d, stream, w); }, [](const EmptyWork&) {}},
      work);
}

}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return on_device([&](Driver& d) {
    require(out != nullptr && flags <= kNonBlocking);
    *out = d.streams.make();
    (*out)->id = d.next_id++;
    (*out)->flags = flags;
    (*out)->priority = std::clamp(priority, -5, 0);
  });
}
KILN_API CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}
KILN_API CUresult cuStreamDestroy_v2(CUstream handle) {
  return guarded([&](Driver& d) {
    if (d.streams.get(handle).capture) d.streams.get(handle).capture->invalid = true;
    d.streams.take(handle);
  });
}
KILN_API CUresult cuStreamSynchronize(CUstream handle) {
  return on_device([&](Driver& d) { refuse_capture(d, &stream_of(d, handle)); });
}
KILN_API CUresult cuStreamQuery(CUstream handle) {
  return cuStreamSynchronize(handle);
}
KILN_API CUresult cuStreamGetFlags(CUstream handle, unsigned* out) {
  return on_device([&](Driver& d) { *out = stream_of(d, handle).flags; });
}
KILN_API CUresult cuStreamGetPriority(CUstream handle, int* out) {
  return on_device([&](Driver& d) { *out = stream_of(d, handle).priority; });
}
KILN_API CUresult cuStreamGetId(CUstream handle, unsigned long long* out) {
  return on_device([&](Driver& d) { *out = stream_of(d, handle).id; });
}
KILN_API CUresult cuStreamGetDevice(CUstream handle, CUdevice* out) {
  return on_device([&](Driver& d) {
    stream_of(d, handle);
    *out = 0;
  });
}
KILN_API CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  return on_device([&](Driver& d) {
    stream_of(d, handle);
    *out = context_stack().back();
  });
}
KILN_API CUresult cuStreamGetAttribute(CUstream handle, int, void* value) {
  return on_device([&](Driver& d) { std::memcpy(value, stream_of(d, handle).attribute, 64); });
}
KILN_API CUresult cuStreamSetAttribute(CUstream handle, int, const void* value) {
  return on_device([&](Driver& d) { std::memcpy(stream_of(d, handle).attribute, value, 64); });
}
KILN_API CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  return on_device(
      [&](Driver& d) { std::memcpy(stream_of(d, to).attribute, stream_of(d, from).attribute, 64); });
}
KILN_API CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr, std::size_t, unsigned) {
  return on_device([&](Driver& d) { stream_of(d, handle); });
}
KILN_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  return on_device([&](Driver& d) { wait(d, stream_of(d, handle), d.events.get(event)); });
}
KILN_API CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void* data) {
  return on_device([&](Driver& d) {
    require(fn != nullptr);
    submit(d, handle, HostWork{{fn, data}});
  });
}
KILN_API CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback fn, void* data, unsigned) {
  return on_device([&](Driver& d) {
    require(fn != nullptr);
    refuse_capture(d, &stream_of(d, handle));
    d.mutex.unlock();
    fn(handle, CUDA_SUCCESS, data);
    d.mutex.lock();
  });
}

KILN_API CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return on_device([&](Driver& d) {
    require(out != nullptr && flags < 8);
    *out = d.events.make();
    (*out)->flags = flags;
  });
}
KILN_API CUresult cuEventDestroy_v2(CUevent handle) {
  return guarded([&](Driver& d) { d.events.take(handle); });
}
KILN_API CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags) {
  return on_device([&](Driver& d) {
    Event& event = d.events.get(handle);
    Stream& s = stream_of(d, stream);
    if (s.capture && (flags & 1) != 0)
      submit(d, stream, RecordWork{&event});
    else
      record(event, s);
  });
}
KILN_API CUresult cuEventRecord(CUevent handle, CUstream stream) {
  return cuEventRecordWithFlags(handle, stream, 0);
}
KILN_API CUresult cuEventQuery(CUevent handle) {
  return on_device([&](Driver& d) { require(!d.events.get(handle).capture, CUDA_ERROR_CAPTURED_EVENT); });
}
KILN_API CUresult cuEventSynchronize(CUevent handle) {
  return cuEventQuery(handle);
}
KILN_API CUresult cuEventElapsedTime_v2(float* ms, CUevent start, CUevent end) {
  return on_device([&](Driver& d) {
    const Event &a = d.events.get(start), &b = d.events.get(end);
    require(ms != nullptr);
    require(a.time && b.time && ((a.flags | b.flags) & kDisableTiming) == 0, CUDA_ERROR_INVALID_HANDLE);
    *ms = std::chrono::duration<float, std::milli>(*b.time - *a.time).count();
  });
}
KILN_API CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(ms, start, end);
}

KILN_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool,
                                          CUstream stream) {
  return on_device([&](Driver& d) {
    require(out != nullptr);
    if (pool != &d.default_pool) d.pools.get(pool);
    Stream& s = stream_of(d, stream);
    *out = s.capture ? d.allocate_for_graph(bytes) : d.allocate(bytes, Block::Kind::device);
    d.blocks.at(*out).pool = pool;
    if (s.capture) submit(d, stream, AllocWork{*out, bytes});
  });
}
KILN_API CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  return cuMemAllocFromPoolAsync(out, bytes, driver().current_pool, stream);
}
KILN_API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
  return on_device([&](Driver& d) {
    if (p == 0) return;
    require(d.blocks.count(p) != 0);
    submit(d, stream, FreeWork{p});
  });
}

KILN_API CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr to, std::uint32_t value, unsigned flags) {
  return one_operation(s, 2, to, value, flags);
}
KILN_API CUresult cuStreamWriteValue64_v2(CUstream s, CUdeviceptr to, std::uint64_t value, unsigned flags) {
  return one_operation(s, 5, to, value, flags);
}
KILN_API CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr at, std::uint32_t value, unsigned flags) {
  return one_operation(s, 1, at, value, flags);
}
KILN_API CUresult cuStreamWaitValue64_v2(CUstream s, CUdeviceptr at, std::uint64_t value, unsigned flags) {
  return one_operation(s, 4, at, value, flags);
}

KILN_API CUresult cuStreamBeginCapture_v2(CUstream s, int mode) {
  return on_device([&](Driver& d) { begin_capture(d, s, nullptr, mode); });
}
KILN_API CUresult cuStreamBeginCaptureToGraph(CUstream s, CUgraph graph, const CUgraphNode* nodes,
                                              const CUgraphEdgeData*, std::size_t count, int mode) {
  return on_device([&](Driver& d) {
    d.graphs.get(graph);
    begin_capture(d, s, graph, mode);
    stream_of(d, s).frontier.assign(nodes, nodes + count);
  });
}
KILN_API CUresult cuStreamEndCapture(CUstream s, CUgraph* out) {
  return on_device([&](Driver& d) { end_capture(d, s, out); });
}
KILN_API CUresult cuStreamIsCapturing(CUstream s, int* status) {
  return on_device([&](Driver& d) { capture_info(d, s, status, nullptr, nullptr, nullptr, nullptr); });
}
KILN_API CUresult cuStreamGetCaptureInfo_v2(CUstream s, int* status, std::uint64_t* id, CUgraph* graph,
                                            const CUgraphNode** nodes, std::size_t* count) {
  return on_device([&](Driver& d) { capture_info(d, s, status, id, graph, nodes, count); });
}
KILN_API CUresult cuStreamGetCaptureInfo_v3(CUstream s, int* status, std::uint64_t* id, CUgraph* graph,
                                            const CUgraphNode** nodes, const CUgraphEdgeData** edges,
                                            std::size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(s, status, id, graph, nodes, count);
}
KILN_API CUresult cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode* nodes, std::size_t count,
                                                    unsigned flags) {
  return on_device([&](Driver& d) { update_dependencies(d, s, nodes, count, flags); });
}
KILN_API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream s, CUgraphNode* nodes, const CUgraphEdgeData*,
                                                       std::size_t count, unsigned flags) {
  return on_device([&](Driver& d) { update_dependencies(d, s, nodes, count, flags); });
}
KILN_API CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int current = 0;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}
