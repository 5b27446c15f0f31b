// DLPack tensors as kiln's, and host tensors staged through device memory.
#pragma once

#include <dlpack/dlpack.h>

#include <vector>

#include <kiln/runtime.hpp>

namespace kiln {

/// Shape, strides, dtype and address of a DLPack tensor; elements of uint8 are of type `bytes`, if that is
/// one of 8 bits. Throws Error (bad_input), naming `name`.
Tensor tensor_from_dlpack(const DLTensor& tensor, const char* name, DType bytes = DType::f32);

inline bool is_on_host(const DLTensor& tensor) {
  return tensor.device.device_type == kDLCPU || tensor.device.device_type == kDLCUDAHost;
}

/// Device copies of host tensors, for one launch.
class Staging {
 public:
  explicit Staging(Runtime& runtime) : runtime_(runtime) {}
  /// Copies the memory that `tensor` spans to the device and points it there.
  void stage(Tensor& tensor, const char* name, bool copy_back);
  /// Copies what the kernel wrote back to the host.
  void finish();

 private:
  struct Copy {
    DeviceBuffer buffer;
    void* host = nullptr;
    bool back = false;
  };
  Runtime& runtime_;
  std::vector<Copy> copies_;
};

}  // namespace kiln
