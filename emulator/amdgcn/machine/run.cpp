// Runs waves, workgroups and grids.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include "emulator/amdgcn/load/module.hpp"
#include "emulator/amdgcn/machine/machine.hpp"
#include "emulator/amdgcn/memory/memory_access.hpp"
#include "emulator/machine/host.hpp"

namespace kiln::emulator::amdgcn {
namespace {

constexpr int kQuantum = 2000;  ///< instructions a wave runs before another gets its turn

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2);
  a *= 0xbf58476d1ce4e5b9ULL;
  return a ^ a >> 31;
}

/// Registers as the hardware leaves them at the start of a wave, by the kernel descriptor.
void set_up(Wave& w, const KernelCode& kernel) {
  const Abi& abi = kernel.abi;
  const Dim3& id = w.wg.id;
  int at = 0;
  const auto pair = [&](bool enabled, std::uint64_t value) {
    if (!enabled) return;
    w.set_s64(at, value);
    at += 2;
  };
  if (abi.private_segment_buffer) {  // a descriptor of the wave's scratch: swizzled, unbounded
    w.set_s64(at, kScratchBase);
    w.set_s64(at + 2, 0xffffffffU | std::uint64_t{0x00e00000} << 32);
    at += 4;
  }
  pair(abi.dispatch_ptr, kKernargBase);
  pair(abi.queue_ptr, kKernargBase);
  pair(abi.kernarg_ptr, kKernargBase + kDispatchPacketBytes);
  pair(abi.dispatch_id, 0);
  pair(abi.flat_scratch_init, 0);
  if (abi.private_segment_size) w.set_s(at++, static_cast<std::uint32_t>(kernel.info.scratch_bytes));
  for (int i = 0; i < abi.preload_dwords; ++i) {
    const std::uint64_t address =
        kKernargBase + kDispatchPacketBytes + 4 * static_cast<std::uint64_t>(abi.preload_offset + i);
    std::uint32_t value = 0;
    if (const auto ref = w.grid.memory.at(address, 4, false); ref.data != nullptr)
      std::memcpy(&value, ref.data, 4);
    if (at < kFlatScratch) w.set_s(at++, value);
  }
  at = abi.first_system_sgpr();
  const std::uint32_t ids[] = {id.x, id.y, id.z};
  for (int i = 0; i < 3; ++i) {
    if (abi.workgroup_id[i]) w.set_s(at++, ids[i]);
  }
  if (abi.workgroup_info) w.set_s(at++, 0);
  if (abi.private_wave_offset) w.set_s(at++, 0);
  w.set_s64(kFlatScratch, 0);
  w.set_s(kM0, 0);
  w.set_s64(kVcc, 0);

  const Dim3& block = w.grid.launch.block;
  const std::uint64_t first = static_cast<std::uint64_t>(w.index) * kLanes, lanes = block.count();
  const std::uint64_t active = std::min<std::uint64_t>(kLanes, lanes - first);
  w.set_s64(kExec, active == kLanes ? kAllLanes : (std::uint64_t{1} << active) - 1);
  for (std::uint64_t lane = 0; lane < active; ++lane) {
    const std::uint64_t t = first + lane;
    const auto x = static_cast<std::uint32_t>(t % block.x),
               y = static_cast<std::uint32_t>(t / block.x % block.y),
               z = static_cast<std::uint32_t>(t / block.x / block.y);
    w.v[0].l[lane] = x | (abi.workitem_dims > 1 ? y << 10 : 0) | (abi.workitem_dims > 2 ? z << 20 : 0);
  }
  w.defined[0] = kAllLanes;
}

[[noreturn]] void fail(const Wave& w, const Inst& in, const std::string& what) {
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(in.address));
  throw Error(what + " at " + address + " of kernel '" + w.grid.kernel + "': " + in.text);
}

