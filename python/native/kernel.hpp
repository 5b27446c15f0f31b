// Kernel objects of the Python package.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "python/native/tensor.hpp"
#include "runtime/c_api/launch.hpp"

namespace kiln::python {

/// A loaded kernel; it keeps its runtime.
class PyKernel {
 public:
  PyKernel(std::shared_ptr<Runtime> runtime, std::shared_ptr<Kernel> kernel)
      : runtime_(std::move(runtime)), kernel_(kernel), launcher_(*runtime_, std::move(kernel)) {}

  const Manifest& manifest() const { return launcher_.kernel().manifest(); }
  const Binary& binary() const { return launcher_.kernel().binary(); }
  Kernel& kernel() { return *kernel_; }
  Runtime& runtime() { return *runtime_; }

  /// Tensors of the score expression, of a dict or a sequence, in the config's order; None for those it has not.
  std::array<nb::object, kCaptured> captured(nb::handle given) const;
  /// A launch with tensors in the order of Operand (None: not given). Throws Error.
  void launch(const std::array<nb::handle, kOperands>& tensors, nb::handle window, nb::handle scale,
              nb::handle stream, std::int64_t max_seqlen_q, std::int64_t max_seqlen_k,
              nb::handle launch_before, int max_blocks, nb::handle residency);
  /// The same with views of the tensors (null: not given), in the order of Operand; `args` has the numbers.
  void launch(const std::array<DLTensor*, kOperands>& views, kiln_attention_args& args, std::uint64_t stream);

 private:
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Kernel> kernel_;
  DlpackLauncher launcher_;
};

/// The name of an operand in messages.
const char* operand_name(std::size_t operand);
/// (left, right, chunk) of a launch. Throws Error (bad_input).
void set_window(kiln_attention_args& args, nb::handle window);

void bind_kernel(nb::module_& module);
void bind_calls(nb::module_& module);
void bind_runtime(nb::module_& module);
void bind_serving(nb::module_& module);
void bind_parallel(nb::module_& module);
/// The runtime of a Python object of the class Runtime. Throws Error (bad_input) for others.
std::shared_ptr<Runtime> runtime_of(nb::handle object);

}  // namespace kiln::python
