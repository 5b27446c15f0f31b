// What the stand-in for the driver holds: one GPU, its memory, and everything that programs have handles to.
// Work is done when it is submitted, on the thread that submits it: the order of every stream is kept, and nothing is
// ever pending.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include <kiln/emulator/textures.hpp>
#include "driver/abi.hpp"
#include "driver/change.hpp"
#include "driver/gpus.hpp"
#include "driver/report.hpp"
#include "emulator/machine/module.hpp"

namespace kiln::driver {

namespace em = kiln::emulator;

/// Ends an entry point with its result.
struct Failure {
  CUresult code;
};
inline void require(bool ok, CUresult code = CUDA_ERROR_INVALID_VALUE) {
  if (!ok) throw Failure{code};
}

struct Options {
  Gpu gpu{};
  em::Policy policy = em::Policy::eager;
  std::uint64_t seed = 0, budget = std::uint64_t{1} << 40;
  bool findings = true;
  int threads = 0;
  bool tell_launches = false;   ///< the report has every kernel that is launched, and its module
  bool end_at_finding = false;  ///< the first finding but a note ends the process
  Change change{};
};

struct Context {
  bool primary = false;
  unsigned flags = 0;
  std::uint64_t id = 0;
};

struct Pool {
  std::uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};
};

/// One allocation of the device's memory. All of it is memory of the process at the same address.
struct Block {
  enum class Kind : std::uint8_t { device, managed, pinned, registered };
  std::size_t bytes = 0;
  Kind kind = Kind::device;
  unsigned flags = 0;
  std::uint64_t id = 0;
  void* host = nullptr;  ///< registered: the program's own memory, copied before and after each launch
  Pool* pool = nullptr;
};

/// A CUDA array: texels in rows of the device's memory.
struct Array {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  em::ImageLevel level;
  Mipmaps* chain = nullptr;  ///< of which it is a level
};
struct Mipmaps {
  std::vector<std::unique_ptr<Array>> levels;
};
/// What a texture or surface object was made of.
struct TextureObject {
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
};

/// PTX that is being linked (cuLinkCreate).
struct Link {
  std::vector<std::string> texts;
  std::string linked;
  std::vector<int> options;
  std::vector<void*> values;
};

/// Memory without an address (cuMemCreate). What it holds is kept here while it is mapped nowhere.
struct Physical {
  CUmemAllocationProp properties{};
  std::size_t bytes = 0;
  int uses = 1;
  CUdeviceptr mapped = 0;
  std::vector<std::uint8_t> data, shadow;
};
/// Addresses without memory (cuMemAddressReserve).
struct Mapping {
  CUmemGenericAllocationHandle handle = 0;
  std::size_t bytes = 0;
  unsigned access = 0;
};

/// cuMulticastCreate: what is bound, by offset in the object. A `handle` with an offset into it, or an address.
struct MulticastObject {
  struct Binding {
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
  };
  std::size_t bytes = 0;
  int uses = 1, devices = 0;
  std::map<std::size_t, Binding> bound;
};
/// Addresses that a multicast object has.
struct MulticastView {
  CUmemGenericAllocationHandle handle = 0;
  std::size_t bytes = 0, offset = 0;
  unsigned access = 0;
};

struct Function {
  Module* module = nullptr;
  std::string name;
  int max_dynamic = 0;  ///< bytes of dynamic shared memory that were allowed
  int carveout = -1, non_portable_cluster = 0;
};

struct Module {
  em::Module code;
  std::string text, name;
  std::uint64_t id = 0;
  std::map<std::string, std::unique_ptr<Function>, std::less<>> functions;
};

struct KernelWork {
  Function* function = nullptr;
  em::Dim3 grid, block, cluster;
  std::uint32_t shared_bytes = 0;
  bool cooperative = false, programmatic = false;
  std::vector<std::vector<std::byte>> args;
};
struct CopyWork {
  CUDA_MEMCPY3D copy{};
};
struct MemsetWork {
  CUDA_MEMSET_NODE_PARAMS set{};
};
struct HostWork {
  CUDA_HOST_NODE_PARAMS host{};
};
struct RecordWork {
  Event* event = nullptr;
};
struct WaitWork {
  Event* event = nullptr;
};
struct FreeWork {
  CUdeviceptr address = 0;
};
/// Memory that a graph owns: it has its address when the node is made.
struct AllocWork {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
};
struct ChildWork {
  std::shared_ptr<Graph> graph;
};
/// Writes of values, and waits for them, in order.
struct MemOpsWork {
  std::vector<CUstreamBatchMemOpParams> operations;
};
/// Graphs that run as often as the value at the handle says: a kernel writes it there.
struct ConditionalWork {
  CUgraphConditionalHandle handle = 0;
  unsigned type = 0;
  std::vector<Graph*> bodies;                    ///< the program's, to be filled
  std::vector<std::shared_ptr<Graph>> copies{};  ///< an executable's own
};
struct EmptyWork {};
using Work = std::variant<EmptyWork, KernelWork, CopyWork, MemsetWork, HostWork, RecordWork, WaitWork,
                          AllocWork, FreeWork, ChildWork, MemOpsWork, ConditionalWork>;

