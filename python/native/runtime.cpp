// Runtime, generator, doctor and cache of the Python package.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <kiln/generator.hpp>

#include "python/native/kernel.hpp"

namespace kiln::python {
namespace {

Plan plan_of(const std::string& config) {
  return make_plan(parse_config(config, "config"));
}

class PyRuntime {
 public:
  PyRuntime(std::optional<std::string> device, std::optional<std::string> cache_dir, bool ptx_only) {
    RuntimeOptions options;
    if (device) options.device = *device;
    options.cache_dir = std::move(cache_dir);
    options.ptx_only = ptx_only;
    runtime = std::make_shared<Runtime>(std::move(options));
  }
  std::unique_ptr<PyKernel> load(const std::string& config, const std::optional<std::string>& text) {
    std::shared_ptr<Kernel> kernel;
    {
      const nb::gil_scoped_release others_may_run;  // while NVRTC compiles
      KernelSource source = generate(plan_of(config));
      if (text) {
        source.text = *text;
        source.head_bytes = 0;  // where a head comment ends is unknown: all of it makes the cache key
      }
      kernel = runtime->load(source);
    }
    return std::make_unique<PyKernel>(runtime, std::move(kernel));
  }
  std::unique_ptr<PyKernel> load_image(const std::string& manifest_json, const nb::bytes& image) {
    const Manifest manifest = manifest_from_json(manifest_json);
    auto binary = std::make_shared<Binary>();
    binary->name = manifest.name;
    binary->entry = manifest.entry;
    binary->target = manifest.target;
    binary->image.assign(image.c_str(), image.size());
    if (!manifest.target.starts_with("gfx") && binary->image.find(".version") != std::string::npos)
      binary->ptx = binary->image;
    return std::make_unique<PyKernel>(runtime, runtime->load(std::move(binary), manifest));
  }
  nb::dict doctor() const;

  std::shared_ptr<Runtime> runtime;
};

nb::dict device_dict(const DeviceInfo& info) {
  nb::dict device;
  device["selector"] = info.selector;
  device["name"] = info.name;
  device["target"] = info.target;
  device["num_sms"] = info.num_sms;
  device["memory_bytes"] = info.memory_bytes;
  return device;
}

nb::dict stats_dict(const CacheStats& stats) {
  nb::dict out;
  out["directory"] = stats.directory;
  out["problem"] = stats.problem;
  const std::pair<const char*, std::uint64_t> numbers[] = {{"entries", stats.entries},
                                                           {"bytes", stats.bytes},
                                                           {"max_bytes", stats.max_bytes},
                                                           {"quarantined", stats.quarantined},
                                                           {"memory_hits", stats.memory_hits},
                                                           {"disk_hits", stats.disk_hits},
                                                           {"misses", stats.misses},
                                                           {"compiles", stats.compiles},
                                                           {"coalesced", stats.coalesced},
                                                           {"corrupt", stats.corrupt},
                                                           {"write_failures", stats.write_failures},
                                                           {"lock_timeouts", stats.lock_timeouts}};
  for (const auto& [name, value] : numbers) out[name] = value;
  return out;
}

nb::dict PyRuntime::doctor() const {
  const DoctorReport report = runtime->doctor();
  nb::dict out;
  nb::list compilers, drivers, choices, devices;
  for (const auto& compiler : report.compilers) {
    nb::dict one;
    one["kind"] = compiler.kind;
    one["found"] = compiler.found;
    one["path"] = compiler.path;
    one["version"] = compiler.version;
    one["targets"] = compiler.targets;
    one["problem"] = compiler.problem;
    compilers.append(one);
  }
  for (const auto& driver : report.drivers) {
    nb::dict one;
    one["kind"] = driver.kind;
    one["found"] = driver.found;
    one["path"] = driver.path;
    one["version"] = driver.version;
    one["problem"] = driver.problem;
    drivers.append(one);
  }
  for (const auto& choice : report.choices) {
    nb::dict one;
    one["target"] = choice.target;
    one["compiler"] = choice.compiler;
    one["problem"] = choice.problem;
    choices.append(one);
  }
  for (const DeviceInfo& info : report.devices) devices.append(device_dict(info));
  out["kiln_version"] = report.kiln_version;
  out["compilers"] = compilers;
  out["choices"] = choices;
  out["drivers"] = drivers;
  out["devices"] = devices;
  out["cache"] = stats_dict(report.cache);
  return out;
}

nb::list entries_of(PyRuntime& self) {
  nb::list entries;
  for (const CacheEntryInfo& info : self.runtime->cache().list()) {
    nb::dict one;
    one["key"] = info.key;
    one["name"] = info.name;
    one["target"] = info.target;
    one["compiler"] = info.compiler;
    one["kiln_version"] = info.kiln_version;
    one["bytes"] = info.bytes;
    one["compile_ms"] = info.compile_ms;
    one["created"] = info.created;
    one["used"] = info.used;
    entries.append(one);
  }
  return entries;
}

}  // namespace

std::shared_ptr<Runtime> runtime_of(nb::handle object) {
  if (!nb::isinstance<PyRuntime>(object))
    throw Error(ErrorCode::bad_input, "runtime: a kiln.Runtime is needed");
  return nb::cast<PyRuntime&>(object).runtime;
}

void bind_runtime(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "version", [] { return version(); }, "Version of kiln, \"major.minor.patch\".");
  module.def(
      "generate",
      [](const std::string& config) {
        const KernelSource source = generate(plan_of(config));
        return nb::make_tuple(source.text, to_json(source.manifest, -1));
      },
      "config"_a);
  module.def(
      "plan", [](const std::string& config) { return plan_of(config).to_json(-1); }, "config"_a);

