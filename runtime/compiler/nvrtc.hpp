// NVIDIA's run-time compiler as a KernelCompiler. One compile gives the PTX (with line tables) and the cubin.
#pragma once

#include <mutex>
#include <optional>

#include "runtime/compiler/compiler.hpp"
#include "runtime/compiler/nvrtc_api.hpp"

namespace kiln {

class Nvrtc final : public KernelCompiler {
 public:
  /// `driver_cuda_major` is asked once, when the library is opened; 0 means no driver.
  explicit Nvrtc(std::function<int()> driver_cuda_major) : driver_cuda_major_(std::move(driver_cuda_major)) {}

  bool serves(std::string_view target) const override { return target.substr(0, 3) == "sm_"; }
  Offer offer(std::string_view target) override;
  std::string identity() override;
  /// 90 for sm_90 and sm_90a: all that it compiles for, in ascending order; none where it cannot tell. Throws Error
  /// (environment) when absent.
  std::vector<int> architectures();
  std::vector<std::string> options(const CompileJob& job) const override;
  Binary compile(const CompileJob& job) override;
  DoctorReport::Compiler probe() override;

 private:
  const NvrtcApi& api();

  std::function<int()> driver_cuda_major_;
  std::mutex mutex_;  // guards opening; compiles run side by side
  std::optional<NvrtcApi> api_;
  std::string identity_;
};

}  // namespace kiln
