// Launches with DLPack tensors: checks where they are and of what type, and finds the launch by its shapes.
#pragma once

#include <kiln/kiln.h>

#include <array>
#include <memory>
#include <string>

#include "runtime/c_api/dlpack.hpp"
#include "runtime/launch/kernel.hpp"

namespace kiln {

class DlpackLauncher {
 public:
  /// `runtime` must outlive this.
  DlpackLauncher(Runtime& runtime, std::shared_ptr<Kernel> kernel);

  const Kernel& kernel() const { return *kernel_; }
  /// kiln_kernel_launch. Throws Error; bad_input names the argument, what came and what is needed.
  void launch(const kiln_attention_args& args, std::uint64_t stream);

 private:
  using Tensors = std::array<const DLTensor*, kOperands>;
  void check_place(const DLTensor& tensor, const char* name, bool host) const;
  AttentionArgs convert(const Tensors& tensors, const kiln_attention_args& args, Staging* staging) const;

  Runtime& runtime_;
  std::shared_ptr<Kernel> kernel_;
  PreparingKernel* preparing_;  ///< the same
  std::array<DType, kOperands> needed_;
  bool takes_v_;
  std::string selector_;  ///< of the runtime's device
  std::int32_t device_type_ = 0, device_id_ = 0;
};

}  // namespace kiln
