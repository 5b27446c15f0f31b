// cuLink: PTX from memory and from files becomes one module.
#include <cstring>
#include <fstream>
#include <iterator>

#include "driver/api.hpp"
#include "driver/fatbin.hpp"
#include "driver/link.hpp"
#include "driver/state.hpp"

namespace kiln::driver {
namespace {

void add(Driver& d, Link& link, const std::string& bytes, const char* name) {
  require(bytes.size() >= 4, CUDA_ERROR_INVALID_IMAGE);
  Image image = choose_image(bytes.c_str(), d.options.gpu.cc());
  if (image.ptx.empty()) {
    const std::string problem = std::string(name == nullptr ? "input" : name) + ": " + image.problem;
    d.report.unsupported("cuLinkAddData", problem);
    write_log(problem, static_cast<unsigned>(link.options.size()), link.options.data(), link.values.data());
    throw Failure{CUDA_ERROR_NO_BINARY_FOR_GPU};
  }
  link.texts.push_back(std::move(image.ptx));
}

}  // namespace
}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuLinkCreate_v2(unsigned count, int* options, void** values, CUlinkState* out) {
  return on_device([&](Driver& d) {
    require(out != nullptr);
    *out = d.links.make();
    if (count == 0) return;
    (*out)->options.assign(options, options + count);
    (*out)->values.assign(values, values + count);
  });
}
KILN_API CUresult cuLinkAddData_v2(CUlinkState link, int, void* data, std::size_t bytes, const char* name,
                                   unsigned, int*, void**) {
  return on_device([&](Driver& d) {
    require(data != nullptr);
    add(d, d.links.get(link), std::string(static_cast<const char*>(data), bytes), name);
  });
}
KILN_API CUresult cuLinkAddFile_v2(CUlinkState link, int, const char* path, unsigned, int*, void**) {
  return on_device([&](Driver& d) {
    require(path != nullptr);
    std::ifstream file(path, std::ios::binary);
    require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    // libcudadevrt: launches from kernels, which are not there.
    if (bytes.starts_with("!<arch>")) return;
    add(d, d.links.get(link), bytes, path);
  });
}
KILN_API CUresult cuLinkComplete(CUlinkState handle, void** out, std::size_t* bytes) {
  return on_device([&](Driver& d) {
    Link& link = d.links.get(handle);
    require(out != nullptr);
    std::string problem;
    link.linked = link_ptx(link.texts, problem);
    if (link.linked.empty()) {
      write_log(problem, static_cast<unsigned>(link.options.size()), link.options.data(), link.values.data());
      throw Failure{CUDA_ERROR_INVALID_PTX};
    }
    *out = link.linked.data();
    if (bytes != nullptr) *bytes = link.linked.size() + 1;
  });
}
KILN_API CUresult cuLinkDestroy(CUlinkState link) {
  return guarded([&](Driver& d) { d.links.take(link); });
}

// Memory of graphs goes back when it is freed: nothing is kept.
KILN_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int, void* value) {
  return guarded([&](Driver&) {
    check_device(device);
    require(value != nullptr);
    std::memset(value, 0, 8);
  });
}
KILN_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int, void*) {
  return guarded([&](Driver&) { check_device(device); });
}
KILN_API CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return guarded([&](Driver&) { check_device(device); });
}
