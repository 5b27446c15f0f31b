// Module: parsing, decoding, parameters and module variables. And launch(): checks, packing, host threads.
#include "emulator/machine/module.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "base/grid.hpp"
#include "emulator/machine/host.hpp"
#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/heap.hpp"
#include "emulator/ptx/parse/parser.hpp"
#include "emulator/report/mistakes.hpp"

namespace kiln::emulator {
namespace {

const ptx::Function* find_kernel(const ptx::Module& m, std::string_view name) {
  const ptx::Function* only = nullptr;
  for (const ptx::Function& f : m.functions) {
    if (!f.entry || !f.defined) continue;
    if (f.name == name) return &f;
    if (name.empty()) {
      if (only != nullptr) throw Error("the module has several kernels: name one");
      only = &f;
    }
  }
  if (only == nullptr) throw Error("no kernel '" + std::string(name) + "' in the module");
  return only;
}

/// Whether an instruction orders what comes before and after it.
bool synchronises(const ptx::Instruction& in) {
  const std::string_view o = in.opcode;
  if (o == "bar" || o == "barrier" || o == "fence" || o == "membar" || o == "griddepcontrol") return true;
  if (o == "mbarrier") return !in.has("init") && !in.has("inval");
  if (o == "tcgen05") return in.has("commit") || in.has("wait::ld") || in.has("wait::st");
  return (o == "cp" || o == "wgmma") && (in.has("wait_group") || in.has("wait_all") || in.has("fence"));
}

std::string show(const Dim3& d) {
  return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
}

/// Of the launch itself and of what the kernel was compiled for.
void check_threads(const Launch& l, const ptx::Function& f) {
  for (const Dim3* d : {&l.grid, &l.block, &l.cluster})
    if (d->x == 0 || d->y == 0 || d->z == 0) throw Error("a launch dimension is 0");
  if (l.block.count() > 1024) throw Error("a block of " + show(l.block) + " threads exceeds 1024");
  if (l.grid.x > 0x7fffffffu || l.grid.y > kMostOfGridAxis || l.grid.z > kMostOfGridAxis)
    throw Error("grid " + show(l.grid) + " is too large");
  if (f.required_threads[0] != 0 &&
      (l.block.x != f.required_threads[0] || l.block.y != f.required_threads[1] ||
       l.block.z != f.required_threads[2]))
    throw Error("block " + show(l.block) + " differs from the kernel's .reqntid");
  if (f.max_threads[0] != 0 &&
      l.block.count() > std::uint64_t{f.max_threads[0]} * f.max_threads[1] * f.max_threads[2])
    throw Error("block " + show(l.block) + " exceeds the kernel's .maxntid");
}

/// The cluster of a launch: the one asked for, or the one that the kernel was compiled for.
Dim3 cluster_of(const Launch& l, const ptx::Function& f) {
  Dim3 cluster = l.cluster;
  if (f.required_cluster[0] > 0) {
    const Dim3 required{f.required_cluster[0], f.required_cluster[1], f.required_cluster[2]};
    if (cluster.count() != 1 &&
        (cluster.x != required.x || cluster.y != required.y || cluster.z != required.z))
      throw Error("cluster " + show(cluster) + " differs from the kernel's .reqnctapercluster " +
                  show(required));
    cluster = required;
  }
  if (cluster.count() > 16) throw Error("a cluster of " + show(cluster) + " blocks exceeds 16");
  if (l.grid.x % cluster.x != 0 || l.grid.y % cluster.y != 0 || l.grid.z % cluster.z != 0)
    throw Error("grid " + show(l.grid) + " is no multiple of cluster " + show(cluster));
  return cluster;
}

void check_shared_memory(const Launch& l, const Program& p) {
  const std::uint64_t smem = std::uint64_t{p.static_smem} + l.dynamic_smem_bytes;
  if (smem > 232448) throw Error("shared memory of " + std::to_string(smem) + " bytes exceeds 232448");
}

std::vector<std::uint8_t> pack(const std::vector<Parameter>& params,
                               const std::vector<std::vector<std::byte>>& args, const std::string& kernel) {
  if (params.size() != args.size())
    throw Error("kernel '" + kernel + "' takes " + std::to_string(params.size()) + " arguments, " +
                std::to_string(args.size()) + " given");
  std::vector<std::uint8_t> block;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (args[i].size() != params[i].bytes)
      throw Error("argument " + std::to_string(i) + " of '" + kernel + "' has " +
                  std::to_string(params[i].bytes) + " bytes, " + std::to_string(args[i].size()) + " given");
    block.resize(params[i].offset + params[i].bytes, 0);
    if (!args[i].empty()) std::memcpy(block.data() + params[i].offset, args[i].data(), args[i].size());
  }
  return block;
}

void apply_patches(LaunchState& s) {
  s.constants = s.program->constants;
  for (const Patch& p : s.program->patches) {
    std::array<std::uint64_t, 2> v{};  // a register has up to 16 bytes
    if (p.what == Patch::What::variable) {
      v[0] = s.variable_address[p.id] + p.offset;
    } else if (p.offset + p.bytes <= s.params.size()) {
      std::memcpy(v.data(), s.params.data() + p.offset, p.bytes);
      if (p.sign && p.bytes < 8 && (v[0] >> (p.bytes * 8 - 1) & 1) != 0)
        v[0] |= ~std::uint64_t{0} << (p.bytes * 8);
      if (p.sign && p.bytes <= 8 && v[0] >> 63 != 0) v[1] = ~std::uint64_t{0};
    }
    for (int lane = 0; lane < 32; ++lane)
      std::memcpy(s.constants.data() + (p.ref & ~3u) + static_cast<std::size_t>(lane) * p.row, v.data(),
                  p.row);
  }
}

}  // namespace

