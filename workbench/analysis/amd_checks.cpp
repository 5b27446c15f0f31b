#include "workbench/analysis/amd_checks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <kiln/error.hpp>

namespace kiln {

std::vector<std::string> amd_static_checks(const Plan& plan, const Manifest& manifest, const Binary& binary) {
  std::vector<std::string> broken;
  if (!binary.target.starts_with("gfx")) return broken;
  const Resources resources = plan.resources();
  if (resources.max_registers > 0 && binary.registers > resources.max_registers) {
    broken.push_back(
        fmt::format("{} vector registers, the plan has {}", binary.registers, resources.max_registers));
  }
  if (const int lds = manifest.smem_bytes + binary.static_smem_bytes; lds != resources.smem_bytes) {
    broken.push_back(fmt::format("{} bytes of LDS, the plan has {}", lds, resources.smem_bytes));
  }
  AmdLoopModel loop;
  try {
    loop = model_amd_loop(binary, manifest);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    broken.emplace_back(error.what());
    return broken;
  }
  const auto none = [&](int count, const char* what) {
    if (count > 0) broken.push_back(fmt::format("{} {} in the main loop", count, what));
  };
  none(loop.scratch, "accesses of scratch memory");
  // The block form of V reads single elements; how many the manifest says.
  if (plan.resolved().v_load != "block") none(loop.narrow_lds, "LDS accesses of less than 4 bytes");
  // A captured tensor is read an element at a time.
  const bool narrow_tensors = std::any_of(manifest.captured.begin(), manifest.captured.end(),
                                          [](const auto& tensor) { return size_of(tensor.dtype) < 4; });
  if (!narrow_tensors) none(loop.narrow_loads, "memory accesses of less than 4 bytes");
  // A copy of 16 bytes a lane takes up to 16 rows, which must lie in one page.
  if (binary.target == "gfx950" && manifest.page_size % 16 == 0)
    none(loop.narrow_dma, "copies to LDS of less than 16 bytes a lane");
  int planned = 0;
  for (const Manifest::Expectation& expected : manifest.expectations) {
    if (expected.instruction.starts_with("v_mfma")) planned += expected.count;
  }
  // Of a ping-pong kernel's the first S' stands before the loop: less than half of the loop's two tiles.
  const int before = loop.two_groups ? planned - loop.mfma : 0;
  if (loop.two_groups && before > 0 && 2 * before < loop.mfma) planned = loop.mfma;
  if (planned > 0 && loop.mfma % planned != 0) {
    broken.push_back(fmt::format("{} matrix instructions in the main loop, no multiple of the {} planned",
                                 loop.mfma, planned));
  }
  return broken;
}

}  // namespace kiln