/// What a program hands over with a function that destroys it. Graphs and executables share it.
struct UserObject {
  UserObject(void* object, CUhostFn end) : pointer(object), destroy(end) {}
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;
  ~UserObject() { destroy(pointer); }
  void* pointer;
  CUhostFn destroy;
};
struct HeldObject {
  std::shared_ptr<UserObject> object;
  unsigned count = 0;
};

struct Node {
  Graph* graph = nullptr;
  Work work;
  std::vector<Node*> dependencies;
  std::uint64_t key = 0;        ///< the same in clones and executables of the graph
  std::vector<void*> pointers;  ///< to the arguments, for cuGraphKernelNodeGetParams
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::map<UserObject*, HeldObject> held;
  std::map<CUgraphConditionalHandle, unsigned> defaults;  ///< what handles are set to before each launch
};

/// An instantiated graph: its work in an order that respects the dependencies.
struct Exec {
  struct Step {
    std::uint64_t key = 0;
    Work work;
    bool enabled = true;
  };
  std::vector<Step> steps;
  std::map<UserObject*, HeldObject> held;
  std::map<CUgraphConditionalHandle, unsigned> defaults;
  std::uint64_t flags = 0;
};

/// A capture in progress, shared by the streams that take part.
struct Capture {
  std::uint64_t id = 0;
  int mode = 0;
  Graph* graph = nullptr;  ///< owned until the capture ends, or the program's
  bool owns_graph = true, invalid = false;
  Stream* origin = nullptr;
};

struct Stream {
  std::uint64_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  bool after_release =
      false;  ///< the last thing it did was a launch that let the next one begin before its end
  std::shared_ptr<Capture> capture;
  std::vector<Node*> frontier;  ///< what the next captured node depends on
  char attribute[64] = {};
};

struct Event {
  unsigned flags = 0;
  std::optional<std::chrono::steady_clock::time_point> time;
  std::shared_ptr<Capture> capture;
  std::vector<Node*> frontier;
};

/// The live objects of one type. Handles that are none of them are refused, not followed.
template <class T>
class Objects {
 public:
  template <class... A>
  T* make(A&&... a) {
    auto object = std::make_unique<T>(std::forward<A>(a)...);
    T* const handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  bool has(const T* handle) const { return objects_.find(handle) != objects_.end(); }
  T& get(T* handle) const {
    require(has(handle), CUDA_ERROR_INVALID_HANDLE);
    return *handle;
  }
  std::unique_ptr<T> take(T* handle) {
    get(handle);
    return std::move(objects_.extract(handle).mapped());
  }
  void clear() { objects_.clear(); }
  auto begin() const { return objects_.begin(); }
  auto end() const { return objects_.end(); }

 private:
  std::unordered_map<const T*, std::unique_ptr<T>> objects_;
};

struct Driver {
  Driver();

  std::mutex mutex;
  Options options;
  Report report;
  em::GlobalMemory memory;
  bool initialised = false;
  CUresult sticky = CUDA_SUCCESS;  ///< of a kernel that failed: every later call returns it
  std::uint64_t next_id = 1;

  Context primary;
  int primary_uses = 0;
  Pool default_pool;
  Pool* current_pool = &default_pool;
  Stream legacy_stream, per_thread_stream;
  std::size_t limits[10] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0, 0, 0};

  std::map<CUdeviceptr, Block> blocks;
  std::map<const void*, CUdeviceptr> registered;
  Objects<Context> contexts;
  Objects<Pool> pools;
  Objects<Stream> streams;
  Objects<Event> events;
  Objects<Module> modules;
  Objects<Graph> graphs;
  Objects<Exec> execs;
  Objects<Array> arrays;
  Objects<Mipmaps> mipmaps;
  Objects<Link> links;
  std::map<UserObject*, HeldObject> user_objects;  ///< with the program's own references
  std::set<CUgraphConditionalHandle> conditionals;
  std::map<CUtexObject, TextureObject> textures;
  std::map<CUsurfObject, CUDA_RESOURCE_DESC> surfaces;
  std::map<CUmemGenericAllocationHandle, Physical> physical;
  std::map<CUdeviceptr, std::size_t> reserved;
  std::map<CUdeviceptr, Mapping> mappings;
  std::map<CUmemGenericAllocationHandle, MulticastObject> multicasts;
  std::map<CUdeviceptr, MulticastView> multicast_views;
  bool graphs_own_memory = false;
  std::unordered_set<const Function*> functions;