std::string Module::Impl::line(int number) const {
  if (number < 1 || static_cast<std::size_t>(number) > line_starts.size()) return {};
  const std::size_t begin = line_starts[static_cast<std::size_t>(number) - 1];
  std::string_view text = std::string_view(ast.text).substr(begin);
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return std::string(text.size() > 200 ? std::string(text.substr(0, 197)) + "..." : std::string(text));
}

const Program& Module::Impl::program(std::string_view kernel) const {
  const std::string& entry = find_kernel(ast, kernel)->name;
  if (const auto it = undecoded.find(entry); it != undecoded.end()) throw it->second;
  return *programs.find(entry)->second;
}

std::vector<Parameter> Module::Impl::params(const ptx::Function& f) const {
  std::vector<Parameter> out;
  std::size_t at = 0;
  for (const std::uint32_t id : f.params) {
    const ptx::Variable& v = ast.variables[id];
    const std::size_t align = std::max<std::size_t>(1, v.align);
    at = (at + align - 1) / align * align;
    out.push_back({v.name, v.bytes, align, at});
    at += v.bytes;
  }
  return out;
}

std::vector<std::uint64_t> Module::Impl::place_variables(GlobalMemory& memory) const {
  std::vector<std::uint64_t> out(ast.variables.size(), 0);
  auto& m = memory.impl();
  static std::mutex placing;
  const std::lock_guard lock(placing);
  std::vector<std::uint32_t> fresh;
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    const ptx::Variable& v = ast.variables[i];
    if (v.space != ptx::Space::global && v.space != ptx::Space::constant) continue;
    if (v.is_extern && v.bytes == 0) continue;
    std::uint64_t& address = m.module_variables[this][v.name + "#" + std::to_string(i)];
    if (address == 0) {
      address =
          memory.allocate(std::max<std::size_t>(1, v.bytes), v.name, std::max<std::size_t>(16, v.align));
      m.module_variables[this][v.name + "#" + std::to_string(i)] = address;
      fresh.push_back(i);
    }
    out[i] = address;
  }
  for (const std::uint32_t i : fresh) {
    const ptx::Variable& v = ast.variables[i];
    memory.fill(out[i], std::byte{0}, v.bytes);
    if (!v.init.empty()) memory.write(out[i], std::as_bytes(std::span(v.init)));
    for (const ptx::Relocation& r : v.relocations) {
      const std::uint64_t value =
          r.is_function ? r.symbol + 1 : out[r.symbol] + static_cast<std::uint64_t>(r.addend);
      memory.write(out[i] + r.offset, std::as_bytes(std::span(&value, 1)));
    }
  }
  return out;
}

Module Module::Impl::load(std::string_view text, std::string name, bool by_kernel) {
  auto impl = std::make_shared<Impl>();
  impl->name = std::move(name);
  impl->ast = ptx::parse(text);
  impl->line_starts.push_back(0);
  for (std::size_t i = 0; i < impl->ast.text.size(); ++i)
    if (impl->ast.text[i] == '\n') impl->line_starts.push_back(i + 1);
  for (const ptx::Function& f : impl->ast.functions)
    for (const ptx::Instruction& in : f.body)
      if (synchronises(in)) impl->synchronisations.push_back(in.line);
  std::sort(impl->synchronisations.begin(), impl->synchronisations.end());
  for (std::size_t i = 0; i < impl->ast.functions.size(); ++i) {
    const ptx::Function& f = impl->ast.functions[i];
    if (!f.entry || !f.defined) continue;
    try {
      impl->programs[f.name] =
          std::make_unique<Program>(ptx::decode(impl->ast, static_cast<std::uint32_t>(i)));
    } catch (const Error& error) {
      if (!by_kernel) throw;
      impl->undecoded.emplace(f.name, error);
    }
  }
  Module m;
  m.impl_ = std::move(impl);
  return m;
}

