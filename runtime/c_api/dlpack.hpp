// DLPack tensors as kiln's, and host tensors staged through device memory.
#pragma once

#include <dlpack/dlpack.h>

#include <vector>

#include <kiln/runtime.hpp>

namespace kiln {

/// The element type of a tensor that must be `needed`; uint8 is taken for a type of 8 bits. Throws Error
/// (bad_input): the name, the type that came and the one that is needed.
DType checked_dtype(const DLTensor& tensor, const char* name, DType needed);

inline std::uint64_t address_of(const DLTensor& tensor) {
  return tensor.data == nullptr ? 0 : reinterpret_cast<std::uint64_t>(tensor.data) + tensor.byte_offset;
}

/// Shape, strides, dtype and address of a DLPack tensor of type `needed`. Throws Error (bad_input), naming
/// `name`.
Tensor tensor_from_dlpack(const DLTensor& tensor, const char* name, DType needed);

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
