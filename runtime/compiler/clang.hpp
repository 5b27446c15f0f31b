// An installed clang with the AMDGPU target and lld as a KernelCompiler. Emitted source needs no headers and
// no device libraries, so a plain clang makes the code object that ROCm's compiler would.
#pragma once

#include <mutex>
#include <optional>

#include "runtime/compiler/compiler.hpp"

namespace kiln {

class Clang final : public KernelCompiler {
 public:
  bool serves(std::string_view target) const override { return target.substr(0, 3) == "gfx"; }
  Offer offer(std::string_view target) override;
  std::string identity() override;
  std::vector<std::string> options(const CompileJob& job) const override;
  Binary compile(const CompileJob& job) override;
  DoctorReport::Compiler probe() override;

 private:
  struct Found {
    std::string path, version, identity, problem;  ///< problem: why there is none
    int major = 0;
  };
  const Found& found();
  std::string obstacle(std::string_view target);
  /// Runs clang on `text`; returns what it wrote. Its messages go to `log`.
  std::string translate(const CompileJob& job, const std::string& text, const std::string& suffix,
                        std::vector<std::string> arguments, std::string& log);
  Binary binary_of(const CompileJob& job, std::string image, std::string log, double ms);

  std::mutex mutex_;  // guards the search; compiles run side by side
  std::optional<Found> found_;
};

}  // namespace kiln