/// Runs the wave until it ends, waits at a barrier, or has used up its turn.
void run_wave(Wave& w, int turn) {
  Grid& grid = w.grid;
  const auto& code = grid.program.code;
  const bool random = grid.launch.policy == Policy::random, findings = grid.launch.findings;
  Tally& count = tally();
  const std::uint64_t begin = w.executed, end = begin + static_cast<std::uint64_t>(turn);
  while (!w.ended && !w.at_barrier && w.executed < end) {
    if (w.pc < 0 || static_cast<std::size_t>(w.pc) >= code.size()) {
      throw Error("kernel '" + grid.kernel + "' runs past the end of its code");
    }
    const Inst& in = code[static_cast<std::size_t>(w.pc)];
    if (in.exec == nullptr) fail(w, in, "unsupported instruction");
    ++count.by_class[static_cast<int>(in.cls)];
    count.lane_instructions += static_cast<std::uint64_t>(std::popcount(w.exec()));
    if (findings && (!w.vm.empty() || !w.lgkm.empty())) w.check_hazards(in);
    if (random && (!w.vm.empty() || !w.lgkm.empty())) w.complete_some();
    ++w.pc;
    ++w.executed;
    w.matrix_executed += static_cast<std::uint64_t>(in.cls == Class::mfma);
    in.exec(w, in);
  }
  if (grid.executed.fetch_add(w.executed - begin) > grid.budget && !grid.stop.exchange(true)) {
    const Inst& in = code[static_cast<std::size_t>(std::clamp(w.pc, 0, static_cast<int>(code.size()) - 1))];
    std::string where;
    for (const auto& other : w.wg.waves) {
      if (other->at_barrier)
        where += (where.empty() ? "; at s_barrier: wave " : ", ") + std::to_string(other->index);
    }
    const std::lock_guard lock(grid.mutex);
    grid.completed = false;
    Finding f;
    f.kind = where.empty() ? "instruction-budget" : "deadlock";
    f.message = "the instruction budget is used up" + where;
    f.site = w.site(in, -1);
    const std::string cause = f.kind;
    grid.mistakes.add(std::move(f), {cause});
  }
}

}  // namespace

Wave::Wave(Workgroup& group, int i)
    : wg(group), grid(group.grid), index(i), v(static_cast<std::size_t>(kVectorRegisters)) {
  std::memset(v.data(), 0xff, v.size() * sizeof(Lanes));  // undefined values are NaN patterns
  std::memset(s, 0xff, sizeof s);
  std::memset(v[0].l, 0, sizeof v[0].l);
  random.seed(mix(mix(grid.launch.seed, group.id.x | std::uint64_t{group.id.y} << 32),
                  mix(group.id.z, static_cast<std::uint64_t>(i))));
  scratch.resize(grid.scratch_bytes * kLanes);
  pc = grid.entry;
}

Workgroup::Workgroup(Grid& g, Dim3 i) : grid(g), id(i), lds(g.lds_bytes, g.launch.findings) {
  const std::uint64_t count = (g.launch.block.count() + kLanes - 1) / kLanes;
  for (std::uint64_t k = 0; k < count; ++k) {
    waves.push_back(std::make_unique<Wave>(*this, static_cast<int>(k)));
    set_up(*waves.back(), *g.kernel_code);
  }
}

namespace {

/// Gives every wave that can run a turn; false: all have ended or wait at a barrier.
bool run_turns(Workgroup& group, std::mt19937_64& order) {
  const Grid& grid = group.grid;
  const bool random = grid.launch.policy == Policy::random;
  const std::size_t count = group.waves.size(), first = random ? order() % count : 0;
  bool ran = false;
  for (std::size_t k = 0; k < count && !grid.stop; ++k) {
    // Lazy runs the last wave first, so that neither order of two waves goes untried.
    const std::size_t i = grid.launch.policy == Policy::lazy ? count - 1 - k : (first + k) % count;
    Wave& w = *group.waves[i];
    if (w.ended || w.at_barrier) continue;
    run_wave(w, random ? static_cast<int>(1 + order() % 200) : kQuantum);
    ran = true;
  }
  return ran;
}

/// Opens the barrier for the waves that wait (ended ones do not count, as on hardware); false: none waits.
bool open_barrier(Workgroup& group) {
  bool any = false;
  const Wave* ended = nullptr;
  for (const auto& w : group.waves)
    if (w->ended) ended = w.get();
  for (const auto& w : group.waves) {
    if (!w->at_barrier) continue;
    any = true;
    if (ended != nullptr) {
      w->report("barrier-mismatch", group.grid.program.code[static_cast<std::size_t>(w->pc - 1)], -1,
                "wave " + std::to_string(ended->index) + " has ended after " +
                    std::to_string(ended->barriers) + " barriers while this one waits at barrier " +
                    std::to_string(w->barriers + 1));
    }
    w->at_barrier = false;
    ++w->barriers;
    w->trace_barrier(true);
  }
  return any;
}

/// Accesses of global memory before a barrier come before those after it where one compute unit has the block.
void order_accesses(Workgroup& group) {
  if (group.split()) return;
  for (const auto& w : group.waves) w->perform_accesses();
}

/// What is still under way reaches into the new epoch.
void stamp_pending(Workgroup& group) {
  for (const auto& w : group.waves) {
    for (auto* queue : {&w->vm, &w->lgkm}) {
      for (Pending* op : *queue) {
        if (op->lds_lanes && (queue == &w->vm || !op->vm)) stamp_lds(*w, *op);
      }
    }
  }
}

}  // namespace

bool Workgroup::split() const {
  return grid.kernel_code->abi.split_block;
}

