#include "python/native/tensor.hpp"

#include <string>
#include <unordered_map>

#include <kiln/error.hpp>

namespace kiln::python {
namespace {

[[noreturn]] void refuse(const char* name, const std::string& text) {
  throw Error(ErrorCode::bad_input, std::string(name) + ": " + text);
}

/// The exchange table of a type, or null; each type is asked once.
const ExchangeApi* exchange_api(PyTypeObject* type) {
  static PyTypeObject* last_type = nullptr;
  static const ExchangeApi* last = nullptr;
  if (type == last_type) return last;
  static std::unordered_map<PyTypeObject*, const ExchangeApi*> known;
  auto found = known.find(type);
  if (found == known.end()) {
    const ExchangeApi* api = nullptr;
    PyObject* capsule =
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
    if (capsule != nullptr && PyCapsule_CheckExact(capsule) != 0)
      api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    PyErr_Clear();
    Py_XDECREF(capsule);
    while (api != nullptr && api->major > 1) api = api->previous;
    if (api != nullptr && (api->tensor_from_object == nullptr || api->current_work_stream == nullptr))
      api = nullptr;
    Py_INCREF(type);  // so that its address is never another type's
    found = known.emplace(type, api).first;
  }
  last_type = type;
  return last = found->second;
}

/// The pending Python exception as text, cleared.
std::string take_exception() {
  nb::python_error error;
  return nb::str(error.value()).c_str();
}

const nb::object& streams_module() {
  // Never released: the interpreter may be gone when statics are destroyed.
  static const nb::object* const module = new nb::object(nb::module_::import_("kiln._streams"));
  return *module;
}

DLDevice device_of(const char* name, nb::handle tensor) {
  try {
    const nb::tuple device = nb::cast<nb::tuple>(tensor.attr("__dlpack_device__")());
    if (nb::len(device) != 2) refuse(name, "__dlpack_device__ is no pair of numbers");
    return {static_cast<DLDeviceType>(nb::cast<int>(nb::int_(device[0]))),
            nb::cast<int>(nb::int_(device[1]))};
  } catch (const nb::python_error& error) {
    refuse(name, nb::str(error.value()).c_str());
  } catch (const nb::cast_error&) {
    refuse(name, "__dlpack_device__ is no pair of numbers");
  }
}

}  // namespace

LaunchStream::LaunchStream(nb::handle given) {
  if (given.is_none()) return;
  known_ = true;
  const nb::object handle = streams_module().attr("handle")(given);
  if (!nb::try_cast(handle, value_)) refuse("stream", "its handle is no address of 64 bits");
}

bool LaunchStream::current(nb::handle tensor, const DLDevice& device, const ExchangeApi* api,
                           std::uint64_t& out) const {
  if (api == nullptr) {
    const nb::object found = streams_module().attr("current")(tensor);
    if (found.is_none()) return false;
    out = nb::cast<std::uint64_t>(found);
    return true;
  }
  if (api != asked_ || device.device_type != asked_device_.device_type ||
      device.device_id != asked_device_.device_id) {
    void* stream = nullptr;
    if (api->current_work_stream(device.device_type, device.device_id, &stream) != 0)
      throw nb::python_error();
    asked_ = api;
    asked_device_ = device;
    answer_ = reinterpret_cast<std::uint64_t>(stream);
  }
  out = answer_;
  return true;
}

void LaunchStream::see(nb::handle tensor, const DLDevice& device, const ExchangeApi* api) {
  if (!known_ && has_streams(device)) known_ = current(tensor, device, api, value_);
}

bool LaunchStream::must_wait(nb::handle tensor, const DLDevice& device, const ExchangeApi* api) const {
  if (!has_streams(device)) return false;
  std::uint64_t own = 0;
  return !current(tensor, device, api, own) || own != value_;
}

void Borrowed::borrow(const char* name, nb::handle tensor, LaunchStream& stream) {
  const ExchangeApi* api = exchange_api(Py_TYPE(tensor.ptr()));
  if (api != nullptr) {
    if (api->tensor_from_object(tensor.ptr(), &view_) != 0) refuse(name, take_exception());
    stream.see(tensor, view_.device, api);
    if (!stream.must_wait(tensor, view_.device, api)) return;
  }
  if (!nb::hasattr(tensor, "__dlpack__"))
    refuse(name, std::string(Py_TYPE(tensor.ptr())->tp_name) + " has no __dlpack__; a tensor is needed");
  const DLDevice device = api != nullptr ? view_.device : device_of(name, tensor);
  stream.see(tensor, device, api);
  try {
    if (has_streams(device)) {
      // -1: nothing to wait for. The protocol has 1 for CUDA's default stream, and 0 for that of ROCm.
      const std::uint64_t value = stream.value() == 0 && device.device_type != kDLROCM ? 1 : stream.value();
      const nb::int_ waits = stream.must_wait(tensor, device, api) ? nb::int_(value) : nb::int_(-1);
      capsule_ = tensor.attr("__dlpack__")(nb::arg("stream") = waits);
    } else {
      capsule_ = tensor.attr("__dlpack__")();
    }
  } catch (const nb::python_error& error) {
    refuse(name, nb::str(error.value()).c_str());
  }
  // The capsule is not consumed: its own destructor releases the tensor. DLManagedTensor begins with its
  // DLTensor.
  const void* managed = PyCapsule_GetPointer(capsule_.ptr(), "dltensor");
  if (managed == nullptr) refuse(name, take_exception());
  view_ = *static_cast<const DLTensor*>(managed);
}

}  // namespace kiln::python