  nb::class_<PyRuntime>(module, "Runtime")
      .def(nb::init<std::optional<std::string>, std::optional<std::string>, bool>(), "device"_a = nb::none(),
           "cache_dir"_a = nb::none(), "ptx_only"_a = false)
      .def("load", &PyRuntime::load, "config"_a, "source"_a = nb::none())
      .def("load_image", &PyRuntime::load_image, "manifest"_a, "image"_a)
      .def("device", [](PyRuntime& self) { return device_dict(self.runtime->device()); })
      .def("doctor", &PyRuntime::doctor)
      .def("synchronize",
           [](PyRuntime& self) {
             const nb::gil_scoped_release others_may_run;
             self.runtime->synchronize();
           })
      .def("cache_stats", [](PyRuntime& self) { return stats_dict(self.runtime->cache().stats()); })
      .def("cache_list", &entries_of)
      .def("cache_verify",
           [](PyRuntime& self) {
             const CacheVerifyResult result = self.runtime->cache().verify();
             return nb::make_tuple(result.checked, result.bad);
           })
      .def("cache_clear", [](PyRuntime& self) { return self.runtime->cache().clear(); })
      .def(
          "cache_prune",
          [](PyRuntime& self, std::uint64_t bytes) { return self.runtime->cache().prune(bytes); },
          "max_bytes"_a)
      .def(
          "cache_export",
          [](PyRuntime& self, const std::string& path, const std::vector<std::string>& keys) {
            return self.runtime->cache().export_to(path, keys);
          },
          "path"_a, "keys"_a)
      .def(
          "cache_import",
          [](PyRuntime& self, const std::string& path) { return self.runtime->cache().import_from(path); },
          "path"_a)
      .def(
          "load_append",
          [](PyRuntime& self, const std::string& config, int pairs, bool fixed) {
            std::shared_ptr<Kernel> kernel;
            {
              const nb::gil_scoped_release others_may_run;
              const AppendRotary rotary{static_cast<AppendRotary::Pairs>(pairs), fixed};
              kernel = self.runtime->load(make_append_kernel(parse_config(config, "config"), rotary));
            }
            return std::make_unique<PyKernel>(self.runtime, std::move(kernel));
          },
          "config"_a, "pairs"_a = 0, "fixed"_a = false);
}

}  // namespace kiln::python
