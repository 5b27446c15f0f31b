// Tensor maps: what cuTensorMapEncode* and cuTensorMapReplaceAddress make of their arguments.
#include <algorithm>
#include <cstring>

#include "driver/api.hpp"
#include "driver/state.hpp"

namespace kiln::driver {
namespace {

void write(void* map, const em::TensorMapRequest& request) {
  require(em::check_tensor_map(request).empty());
  const em::TensorMapBytes bytes = em::encode_tensor_map(request);
  std::memcpy(map, bytes.data(), bytes.size());
}

/// What both kinds of maps have.
struct Common {
  unsigned type;
  std::uint32_t rank;
  void* address;
  const std::uint64_t *dims, *strides;
  const std::uint32_t* element_strides;
  unsigned interleave, swizzle, fill;
};
em::TensorMapRequest common(const Common& c) {
  require(c.rank >= 1 && c.rank <= 5 && c.interleave <= 2 && c.fill <= 1);
  require(c.dims != nullptr && c.element_strides != nullptr && (c.rank == 1 || c.strides != nullptr));
  constexpr unsigned kLastType = 15, kLastSwizzle = 6;
  require(c.type <= kLastType && c.swizzle <= kLastSwizzle);
  em::TensorMapRequest request;
  request.type = static_cast<em::TensorType>(c.type);
  request.rank = c.rank;
  request.address = address_of(c.address);
  std::copy_n(c.dims, c.rank, request.dims.begin());
  if (c.rank > 1) std::copy_n(c.strides, c.rank - 1, request.strides.begin());
  std::copy_n(c.element_strides, c.rank, request.element_strides.begin());
  request.interleave = static_cast<em::TensorInterleave>(c.interleave);
  request.swizzle = static_cast<em::Swizzle>(c.swizzle);
  request.oob_fill = static_cast<em::OobFill>(c.fill);
  return request;
}

}  // namespace
}  // namespace kiln::driver

using namespace kiln::driver;  // NOLINT(google-build-using-namespace)

KILN_API CUresult cuTensorMapEncodeTiled(void* map, unsigned type, std::uint32_t rank, void* address,
                                         const std::uint64_t* dims, const std::uint64_t* strides,
                                         const std::uint32_t* box, const std::uint32_t* element_strides,
                                         unsigned interleave, unsigned swizzle, unsigned, unsigned fill) {
  return guarded([&](Driver&) {
    require(map != nullptr && box != nullptr);
    em::TensorMapRequest request =
        common({type, rank, address, dims, strides, element_strides, interleave, swizzle, fill});
    std::copy_n(box, rank, request.box.begin());
    write(map, request);
  });
}
KILN_API CUresult cuTensorMapEncodeIm2col(void* map, unsigned type, std::uint32_t rank, void* address,
                                          const std::uint64_t* dims, const std::uint64_t* strides,
                                          const int* lower_corner, const int* upper_corner,
                                          std::uint32_t channels, std::uint32_t pixels,
                                          const std::uint32_t* element_strides, unsigned interleave,
                                          unsigned swizzle, unsigned, unsigned fill) {
  return guarded([&](Driver& d) {
    require(map != nullptr && lower_corner != nullptr && upper_corner != nullptr && rank >= 3);
    em::TensorMapRequest request =
        common({type, rank, address, dims, strides, element_strides, interleave, swizzle, fill});
    if (interleave != 0) {
      d.report.unsupported("cuTensorMapEncodeIm2col", "interleaved layouts");
      throw Failure{CUDA_ERROR_NOT_SUPPORTED};
    }
    request.mode = em::TensorMapMode::im2col;
    request.box = {channels, pixels, 1, 1, 1};
    std::copy_n(lower_corner, rank - 2, request.lower_corner.begin());
    std::copy_n(upper_corner, rank - 2, request.upper_corner.begin());
    write(map, request);
  });
}
KILN_API CUresult cuTensorMapEncodeIm2colWide(void* map, unsigned type, std::uint32_t rank, void* address,
                                              const std::uint64_t* dims, const std::uint64_t* strides,
                                              int lower_corner, int upper_corner, std::uint32_t channels,
                                              std::uint32_t pixels, const std::uint32_t* element_strides,
                                              unsigned interleave, unsigned mode, unsigned swizzle, unsigned,
                                              unsigned fill) {
  return guarded([&](Driver&) {
    require(map != nullptr && rank >= 3 && mode <= 1 && interleave == 0);
    em::TensorMapRequest request =
        common({type, rank, address, dims, strides, element_strides, interleave, swizzle, fill});
    request.mode = mode == 0 ? em::TensorMapMode::im2col_w : em::TensorMapMode::im2col_w128;
    request.box = {channels, mode == 0 ? pixels : 128, 1, 1, 1};
    request.lower_corner[0] = lower_corner;
    request.upper_corner[0] = upper_corner;
    write(map, request);
  });
}
KILN_API CUresult cuTensorMapReplaceAddress(void* map, void* address) {
  return guarded([&](Driver&) {
    require(map != nullptr);
    em::TensorMapBytes bytes;
    std::memcpy(bytes.data(), map, bytes.size());
    auto request = em::decode_tensor_map(bytes);
    require(request.has_value());
    request->address = address_of(address);
    write(map, *request);
  });
}