Module Module::from_ptx(std::string_view text, std::string name) {
  return Impl::load(text, std::move(name), false);
}
Module Module::from_ptx_by_kernel(std::string_view text, std::string name) {
  return Impl::load(text, std::move(name), true);
}

const std::string& Module::name() const {
  return impl_->name;
}
std::string Module::target() const {
  return impl_->ast.target;
}
std::vector<std::string> Module::kernels() const {
  std::vector<std::string> out;
  for (const ptx::Function& f : impl_->ast.functions)
    if (f.entry && f.defined) out.push_back(f.name);
  return out;
}
std::vector<Parameter> Module::params(std::string_view kernel) const {
  return impl_->params(*find_kernel(impl_->ast, kernel));
}
std::size_t Module::static_smem_bytes(std::string_view kernel) const {
  return impl_->program(kernel).static_smem;
}
std::uint64_t Module::variable(GlobalMemory& memory, std::string_view name) const {
  const auto places = impl_->place_variables(memory);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (impl_->ast.variables[i].name == name && places[i] != 0) return places[i];
  throw Error("no variable '" + std::string(name) + "' in the module");
}

namespace {

/// Device memory that a launch needs for itself.
class Workspace {
 public:
  Workspace(GlobalMemory& memory, bool needed) : memory_(memory) {
    if (!needed) return;
    address = memory.allocate(kBytes, "grid workspace");
    memory.fill(address, std::byte{0}, kBytes);
  }
  ~Workspace() {
    if (address != 0) memory_.free(address);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  std::uint64_t address = 0;

 private:
  static constexpr std::size_t kBytes = 64;
  GlobalMemory& memory_;
};

/// Of the host, of a block that runs: shared memory and registers, and what is known of each.
std::uint64_t block_bytes(const Launch& l, const Program& program) {
  const FunctionInfo& entry = program.functions[program.entry_function];
  const std::uint64_t warps = (l.block.count() + 31) / 32;
  const std::uint64_t shared = kSharedBase + program.static_smem + l.dynamic_smem_bytes;
  const std::uint64_t known =
      l.findings ? 8 * shared + warps * (16 * entry.state_count + program.ops.size()) : 0;
  return 2 * shared + warps * entry.register_bytes + known;
}

}  // namespace

LaunchState::LaunchState() = default;
LaunchState::~LaunchState() = default;

Report launch(GlobalMemory& memory, const Module& module, const Launch& request) {
  const Module::Impl& m = module.impl();
  const ptx::Function& kernel = *find_kernel(m.ast, request.kernel);
  Launch l = request;
  l.kernel = kernel.name;
  LaunchState state;
  state.mistakes = std::make_unique<Mistakes>(static_cast<std::size_t>(std::max(1, l.max_findings)));
  state.program = &m.program(kernel.name);
  check_threads(l, kernel);
  l.cluster = cluster_of(l, kernel);
  check_shared_memory(l, *state.program);
  state.memory = &memory.impl();
  state.module = &m;
  state.launch = &l;
  state.params = pack(m.params(kernel), l.args, kernel.name);
  state.variable_address = m.place_variables(memory);
  prepare_heap(memory, m.ast);
  apply_patches(state);
  const Workspace workspace(memory, state.program->uses_grid_workspace);
  state.grid_workspace = workspace.address;
  if (l.findings)
    state.globals = std::make_unique<GlobalRaces>(*state.program, kGlobalBase, state.memory->next);
  state.clusters = l.grid.count() / l.cluster.count();
  const int hardware = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto threads = static_cast<std::size_t>(std::min<std::uint64_t>(
      static_cast<std::uint64_t>(l.host_threads > 0 ? l.host_threads : hardware), state.clusters));
  state.several_threads = threads > 1;
  run_on_threads(
      threads, [&state] { run_clusters(state); }, [&state] { state.stop = true; },
      threads * l.cluster.count() * block_bytes(l, *state.program));
  if (!state.failure.empty()) throw Error(state.failure, state.failure_line);
  if (state.globals != nullptr)
    for (Finding& late : state.globals->take_late()) report(state, std::move(late));
  state.report.findings = state.mistakes->take();
  state.report.released_dependents = state.released_dependents;
  return std::move(state.report);
}

}  // namespace kiln::emulator