void Workgroup::run() {
  std::mt19937_64 order(mix(grid.launch.seed, id.x + 977 * id.y + 31337 * id.z));
  for (;;) {
    const bool ran = run_turns(*this, order);
    if (grid.stop) return;
    if (ran) continue;
    if (!open_barrier(*this)) return;
    order_accesses(*this);
    if (grid.launch.findings) GlobalRaces::meet(*this);
    stamp_pending(*this);
  }
}

namespace {

std::vector<std::byte> kernarg_block(const KernelCode& kernel, const Launch& l, std::size_t lds_bytes) {
  const KernelInfo& info = kernel.info;
  std::vector<std::byte> block(kDispatchPacketBytes + info.kernarg_bytes + 64);
  const auto store = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    std::memcpy(block.data() + at, &value, std::min<std::size_t>(bytes, sizeof value));
  };
  // hsa_kernel_dispatch_packet_t: sizes of the workgroup and of the grid in lanes.
  const int dims = l.block.z * l.grid.z > 1 ? 3 : l.block.y * l.grid.y > 1 ? 2 : 1;
  store(2, static_cast<std::uint64_t>(dims), 2);
  store(4, l.block.x, 2);
  store(6, l.block.y, 2);
  store(8, l.block.z, 2);
  store(12, std::uint64_t{l.grid.x} * l.block.x, 4);
  store(16, std::uint64_t{l.grid.y} * l.block.y, 4);
  store(20, std::uint64_t{l.grid.z} * l.block.z, 4);
  store(24, info.scratch_bytes, 4);
  store(28, lds_bytes, 4);
  const std::uint32_t grid[] = {l.grid.x, l.grid.y, l.grid.z}, wg[] = {l.block.x, l.block.y, l.block.z};
  std::size_t visible = 0;
  const bool packed = !l.kernarg.empty();
  if (packed)
    std::memcpy(block.data() + kDispatchPacketBytes, l.kernarg.data(),
                std::min(l.kernarg.size(), info.kernarg_bytes));
  for (const Argument& a : info.args) {
    const std::size_t at = kDispatchPacketBytes + a.offset;
    if (!a.hidden()) {
      if (packed) {
        if (a.offset + a.bytes > l.kernarg.size())
          throw Error("kernel '" + info.name + "' needs " + std::to_string(a.offset + a.bytes) +
                      " bytes of arguments, " + std::to_string(l.kernarg.size()) + " given");
        continue;
      }
      if (visible >= l.args.size())
        throw Error("kernel '" + info.name + "' has more arguments than the " +
                    std::to_string(l.args.size()) + " given");
      const auto& given = l.args[visible++];
      if (given.size() != a.bytes) {
        throw Error("argument " + std::to_string(visible - 1) + " of kernel '" + info.name + "' has " +
                    std::to_string(a.bytes) + " bytes, " + std::to_string(given.size()) + " given");
      }
      std::copy(given.begin(), given.end(), block.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    for (int d = 0; d < 3; ++d) {
      const char axis = static_cast<char>('x' + d);
      if (a.kind == std::string("hidden_block_count_") + axis) store(at, grid[d], a.bytes);
      if (a.kind == std::string("hidden_group_size_") + axis) store(at, wg[d], a.bytes);
    }
    if (a.kind == "hidden_grid_dims") store(at, static_cast<std::uint64_t>(dims), a.bytes);
    if (a.kind == "hidden_dynamic_lds_size") store(at, l.dynamic_lds_bytes, a.bytes);
    if (a.kind == "hidden_private_base") store(at, kPrivateAperture >> 32, a.bytes);
    if (a.kind == "hidden_shared_base") store(at, kSharedAperture >> 32, a.bytes);
  }
  if (!packed && visible != l.args.size()) {
    throw Error("kernel '" + info.name + "' has " + std::to_string(visible) + " arguments, " +
                std::to_string(l.args.size()) + " given");
  }
  return block;
}

void check(const KernelCode& kernel, Target target, const Launch& l, std::size_t lds_bytes) {
  const auto lanes = l.block.count();
  const auto none = [](const Dim3& d) { return d.x == 0 || d.y == 0 || d.z == 0; };
  if (none(l.block) || none(l.grid))
    throw Error("launch of '" + kernel.info.name + "' with an empty grid or workgroup");
  if (l.grid.count() > std::uint64_t{1} << 62)
    throw Error("launch of '" + kernel.info.name + "' with more workgroups than 62 bits count");
  if (lanes > 1024 ||
      (kernel.info.max_workgroup > 0 && lanes > static_cast<std::uint64_t>(kernel.info.max_workgroup))) {
    throw Error("workgroup of " + std::to_string(lanes) + " lanes, kernel '" + kernel.info.name +
                "' allows " + std::to_string(kernel.info.max_workgroup));
  }
  constexpr int kSystemSgprs = 5;
  if (kernel.abi.first_system_sgpr() + kSystemSgprs > kFlatScratch)
    throw Error("kernel '" + kernel.info.name + "' wants " + std::to_string(kernel.abi.first_system_sgpr()) +
                " scalar registers of arguments, more than there are");
  const std::size_t limit = target == Target::gfx950 ? 160 * 1024 : 64 * 1024;
  if (lds_bytes > limit) {
    throw Error("kernel '" + kernel.info.name + "' needs " + std::to_string(lds_bytes) +
                " bytes of LDS, the target has " + std::to_string(limit));
  }
}

}  // namespace

static std::uint64_t threads_of(const Launch& l) {
  const auto hardware = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return static_cast<std::uint64_t>(l.host_threads > 0 ? l.host_threads : hardware);
}

/// Of the host, of a work-group that runs: LDS and registers of both kinds, and what is known of each.
static std::uint64_t group_bytes(const Launch& l, std::size_t lds_bytes) {
  const std::uint64_t waves = (l.block.count() + 63) / 64;
  return 10 * lds_bytes + waves * 512 * 256 * 2;
}

namespace {

/// Instructions that the device does not have are refused at once, not when some path reaches one.
void check_supported(const Program& program, const KernelCode& kernel) {
  for (const Inst& in : program.code) {
    if (in.exec == nullptr && in.address >= kernel.entry && in.address < kernel.end &&
        in.text.rfind(".long", 0) != 0) {
      char address[32];
      std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(in.address));
      throw Error(std::string("unsupported instruction at ") + address + " of kernel '" + kernel.info.name +
                  "': " + in.text);
    }
  }
}

Counters counters_of(const Tally& total) {
  Counters c;
  for (int i = 0; i < kClasses; ++i) {
    if (total.by_class[i] == 0) continue;
    c.by_kind[std::string(class_name(static_cast<Class>(i)))] = total.by_class[i];
    c.warp_instructions += total.by_class[i];
  }
  c.lane_instructions = total.lane_instructions;
  c.shared_accesses = total.lds_accesses;
  c.shared_bank_conflicts = total.lds_conflicts;
  c.global_accesses = total.global_accesses;
  c.global_sectors = total.global_sectors;
  c.global_bytes_read = total.bytes_read;
  c.global_bytes_written = total.bytes_written;
  c.async_bytes = total.dma_bytes;
  c.matrix_flops = total.matrix_flops;
  return c;
}

}  // namespace