  /// The block that holds `address`, or null.
  const std::pair<const CUdeviceptr, Block>* block_of(CUdeviceptr address) const;
  CUdeviceptr allocate(std::size_t bytes, Block::Kind kind, unsigned flags = 0);
  void release(CUdeviceptr address);
  /// Memory of a graph: it comes back at its address each time the graph runs.
  CUdeviceptr allocate_for_graph(std::size_t bytes);
  void allocate_again(const AllocWork& work);
  Function& function(Function* handle);
  void reset();
};

Driver& driver();
/// Contexts that this thread has pushed; the last is current.
std::vector<Context*>& context_stack();

/// An entry point's body under the driver's lock; what it throws becomes its result.
template <class F>
CUresult guarded(const F& body) noexcept {
  try {
    Driver& d = driver();
    const std::unique_lock lock(d.mutex);
    try {
      body(d);
      return CUDA_SUCCESS;
    } catch (const Failure& failure) {
      return failure.code;
    } catch (const em::Error&) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception&) {
    return CUDA_ERROR_UNKNOWN;
  }
}

/// The same of an entry point that needs a context and no failed kernel before it.
template <class F>
CUresult on_device(const F& body) noexcept {
  return guarded([&](Driver& d) {
    require(d.initialised, CUDA_ERROR_NOT_INITIALIZED);
    require(!context_stack().empty(), CUDA_ERROR_INVALID_CONTEXT);
    if (d.sticky != CUDA_SUCCESS) throw Failure{d.sticky};
    body(d);
  });
}

inline void check_device(CUdevice device) {
  require(device == 0, CUDA_ERROR_INVALID_DEVICE);
}

Stream& stream_of(Driver& d, CUstream handle);
/// What the entry points of per-thread default streams make of the default stream.
inline CUstream per_thread(CUstream stream) {
  return stream == nullptr ? kPerThreadStream : stream;
}

/// The log of errors that JIT options ask for: an array of options, one of values beside it.
void write_log(const std::string& text, unsigned count, const int* options, void** values);

/// Does the work, or adds it to the graph that the stream captures.
void submit(Driver& d, CUstream stream, Work work);
void run(Driver& d, Stream& stream, const Work& work);
/// A call that waits for the device is an error while the stream captures.
void refuse_capture(Driver& d, Stream* stream);

/// Whether the kernel let dependent launches begin; `after_release`: the one before it did.
bool run_kernel(Driver& d, const KernelWork& work, bool after_release);
void run_copy(Driver& d, const CUDA_MEMCPY3D& copy);
void run_memset(Driver& d, const CUDA_MEMSET_NODE_PARAMS& set);
void run_graph(Driver& d, Stream& stream, const Graph& graph);
void run_memory_operations(Driver& d, const MemOpsWork& work);
void run_conditional(Driver& d, Stream& stream, const ConditionalWork& work);
ConditionalWork conditional_work(Driver& d, CUDA_CONDITIONAL_NODE_PARAMS& p);
MemOpsWork memory_operations(const CUDA_BATCH_MEM_OP_NODE_PARAMS& p);
/// Gives an executable's conditional node graphs of its own, with what is in them.
void own_bodies(Work& work);
std::unique_ptr<Graph> clone(const Graph& from);
/// Nodes are found through their graph, for a handle may be stale.
Node& node_of(Driver& d, CUgraphNode handle);
std::vector<const Node*> in_order(const Graph& graph);
/// Adds a node to a graph; dependencies are nodes of it.
Node* add_node(Graph& graph, Work work, const CUgraphNode* dependencies, std::size_t count);

/// What a launch asks for, from the arguments of cuLaunchKernel and its relatives.
KernelWork kernel_work(Driver& d, const CUlaunchConfig& config, CUfunction f, void** params, void** extra);
CUDA_MEMCPY3D copy_1d(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
/// A live array, or a level of a live mipmap chain.
Array& array_of(Driver& d, CUarray handle);

inline CUdeviceptr address_of(const void* p) {
  return reinterpret_cast<CUdeviceptr>(p);
}

}  // namespace kiln::driver
