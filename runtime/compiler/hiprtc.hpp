// AMD's run-time compiler as a KernelCompiler. It runs in a helper process (runtime/helper/hiprtc_helper.c)
// that this library carries inside itself: a crash of the compiler is an error of the compile, and several
// run side by side.
#pragma once

#include <mutex>
#include <optional>

#include "runtime/compiler/compiler.hpp"

namespace kiln {

class Hiprtc final : public KernelCompiler {
 public:
  bool serves(std::string_view target) const override { return target.substr(0, 3) == "gfx"; }
  Offer offer(std::string_view target) override;
  std::string identity() override;
  std::vector<std::string> options(const CompileJob& job) const override;
  Binary compile(const CompileJob& job) override;
  DoctorReport::Compiler probe() override;

 private:
  struct Found {
    std::string path, identity, problem;  ///< problem: why there is none
    int major = 0, minor = 0;             ///< of the ROCm release
    std::string version() const;
  };
  const Found& found();
  std::string obstacle(std::string_view target);

  std::mutex mutex_;  // guards the search; compiles run side by side
  std::optional<Found> found_;
};

/// Files and sonames to try, in order: $KILN_HIPRTC alone when set, else the newest first. Up to ROCm 5 the
/// functions live in libamdhip64.
std::vector<std::string> hiprtc_candidates();

/// "libamdhip64.so.5.2.21153" is (5, 2); (0, 0) when the name does not say. Its own version call answers 9.0.
std::pair<int, int> rocm_version_of(const std::string& real_path);

}  // namespace kiln