Report launch(GlobalMemory& global, const Module& module, const Launch& l) {
  const Module::Impl& impl = module.impl();
  const KernelCode& kernel = impl.find(l.kernel);
  const std::size_t lds_bytes = kernel.info.lds_bytes + l.dynamic_lds_bytes;
  check(kernel, impl.target, l, lds_bytes);
  check_supported(impl.program, kernel);
  Memory memory(global, *impl.image, kernarg_block(kernel, l, lds_bytes));
  Grid grid{impl.program,     l,       memory,    impl.target,
            kernel.info.name, &kernel, lds_bytes, kernel.info.scratch_bytes};
  std::uint64_t entry = kernel.entry;
  if (kernel.abi.preload_dwords > 0 && impl.program.find(entry + 256) >= 0)
    entry += 256;  // past the code that loads what was preloaded
  grid.entry = impl.program.find(entry);
  grid.budget = l.instruction_budget;

  const std::uint64_t count = l.grid.count();
  const std::uint64_t threads = threads_of(l);
  std::atomic<std::uint64_t> next{0};
  std::exception_ptr error;
  Tally total;
  const auto work = [&] {
    tally() = {};
    try {
      for (std::uint64_t i; !grid.stop && (i = next++) < count;) {
        Workgroup group(grid, {static_cast<std::uint32_t>(i % l.grid.x),
                               static_cast<std::uint32_t>(i / l.grid.x % l.grid.y),
                               static_cast<std::uint32_t>(i / l.grid.x / l.grid.y)});
        group.run();
      }
    } catch (const std::bad_alloc&) {
      throw;  // run_on_threads() says so
    } catch (...) {
      grid.stop = true;
      const std::lock_guard lock(grid.mutex);
      if (!error) error = std::current_exception();
    }
    const std::lock_guard lock(grid.mutex);
    total.add(tally());
  };
  const auto at_once = static_cast<std::size_t>(std::min(threads, count));
  run_on_threads(
      at_once, work, [&grid] { grid.stop = true; }, at_once * group_bytes(l, lds_bytes));
  if (error) std::rethrow_exception(error);

  Report report;
  report.completed = grid.completed;
  report.findings = grid.mistakes.take();
  report.counters = counters_of(total);
  return report;
}

}  // namespace kiln::emulator::amdgcn
