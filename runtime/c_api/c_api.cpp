// The C interface over the C++ one: exceptions become status codes and a per-thread text.
#include <kiln/kiln.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include <kiln/generator.hpp>

#include "runtime/c_api/dlpack.hpp"

struct kiln_runtime {
  kiln::Runtime runtime;
};
struct kiln_kernel {
  kiln::Runtime& runtime;
  std::shared_ptr<kiln::Kernel> kernel;
  std::string manifest, cache;
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

/// Converts one tensor, staging it when it lies in host memory.
class Converter {
 public:
  Converter(kiln::Runtime& runtime, bool host) : staging_(runtime), host_(host) {}
  kiln::Tensor operator()(const DLTensor* tensor, const char* name, bool written = false,
                          kiln::DType bytes = kiln::DType::f32) {
    if (tensor == nullptr) throw kiln::Error(kiln::ErrorCode::bad_input, std::string(name) + " is NULL");
    if (kiln::is_on_host(*tensor) != host_) {
      throw kiln::Error(kiln::ErrorCode::bad_input, std::string(name) +
                                                        " and q do not lie on the same side: " +
                                                        "all tensors on the device, or all in host memory");
    }
    kiln::Tensor result = kiln::tensor_from_dlpack(*tensor, name, bytes);
    if (host_) staging_.stage(result, name, written);
    return result;
  }
  std::optional<kiln::Tensor> optional(const DLTensor* tensor, const char* name, bool written = false) {
    return tensor == nullptr ? std::nullopt : std::optional((*this)(tensor, name, written));
  }
  void finish() {
    if (host_) staging_.finish();
  }

 private:
  kiln::Staging staging_;
  bool host_;
};

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
    auto kernel = runtime->runtime.load(source_of(config_json));
    std::string manifest = kiln::to_json(kernel->manifest());
    std::string cache(kiln::to_string(kernel->binary().cache));
    *out = new kiln_kernel{runtime->runtime, std::move(kernel), std::move(manifest), std::move(cache)};
  });
}
void kiln_kernel_destroy(kiln_kernel* kernel) {
  delete kernel;
}

kiln_status kiln_kernel_get_info(const kiln_kernel* kernel, kiln_kernel_info* info) {
  return guarded([&] {
    require(kernel != nullptr && info != nullptr, "kernel or info is NULL");
    require(info->size >= sizeof *info, "info.size is not sizeof(kiln_kernel_info)");
    const kiln::Binary& binary = kernel->kernel->binary();
    info->name = kernel->kernel->manifest().name.c_str();
    info->manifest = kernel->manifest.c_str();
    info->cache = kernel->cache.c_str();
    info->compile_ms = binary.compile_ms;
    info->registers = binary.registers;
    info->spill_bytes = binary.spill_bytes;
    info->smem_bytes = kernel->kernel->manifest().smem_bytes + binary.static_smem_bytes;
  });
}

kiln_status kiln_kernel_launch(kiln_kernel* kernel, const kiln_attention_args* args, uint64_t stream) {
  return guarded([&] {
    require(kernel != nullptr && args != nullptr, "kernel or args is NULL");
    // Callers built before k_rope have none.
    require(args->size >= offsetof(kiln_attention_args, k_rope),
            "args.size is not sizeof(kiln_attention_args)");
    const DLTensor* const k_rope = args->size >= sizeof *args ? args->k_rope : nullptr;
    require(args->q != nullptr, "q is NULL");
    Converter convert(kernel->runtime, kiln::is_on_host(*args->q));
    kiln::AttentionArgs problem;
    const kiln::Manifest& manifest = kernel->kernel->manifest();
    problem.q = convert(args->q, "q", false, manifest.dtype);
    problem.k = convert(args->k, "k", false, manifest.kv_dtype);
    if (manifest.takes("v")) problem.v = convert(args->v, "v", false, manifest.kv_dtype);  // else in K's rows
    problem.k_rope = convert.optional(k_rope, "k_rope");
    problem.o = convert(args->o, "o", true);
    problem.lse = convert.optional(args->lse, "lse", true);
    problem.cu_seqlens_q = convert.optional(args->cu_seqlens_q, "cu_seqlens_q");
    problem.cu_seqlens_k = convert.optional(args->cu_seqlens_k, "cu_seqlens_k");
    problem.page_table = convert.optional(args->page_table, "page_table");
    problem.seqlens_k = convert.optional(args->seqlens_k, "seqlens_k");
    problem.q_scale = convert.optional(args->q_scale, "q_scale");
    problem.k_scale = convert.optional(args->k_scale, "k_scale");
    problem.v_scale = convert.optional(args->v_scale, "v_scale");
    problem.sink = convert.optional(args->sink, "sink");
    problem.mask_bits = convert.optional(args->mask_bits, "mask_bits");
    problem.max_seqlen_q = args->max_seqlen_q;
    problem.max_seqlen_k = args->max_seqlen_k;
    if (args->scale != nullptr) problem.scale = *args->scale;
    kiln::LaunchOptions options;
    options.stream = stream;
    require(args->launch_before >= 0 && args->launch_before <= 2, "launch_before is not 0, 1 or 2");
    options.before = static_cast<kiln::LaunchBefore>(args->launch_before);
    options.max_blocks = args->max_blocks;
    const auto report = kernel->kernel->launch(problem, options);
    if (report && (!report->findings.empty() || !report->completed)) {
      throw kiln::Error(kiln::ErrorCode::device, report->findings.empty()
                                                     ? "the emulated device stopped the kernel"
                                                     : "emulated device: " + report->findings[0].message);
    }
    convert.finish();
  });
}
