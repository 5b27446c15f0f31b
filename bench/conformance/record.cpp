// Runs the conformance suite on a GPU and records what every case produced. Needs a driver (opened at run
// time) and nothing else of CUDA but its header: the kernels are PTX that the driver compiles.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulator/conformance/recording.hpp"
#include "tests/emulator/conformance/suite.hpp"

namespace {

using conformance::Case;

/// The driver's entry points, named as in its header.
struct Driver {
  bool open() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
      std::fprintf(stderr, "record: no CUDA driver: %s\n", dlerror());
      return false;
    }
    bool ok = true;
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function) std::fprintf(stderr, "record: the driver lacks %s\n", name);
      ok = ok && function;
    };
    load(init, "cuInit");
    load(driver_version, "cuDriverGetVersion");
    load(device_name, "cuDeviceGetName");
    load(context_create, "cuDevicePrimaryCtxRetain");
    load(context_set, "cuCtxSetCurrent");
    load(module_load, "cuModuleLoadDataEx");
    load(module_function, "cuModuleGetFunction");
    load(module_unload, "cuModuleUnload");
    load(set_attribute, "cuFuncSetAttribute");
    load(allocate, "cuMemAlloc_v2");
    load(copy_in, "cuMemcpyHtoD_v2");
    load(copy_out, "cuMemcpyDtoH_v2");
    load(launch, "cuLaunchKernel");
    load(query, "cuStreamQuery");
    load(error_name, "cuGetErrorName");
    load(encode_tiled, "cuTensorMapEncodeTiled");
    return ok;
  }
  decltype(&cuInit) init;
  decltype(&cuDriverGetVersion) driver_version;
  decltype(&cuDeviceGetName) device_name;
  decltype(&cuDevicePrimaryCtxRetain) context_create;
  decltype(&cuCtxSetCurrent) context_set;
  decltype(&cuModuleLoadDataEx) module_load;
  decltype(&cuModuleGetFunction) module_function;
  decltype(&cuModuleUnload) module_unload;
  decltype(&cuFuncSetAttribute) set_attribute;
  decltype(&cuMemAlloc) allocate;
  decltype(&cuMemcpyHtoD) copy_in;
  decltype(&cuMemcpyDtoH) copy_out;
  decltype(&cuLaunchKernel) launch;
  decltype(&cuStreamQuery) query;
  decltype(&cuGetErrorName) error_name;
  decltype(&cuTensorMapEncodeTiled) encode_tiled;
};

/// What a child process tells its parent, in memory they share.
struct Progress {
  std::size_t next = 0;  ///< first case that has not been run
  int failures = 0;
};

/// Runs cases; after a kernel that faults or hangs nothing more can be run in this process.
class Runner {
 public:
  Runner(const Driver& driver, Progress& progress) : driver_(driver), progress_(progress) {}

  bool start(std::string& device_text) {
    CUcontext context = nullptr;
    char name[256] = {};
    int version = 0;
    if (!ok(driver_.init(0), "cuInit") ||
        !ok(driver_.context_create(&context, 0), "cuDevicePrimaryCtxRetain") ||
        !ok(driver_.context_set(context), "cuCtxSetCurrent")) {
      return false;
    }
    driver_.device_name(name, sizeof name, 0);
    driver_.driver_version(&version);
    device_text = std::string(name) + ", driver for CUDA " + std::to_string(version / 1000) + "." +
                  std::to_string(version % 1000 / 10);
    return ok(driver_.allocate(&input_, kBufferBytes), "cuMemAlloc") &&
           ok(driver_.allocate(&output_, kBufferBytes), "cuMemAlloc");
  }

  /// Compiles the cases as one module; on failure halves the set to find those that do not compile.
  void run(const std::vector<Case>& cases, std::size_t begin, std::size_t end,
           conformance::Recording& recording) {
    if (begin >= end || dead_) return;
    std::string text = conformance::kModuleHeader;
    // One declaration of the dynamic shared memory serves all kernels of a module.
    bool declared = false;
    for (std::size_t i = begin; i < end; ++i) {
      std::string kernel = conformance::kernel_text(cases[i], "k" + std::to_string(i));
      if (kernel.rfind(".extern", 0) == 0) {
        const std::size_t line = kernel.find('\n') + 1;
        if (declared) kernel.erase(0, line);
        declared = true;
      }
      text += kernel;
    }
    char log[2048] = {};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    CUmodule module = nullptr;
    const CUresult loaded = driver_.module_load(&module, text.c_str(), 2, options, values);
    if (loaded != CUDA_SUCCESS) {
      if (end - begin > 1) {
        const std::size_t middle = begin + (end - begin) / 2;
        run(cases, begin, middle, recording);
        run(cases, middle, end, recording);
      } else {
        progress_.next = begin + 1;
        std::printf("NOT COMPILED %s: %s\n", cases[begin].name.c_str(), log);
        ++progress_.failures;
      }
      return;
    }
    for (std::size_t i = begin; i < end && !dead_; ++i) {
      progress_.next = i + 1;
      run_case(module, cases[i], "k" + std::to_string(i), recording);
    }
    if (dead_) return;
    driver_.module_unload(module);
  }

  bool lost() const { return dead_; }

 private:
  static constexpr std::size_t kBufferBytes = 1 << 20;

  bool ok(CUresult result, const std::string& what) {
    if (result == CUDA_SUCCESS) return true;
    const char* name = "?";
    driver_.error_name(result, &name);
    std::printf("FAILED %s: %s\n", what.c_str(), name);
    ++progress_.failures;
    return false;
  }

