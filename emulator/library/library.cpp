// The C interface of the emulated device (<kiln/emulator/library.h>) over its C++ one.
#include <kiln/emulator/library.h>

#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <kiln/emulator/amdgcn.hpp>
#include <kiln/emulator/emulator.hpp>

namespace em = kiln::emulator;

struct kiln_emulator_memory {
  em::GlobalMemory memory;
};

struct kiln_emulator_module {
  std::variant<em::Module, em::amdgcn::Module> module;
};

/// A report with its C views, which point into it.
struct kiln_emulator_report {
  em::Report report;
  std::vector<std::string> names;
  std::vector<kiln_emulator_counter> counters;
  std::vector<kiln_emulator_finding> findings;
  kiln_emulator_result result{};
};

namespace {

thread_local std::string last_error;

kiln_emulator_status failed(const char* what, kiln_emulator_status status = KILN_EMULATOR_FAILED) noexcept {
  try {
    last_error = what;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return status;
}

/// Runs `work`; what it throws becomes a status and a line of text.
template <class Work>
kiln_emulator_status guarded(const Work& work) noexcept {
  try {
    work();
    return KILN_EMULATOR_OK;
  } catch (const em::MissingLibrary& error) {
    return failed(error.what(), KILN_EMULATOR_MISSING_LIBRARY);
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

em::Dim3 dim(const std::uint32_t (&d)[3]) {
  return {d[0], d[1], d[2]};
}

/// What both kinds of launch have under the same names.
template <class Launch>
Launch common(const kiln_emulator_launch& from) {
  Launch launch;
  launch.kernel = from.entry;
  launch.grid = dim(from.grid);
  launch.block = dim(from.block);
  for (std::size_t i = 0; i < from.num_parameters; ++i) {
    const auto* bytes = static_cast<const std::byte*>(from.parameters[i]);
    launch.args.emplace_back(bytes, bytes + from.parameter_bytes[i]);
  }
  launch.policy = from.policy == 0   ? em::Policy::eager
                  : from.policy == 1 ? em::Policy::lazy
                                     : em::Policy::random;
  launch.seed = from.seed;
  launch.findings = from.findings != 0;
  launch.max_findings = from.max_findings;
  launch.host_threads = from.host_threads;
  if (from.instruction_budget > 0) launch.instruction_budget = from.instruction_budget;
  return launch;
}

em::Report run(em::GlobalMemory& memory, const em::Module& module, const kiln_emulator_launch& from) {
  auto launch = common<em::Launch>(from);
  launch.cluster = dim(from.cluster);
  launch.dynamic_smem_bytes = from.dynamic_smem_bytes;
  launch.num_sms = from.num_sms;
  launch.stop_at_finding = from.stop_at_finding != 0;
  launch.programmatic = from.programmatic != 0;
  launch.touches_early = from.touches_early != 0;
  for (std::size_t i = 0; i < from.num_early_reads; ++i) {
    const kiln_emulator_range& range = from.early_reads[i];
    launch.early_reads.emplace_back(range.address, range.address + range.bytes);
  }
  return em::launch(memory, module, launch);
}

em::Report run(em::GlobalMemory& memory, const em::amdgcn::Module& module, const kiln_emulator_launch& from) {
  auto launch = common<em::amdgcn::Launch>(from);
  launch.dynamic_lds_bytes = from.dynamic_smem_bytes;
  return em::amdgcn::launch(memory, module, launch);
}

kiln_emulator_site view(const em::Site& site) {
  return {{site.block.x, site.block.y, site.block.z},
          site.warp,
          site.lane,
          site.ptx_line,
          site.source_line,
          site.caller_line,
          site.ptx_text.c_str()};
}

void count(kiln_emulator_report& r) {
  const em::Counters& c = r.report.counters;
  r.counters = {{"instructions", c.warp_instructions},
                {"lane_instructions", c.lane_instructions},
                {"shared_accesses", c.shared_accesses},
                {"bank_conflicts", c.shared_bank_conflicts},
                {"global_accesses", c.global_accesses},
                {"global_sectors", c.global_sectors},
                {"global_bytes_read", c.global_bytes_read},
                {"global_bytes_written", c.global_bytes_written},
                {"async_bytes", c.async_bytes},
                {"matrix_flops", c.matrix_flops}};
  r.names.reserve(c.by_kind.size());  // the views below point into it
  for (const auto& [kind, number] : c.by_kind) {
    r.names.push_back("instructions." + kind);
    r.counters.push_back({r.names.back().c_str(), number});
  }
}

std::unique_ptr<kiln_emulator_report> report_of(em::Report from) {
  auto r = std::make_unique<kiln_emulator_report>();
  r->report = std::move(from);
  count(*r);
  for (const em::Finding& f : r->report.findings)
    r->findings.push_back({f.kind.c_str(), f.message.c_str(), view(f.site), f.has_other ? 1 : 0,
                           view(f.other), f.count, f.severity == em::Severity::note ? 1 : 0});
  r->result = {r->counters.data(), r->counters.size(),       r->findings.data(),
               r->findings.size(), r->report.output.c_str(), r->report.completed ? 1 : 0};
  return r;
}

em::Swizzle swizzle_of(int bytes) {
  return bytes == 32    ? em::Swizzle::b32
         : bytes == 64  ? em::Swizzle::b64
         : bytes == 128 ? em::Swizzle::b128
                        : em::Swizzle::none;
}

kiln_emulator_status encode(const kiln_emulator_tensor_map* from, void* bytes) {
  return guarded([&] {
    em::TensorMapRequest map;
    map.type = static_cast<em::TensorType>(from->type);
    map.rank = static_cast<std::uint32_t>(from->rank);
    map.address = from->address;
    std::memcpy(map.dims.data(), from->extents, sizeof from->extents);
    std::memcpy(map.strides.data(), from->strides, sizeof from->strides);
    std::memcpy(map.box.data(), from->box, sizeof from->box);
    map.swizzle = swizzle_of(from->swizzle_bytes);
    const em::TensorMapBytes encoded = em::encode_tensor_map(map);
    std::memcpy(bytes, encoded.data(), encoded.size());
  });
}

kiln_emulator_status launch(kiln_emulator_memory* memory, const kiln_emulator_module* module,
                            const kiln_emulator_launch* how, kiln_emulator_report** report,
                            const kiln_emulator_result** result) {
  return guarded([&] {
    auto made =
        report_of(std::visit([&](const auto& m) { return run(memory->memory, m, *how); }, module->module));
    *result = &made->result;
    *report = made.release();
  });
}

const kiln_emulator_functions kFunctions = {
    .version = KILN_EMULATOR_INTERFACE,
    .last_error = [] { return last_error.c_str(); },
    .memory_create =
        [](kiln_emulator_memory** memory) { return guarded([&] { *memory = new kiln_emulator_memory; }); },
    .memory_destroy = [](kiln_emulator_memory* memory) { delete memory; },
    .allocate =
        [](kiln_emulator_memory* memory, std::size_t bytes, const char* name, std::uint64_t* address) {
          return guarded([&] { *address = memory->memory.allocate(bytes, name); });
        },
    .release = [](kiln_emulator_memory* memory,
                  std::uint64_t address) { return guarded([&] { memory->memory.free(address); }); },
    .write =
        [](kiln_emulator_memory* memory, std::uint64_t address, const void* data, std::size_t bytes) {
          return guarded([&] {
            memory->memory.write(address, {static_cast<const std::byte*>(data), bytes});
          });
        },
    .read =
        [](const kiln_emulator_memory* memory, std::uint64_t address, void* data, std::size_t bytes) {
          return guarded([&] { memory->memory.read(address, {static_cast<std::byte*>(data), bytes}); });
        },
    .fill =
        [](kiln_emulator_memory* memory, std::uint64_t address, int value, std::size_t bytes) {
          return guarded([&] { memory->memory.fill(address, static_cast<std::byte>(value), bytes); });
        },
    .encode_tensor_map = encode,
    .load_ptx =
        [](const char* text, std::size_t bytes, const char* name, kiln_emulator_module** module) {
          return guarded([&] {
            *module = new kiln_emulator_module{em::Module::from_ptx({text, bytes}, name)};
          });
        },
    .load_code_object =
        [](const void* data, std::size_t bytes, const char* name, kiln_emulator_module** module) {
          return guarded([&] {
            const std::span object(static_cast<const std::byte*>(data), bytes);
            *module = new kiln_emulator_module{em::amdgcn::Module::from_code_object(object, name)};
          });
        },
    .module_destroy = [](kiln_emulator_module* module) { delete module; },
    .launch = launch,
    .report_destroy = [](kiln_emulator_report* report) { delete report; },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const kiln_emulator_functions* kiln_emulator_interface(
    unsigned version) {
  return version == KILN_EMULATOR_INTERFACE ? &kFunctions : nullptr;
}
