// Tensors of Python libraries as DLTensors, and the streams that their work is on.
#pragma once

#include <dlpack/dlpack.h>
#include <nanobind/nanobind.h>

#include <cstdint>

namespace kiln::python {

namespace nb = nanobind;

/// The C exchange table of DLPack 1.3, which `type(tensor).__dlpack_c_exchange_api__` has; later than the
/// header that this is built with.
struct ExchangeApi {
  std::uint32_t major, minor;
  ExchangeApi* previous;
  void *allocator, *managed_from_object, *managed_to_object;
  int (*tensor_from_object)(void* object, DLTensor* out);  ///< may be null
  int (*current_work_stream)(std::int32_t device_type, std::int32_t device_id, void** stream);
};

/// Streams have no meaning for tensors in host memory.
inline bool has_streams(const DLDevice& device) {
  constexpr int kCudaManaged = 13;
  return device.device_type == kDLCUDA || device.device_type == kCudaManaged || device.device_type == kDLROCM;
}

/// The stream of a launch: the one given, else the current one of the first tensor's library, found while
/// tensors are borrowed.
class LaunchStream {
 public:
  /// None or a stream object or an integer; throws Error (bad_input).
  explicit LaunchStream(nb::handle given);
  /// To be called with each tensor in order, `api` null for a library without the table.
  void see(nb::handle tensor, const DLDevice& device, const ExchangeApi* api);
  /// Whether the work on `tensor` that is under way is on another stream.
  bool must_wait(nb::handle tensor, const DLDevice& device, const ExchangeApi* api) const;
  std::uint64_t value() const { return value_; }

 private:
  /// The current stream of the library of `tensor`. False: it has none.
  bool current(nb::handle tensor, const DLDevice& device, const ExchangeApi* api, std::uint64_t& out) const;

  bool known_ = false;
  std::uint64_t value_ = 0;
  // What a library answered last: the tensors of a launch are on one device.
  mutable const ExchangeApi* asked_ = nullptr;
  mutable DLDevice asked_device_{};
  mutable std::uint64_t answer_ = 0;
};

/// A tensor in use by one launch. The view is valid while this and the object live.
class Borrowed {
 public:
  /// Throws Error (bad_input) where `tensor` is none.
  void borrow(const char* name, nb::handle tensor, LaunchStream& stream);
  const DLTensor& view() const { return view_; }
  DLTensor& view() { return view_; }

 private:
  DLTensor view_{};
  nb::object capsule_;
};

}  // namespace kiln::python
