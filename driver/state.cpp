#include "driver/state.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "emulator/machine/memory.hpp"

namespace kiln::driver {
namespace {

// The command hands its options over as "gpu=H100;policy=lazy;seed=3" in this variable.
constexpr const char* kOptions = "KILN_DRIVER_OPTIONS";
constexpr const char* kReport = "KILN_DRIVER_REPORT";
// A file with a change of one module (driver/change.hpp).
constexpr const char* kChange = "KILN_DRIVER_CHANGE";

template <class T>
void number(std::string_view text, T& to) {
  std::from_chars(text.data(), text.data() + text.size(), to);
}

Options read_options() {
  Options o;
  o.gpu = gpus().front();
  const char* text = std::getenv(kOptions);
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::string_view key = item.substr(0, item.find('='));
    const std::string_view value = item.substr(std::min(item.size(), key.size() + 1));
    if (key == "gpu") {
      if (const Gpu* gpu = find_gpu(value)) o.gpu = *gpu;
    } else if (key == "sms") {
      number(value, o.gpu.sms);
    } else if (key == "policy") {
      o.policy = value == "lazy"     ? em::Policy::lazy
                 : value == "random" ? em::Policy::random
                                     : em::Policy::eager;
    } else if (key == "seed") {
      number(value, o.seed);
    } else if (key == "budget") {
      number(value, o.budget);
    } else if (key == "findings") {
      o.findings = value != "off";
    } else if (key == "threads") {
      number(value, o.threads);
    } else if (key == "launches") {
      o.tell_launches = value == "on";
    } else if (key == "end_at_finding") {
      o.end_at_finding = value == "on";
    }
  }
  if (const char* path = std::getenv(kChange)) o.change = Change::read(path);
  return o;
}

std::string report_path() {
  const char* path = std::getenv(kReport);
  return path == nullptr ? "" : path;
}

constexpr std::size_t kAddressSpace = std::size_t{1} << 40;

}  // namespace

Driver::Driver() : options(read_options()), report(report_path()), memory(kAddressSpace) {
  primary.primary = true;
  primary.id = next_id++;
  legacy_stream.id = next_id++;
  per_thread_stream.id = next_id++;
}

Driver& driver() {
  // Never destroyed: programs call the driver from destructors of their own.
  static Driver* const instance = new Driver;
  return *instance;
}

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

const std::pair<const CUdeviceptr, Block>* Driver::block_of(CUdeviceptr address) const {
  auto it = blocks.upper_bound(address);
  if (it == blocks.begin()) return nullptr;
  --it;
  return address - it->first < std::max<std::size_t>(1, it->second.bytes) ? &*it : nullptr;
}

CUdeviceptr Driver::allocate(std::size_t bytes, Block::Kind kind, unsigned flags) {
  require(bytes != 0);
  Block block;
  block.bytes = bytes;
  block.kind = kind;
  block.flags = flags;
  block.id = next_id++;
  CUdeviceptr address = 0;
  try {
    address = memory.allocate(bytes, "allocation " + std::to_string(block.id), 512);
  } catch (const em::Error&) {
    throw Failure{CUDA_ERROR_OUT_OF_MEMORY};
  }
  // What the host writes there goes unnoticed: such memory counts as written.
  if (kind != Block::Kind::device) memory.fill(address, std::byte{0}, bytes);
  blocks.emplace(address, block);
  return address;
}

void Driver::release(CUdeviceptr address) {
  require(blocks.erase(address) == 1);
  memory.free(address);
}

CUdeviceptr Driver::allocate_for_graph(std::size_t bytes) {
  // While nothing is allocated addresses start over; here they have to stay.
  if (!graphs_own_memory) memory.allocate(1, "memory of graphs");
  graphs_own_memory = true;
  return allocate(bytes, Block::Kind::device);
}

void Driver::allocate_again(const AllocWork& work) {
  if (blocks.count(work.address) != 0) return;
  auto& m = memory.impl();
  {
    const std::lock_guard lock(m.mutex);
    m.allocations.at(work.address).freed = false;
    m.live_bytes += work.bytes;
    ++m.live;
  }
  std::memset(m.at(work.address), em::kPoison, work.bytes);
  std::memset(m.shadow_at(work.address), em::kAllocated, work.bytes);
  Block block;
  block.bytes = work.bytes;
  block.id = next_id++;
  blocks.emplace(work.address, block);
}

Function& Driver::function(Function* handle) {
  require(functions.count(handle) != 0, CUDA_ERROR_INVALID_HANDLE);
  return *handle;
}

void Driver::reset() {
  for (const auto& [address, block] : blocks) memory.free(address);
  blocks.clear();
  registered.clear();
  streams.clear();
  events.clear();
  graphs.clear();
  execs.clear();
  sticky = CUDA_SUCCESS;
}

Stream& stream_of(Driver& d, CUstream handle) {
  if (handle == nullptr || handle == kLegacyStream) return d.legacy_stream;
  if (handle == kPerThreadStream) return d.per_thread_stream;
  return d.streams.get(handle);
}

}  // namespace kiln::driver

namespace {

__attribute__((destructor)) void finish_report() {
  kiln::driver::driver().report.finish();
}

}  // namespace
