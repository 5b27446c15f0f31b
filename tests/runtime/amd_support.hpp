// HIP sources for the runtime's tests: what a kernel needs without ROCm's headers, as kiln emits it.
#pragma once

#include "tests/runtime/support.hpp"

namespace kiln::test {

inline const std::string kHipPrelude = R"(#ifndef __HIPCC_RTC__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif
#define KERNEL(lanes) extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(lanes, lanes))) void
#define LANE ((int)__builtin_amdgcn_workitem_id_x())
)";

/// A source for an AMD target; its head comment is one line.
inline KernelSource hip_source(const std::string& name, const std::string& body, const std::string& target) {
  KernelSource source = make_source(name, kHipPrelude + body);
  source.manifest.target = target;
  source.manifest.num_threads = 64;
  return source;
}

/// A tiny kernel that differs by `tag`.
inline KernelSource tiny_hip(int tag, const std::string& target) {
  return hip_source("tiny" + std::to_string(tag),
                    "KERNEL(64) kernel(int* out) { out[LANE] = " + std::to_string(tag) + "; }\n", target);
}

}  // namespace kiln::test
