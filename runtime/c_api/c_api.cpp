// The C interface over the C++ one: exceptions become status codes and a per-thread text.
#include <kiln/kiln.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include <kiln/generator.hpp>

#include "runtime/c_api/launch.hpp"

struct kiln_runtime {
  kiln::Runtime runtime;
};
struct kiln_kernel {
  kiln_kernel(kiln::Runtime& runtime, std::shared_ptr<kiln::Kernel> kernel)
      : manifest(kiln::to_json(kernel->manifest())),
        cache(kiln::to_string(kernel->binary().cache)),
        launcher(runtime, std::move(kernel)) {}
  std::string manifest, cache;
  kiln::DlpackLauncher launcher;
};

namespace {

thread_local std::string last_error;

kiln_status status_of(kiln::ErrorCode code) {
  switch (code) {
    case kiln::ErrorCode::bad_config:
      return KILN_BAD_CONFIG;
    case kiln::ErrorCode::bad_input:
      return KILN_BAD_INPUT;
    case kiln::ErrorCode::environment:
      return KILN_ENVIRONMENT;
    case kiln::ErrorCode::compile:
      return KILN_COMPILE;
    case kiln::ErrorCode::device:
      return KILN_DEVICE;
    case kiln::ErrorCode::internal:
      return KILN_INTERNAL;
  }
  return KILN_INTERNAL;
}

template <class Work>
kiln_status guarded(const Work& work) noexcept {
  try {
    work();
    return KILN_OK;
  } catch (const kiln::Error& error) {
    last_error = error.what();
    return status_of(error.code());
  } catch (const std::exception& error) {
    last_error = error.what();
    return KILN_INTERNAL;
  }
}

void require(bool holds, const char* what) {
  if (!holds) throw kiln::Error(kiln::ErrorCode::bad_input, what);
}

kiln::KernelSource source_of(const char* config_json) {
  require(config_json != nullptr, "config_json is NULL");
  return kiln::generate(kiln::make_plan(kiln::parse_config(config_json, "config")));
}

char* copy_text(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace

const char* kiln_last_error(void) {
  return last_error.c_str();
}
const char* kiln_version(void) {
  static const std::string text(kiln::version());
  return text.c_str();
}

kiln_status kiln_runtime_create(const kiln_runtime_options* options, kiln_runtime** out) {
  return guarded([&] {
    require(out != nullptr, "out is NULL");
    require(options == nullptr || options->size >= sizeof *options,
            "options.size is not sizeof(kiln_runtime_options)");
    kiln::RuntimeOptions settings;
    if (options != nullptr && options->device != nullptr) settings.device = options->device;
    if (options != nullptr && options->cache_dir != nullptr) settings.cache_dir = options->cache_dir;
    *out = new kiln_runtime{kiln::Runtime(std::move(settings))};
  });
}
void kiln_runtime_destroy(kiln_runtime* runtime) {
  delete runtime;
}

kiln_status kiln_generate(const char* config_json, char** source, char** manifest) {
  return guarded([&] {
    const kiln::KernelSource generated = source_of(config_json);
    char* text = source == nullptr ? nullptr : copy_text(generated.text);
    if (manifest != nullptr) *manifest = copy_text(kiln::to_json(generated.manifest));
    if (source != nullptr) *source = text;
  });
}
void kiln_free(void* text) {
  std::free(text);
}

kiln_status kiln_kernel_load(kiln_runtime* runtime, const char* config_json, kiln_kernel** out) {
  return guarded([&] {
    require(runtime != nullptr && out != nullptr, "runtime or out is NULL");
    *out = new kiln_kernel(runtime->runtime, runtime->runtime.load(source_of(config_json)));
  });
}
kiln_status kiln_kernel_load_source(kiln_runtime* runtime, const char* config_json, const char* source,
                                    kiln_kernel** out) {
  return guarded([&] {
    require(runtime != nullptr && out != nullptr, "runtime or out is NULL");
    require(source != nullptr, "source is NULL");
    kiln::KernelSource edited = source_of(config_json);
    edited.text = source;
    edited.head_bytes = 0;  // where a head comment ends is unknown: all of it makes the cache key
    *out = new kiln_kernel(runtime->runtime, runtime->runtime.load(edited));
  });
}
kiln_status kiln_kernel_load_image(kiln_runtime* runtime, const char* manifest_json, const void* image,
                                   size_t bytes, kiln_kernel** out) {
  return guarded([&] {
    require(runtime != nullptr && out != nullptr, "runtime or out is NULL");
    require(manifest_json != nullptr && image != nullptr, "manifest_json or image is NULL");
    const kiln::Manifest manifest = kiln::manifest_from_json(manifest_json);
    auto binary = std::make_shared<kiln::Binary>();
    binary->name = manifest.name;
    binary->entry = manifest.entry;
    binary->target = manifest.target;
    binary->image.assign(static_cast<const char*>(image), bytes);
    if (!manifest.target.starts_with("gfx") && binary->image.find(".version") != std::string::npos)
      binary->ptx = binary->image;
    *out = new kiln_kernel(runtime->runtime, runtime->runtime.load(std::move(binary), manifest));
  });
}
void kiln_kernel_destroy(kiln_kernel* kernel) {
  delete kernel;
}

kiln_status kiln_kernel_get_info(const kiln_kernel* kernel, kiln_kernel_info* info) {
  return guarded([&] {
    require(kernel != nullptr && info != nullptr, "kernel or info is NULL");
    require(info->size >= sizeof *info, "info.size is not sizeof(kiln_kernel_info)");
    const kiln::Kernel& loaded = kernel->launcher.kernel();
    const kiln::Binary& binary = loaded.binary();
    info->name = loaded.manifest().name.c_str();
    info->manifest = kernel->manifest.c_str();
    info->cache = kernel->cache.c_str();
    info->compile_ms = binary.compile_ms;
    info->registers = binary.registers;
    info->spill_bytes = binary.spill_bytes;
    info->smem_bytes = loaded.manifest().smem_bytes + binary.static_smem_bytes;
  });
}

kiln_status kiln_kernel_launch(kiln_kernel* kernel, const kiln_attention_args* args, uint64_t stream) {
  return guarded([&] {
    require(kernel != nullptr && args != nullptr, "kernel or args is NULL");
    kernel->launcher.launch(*args, stream);
  });
}
