// The extension module kiln._native: the C++ library as Python classes, and errors as kiln.Error.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <kiln/error.hpp>

#include "python/native/kernel.hpp"

namespace kiln::python {
namespace {

const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_config:
      return "bad_config";
    case ErrorCode::bad_input:
      return "bad_input";
    case ErrorCode::environment:
      return "environment";
    case ErrorCode::compile:
      return "compile";
    case ErrorCode::device:
      return "device";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

void raise_error(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    nb::list violations;
    for (const Violation& violation : error.violations()) {
      nb::dict one;
      one["pointer"] = violation.pointer;
      one["value"] = violation.value;
      one["rule"] = violation.rule;
      one["suggestion"] = violation.suggestion;
      violations.append(one);
    }
    const nb::object type = nb::module_::import_("kiln._errors").attr("Error");
    const nb::object value = type(code_name(error.code()), error.what(), violations);
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

/// The stream that a launch with these tensors is on: for tests.
std::uint64_t launch_stream(const nb::list& tensors, nb::handle given) {
  LaunchStream stream(given);
  for (const nb::handle tensor : tensors) {
    if (!tensor.is_none()) Borrowed().borrow("tensor", tensor, stream);
  }
  return stream.value();
}

}  // namespace
}  // namespace kiln::python

NB_MODULE(_native, module) {
  namespace nb = nanobind;
  nb::set_leak_warnings(false);  // at the interpreter's end modules may still hold kernels
  nb::register_exception_translator(kiln::python::raise_error);
  module.def("launch_stream", &kiln::python::launch_stream, nb::arg("tensors"),
             nb::arg("stream") = nb::none());
  kiln::python::bind_kernel(module);
  kiln::python::bind_calls(module);
  kiln::python::bind_runtime(module);
  kiln::python::bind_serving(module);
  kiln::python::bind_parallel(module);
}
