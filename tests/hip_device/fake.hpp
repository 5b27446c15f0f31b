// The stand-in for the HIP runtime (fake_hip.c) in use: options, a binary and a problem for it.
#pragma once

#include "tests/runtime/amd_support.hpp"

namespace kiln::test {

// Before the first use of the library, which is opened once for the process.
inline const ScopedEnv kFake("KILN_HIP", KILN_FAKE_HIP);

inline RuntimeOptions on_hip() {
  RuntimeOptions options = quiet();
  options.device = "hip";
  return options;
}

inline std::shared_ptr<Binary> fake_binary(const std::string& target = "gfx942") {
  auto binary = std::make_shared<Binary>();
  binary->name = binary->entry = "report";
  binary->target = target;
  binary->image =
      "\x7f"
      "ELF and more";
  return binary;
}

inline Manifest report_manifest() {
  Manifest manifest;
  manifest.name = manifest.entry = "report";
  manifest.target = "gfx942";
  manifest.num_threads = 256;
  manifest.smem_bytes = 49152;
  manifest.grid.block_rows = 64;
  manifest.depth = manifest.ov_depth = 64;
  manifest.scale = 1;
  KernelParam out, heads;
  out.role = "o";
  heads.kind = KernelParam::Kind::i32;
  heads.role = "heads_q";
  manifest.params = {out, heads};
  return manifest;
}

inline AttentionArgs problem(const DeviceBuffer& out) {
  AttentionArgs args;
  args.q = Tensor::dense(out.address(), DType::bf16, {2, 130, 4, 64});
  args.k = args.v = Tensor::dense(out.address(), DType::bf16, {2, 70, 4, 64});
  args.o = args.q;
  return args;
}

}  // namespace kiln::test