  /// Waits for the launched kernel, ten seconds at most.
  bool finished(const std::string& name) {
    const auto begin = std::chrono::steady_clock::now();
    CUresult result = driver_.query(nullptr);
    while (result == CUDA_ERROR_NOT_READY &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(10)) {
      std::this_thread::yield();
      result = driver_.query(nullptr);
    }
    dead_ = result != CUDA_SUCCESS;
    return ok(result, name);
  }

  bool encode(const Case& c, CUtensorMap& map) {
    const kiln::emulator::TensorMapRequest& r = *c.map;
    const CUdeviceptr base = (c.map_on_output ? output_ : input_) + r.address;
    cuuint64_t dims[5], strides[5];
    cuuint32_t box[5], element_strides[5];
    for (int i = 0; i < 5; ++i) {
      dims[i] = r.dims[static_cast<std::size_t>(i)];
      strides[i] = i < 4 ? r.strides[static_cast<std::size_t>(i)] : 0;
      box[i] = r.box[static_cast<std::size_t>(i)];
      element_strides[i] = r.element_strides[static_cast<std::size_t>(i)];
    }
    // The request's enumerations are numbered as the driver's.
    return ok(driver_.encode_tiled(&map, static_cast<CUtensorMapDataType>(r.type), r.rank,
                                   reinterpret_cast<void*>(base), dims, strides, box, element_strides,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, static_cast<CUtensorMapSwizzle>(r.swizzle),
                                   CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                   static_cast<CUtensorMapFloatOOBfill>(r.oob_fill)),
              "cuTensorMapEncodeTiled for " + c.name);
  }

  void run_case(CUmodule module, const Case& c, const std::string& entry, conformance::Recording& recording) {
    CUfunction function = nullptr;
    if (c.input.size() > kBufferBytes || c.output.size() > kBufferBytes) {
      std::printf("FAILED %s: buffers too large\n", c.name.c_str());
      ++progress_.failures;
      return;
    }
    alignas(64) CUtensorMap map;
    if (c.map && !encode(c, map)) return;
    if (!ok(driver_.module_function(&function, module, entry.c_str()), "cuModuleGetFunction for " + c.name) ||
        !ok(driver_.set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  static_cast<int>(c.dynamic_shared_bytes)),
            "cuFuncSetAttribute for " + c.name) ||
        !ok(driver_.copy_in(input_, c.input.data(), c.input.size()), "copy for " + c.name) ||
        !ok(driver_.copy_in(output_, c.output.data(), c.output.size()), "copy for " + c.name)) {
      return;
    }
    void* parameters[] = {&input_, &output_, &map};
    std::vector<std::uint8_t> output(c.output.size());
    if (!ok(driver_.launch(function, 1, 1, 1, c.threads, 1, 1, c.dynamic_shared_bytes, nullptr, parameters,
                           nullptr),
            "launch of " + c.name) ||
        !finished(c.name) ||
        !ok(driver_.copy_out(output.data(), output_, output.size()), "copy from " + c.name)) {
      return;
    }
    const bool needs_bytes = c.bound.kind != conformance::Bound::Kind::exact;
    recording.cases[c.name] = conformance::record_output(conformance::case_hash(c), output, needs_bytes);
  }

  const Driver& driver_;
  Progress& progress_;
  CUdeviceptr input_ = 0, output_ = 0;
  bool dead_ = false;
};

/// One process's share: runs from progress.next on, until the end or a lost device, and leaves the outputs in
/// `path`.
int run_share(const std::vector<Case>& cases, const std::string& path, Progress& progress) {
  Driver driver{};
  if (!driver.open()) return 3;
  Runner runner(driver, progress);
  conformance::Recording recording;
  if (!runner.start(recording.device)) return 3;
  constexpr std::size_t kCasesPerModule = 32;
  while (progress.next < cases.size() && !runner.lost()) {
    const std::size_t begin = progress.next;
    runner.run(cases, begin, std::min(begin + kCasesPerModule, cases.size()), recording);
  }
  return conformance::save(recording, path) ? 0 : 1;
}

/// Runs everything, a new process after each case that loses the device.
int record(const std::vector<Case>& cases, const std::string& path) {
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  Progress& progress = *new (shared) Progress;
  conformance::Recording all;
  const auto begin = std::chrono::steady_clock::now();
  while (progress.next < cases.size()) {
    const std::size_t before = progress.next;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      const int status = run_share(cases, path, progress);
      std::fflush(stdout);
      _exit(status);  // a lost device may hang the driver's own clean-up
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
      return 3;
    std::string error;
    const auto share = conformance::load(path, error);
    if (!share || progress.next == before) return 1;
    all.device = share->device;
    all.cases.insert(share->cases.begin(), share->cases.end());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%s: %zu of %zu cases recorded in %.1f s, %d failures\n", all.device.c_str(), all.cases.size(),
              cases.size(), seconds, progress.failures);
  if (!conformance::save(all, path)) {
    std::fprintf(stderr, "record: cannot write %s\n", path.c_str());
    return 1;
  }
  return progress.failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr,
                 "usage: record OUTPUT_FILE [FAMILY]\nruns the conformance suite (or the cases whose name "
                 "starts with FAMILY) on GPU 0\n");
    return 2;
  }
  std::vector<Case> cases = conformance::all_cases();
  if (argc == 3) std::erase_if(cases, [&](const Case& c) { return c.name.rfind(argv[2], 0) != 0; });
  return record(cases, argv[1]);
}
