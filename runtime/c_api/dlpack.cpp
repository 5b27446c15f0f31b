#include "runtime/c_api/dlpack.hpp"

#include <fmt/format.h>

namespace kiln {
namespace {

std::optional<DType> dtype_of(DLDataType type) {
  if (type.lanes != 1) return std::nullopt;
  if (type.code == kDLBfloat && type.bits == 16) return DType::bf16;
  if (type.code == kDLFloat && type.bits == 16) return DType::fp16;
  if (type.code == kDLFloat && type.bits == 32) return DType::f32;
  if ((type.code == kDLInt || type.code == kDLUInt) && type.bits == 32) return DType::i32;
  if (type.code == kDLInt && type.bits == 8) return DType::int8;
  // Codes of DLPack 1.1, later than the header this is built with.
  if (type.code == 10 && type.bits == 8) return DType::fp8_e4m3;
  if (type.code == 11 && type.bits == 8) return DType::fp8_e4m3fnuz;
  if (type.code == 14 && type.bits == 8) return DType::ue8m0;
  return std::nullopt;
}

/// As array libraries call it: "bfloat16".
std::string type_name(DLDataType type) {
  static constexpr const char* kCodes[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  static constexpr const char* kSmall[] = {"float8_e3m4",     "float8_e4m3",     "float8_e4m3b11fnuz",
                                           "float8_e4m3fn",   "float8_e4m3fnuz", "float8_e5m2",
                                           "float8_e5m2fnuz", "float8_e8m0fnu"};
  if (type.lanes != 1) return fmt::format("DLPack type {} of {} lanes", type.code, type.lanes);
  if (type.code < 7) return type.code == 6 ? "bool" : fmt::format("{}{}", kCodes[type.code], type.bits);
  if (type.code < 15 && type.bits == 8) return kSmall[type.code - 7];
  return fmt::format("DLPack type {} of {} bits", type.code, type.bits);
}
const char* type_name(DType type) {
  switch (type) {
    case DType::bf16:
      return "bfloat16";
    case DType::fp16:
      return "float16";
    case DType::fp8_e4m3:
      return "float8_e4m3fn";
    case DType::fp8_e4m3fnuz:
      return "float8_e4m3fnuz";
    case DType::int8:
      return "int8";
    case DType::i32:
      return "int32";
    case DType::f32:
      return "float32";
    case DType::ue8m0:
      return "float8_e8m0fnu";
    case DType::fp4_e2m1:
      return "uint8 of two float4_e2m1fn";
  }
  return "";
}

/// Bytes from the first element to the end of the last.
std::size_t span_bytes(const Tensor& tensor, const char* name) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 0) return 0;
    std::int64_t step = 0;
    if (tensor.strides[i] < 0 || __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last) || last > (std::int64_t{1} << 40)) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("{}: its shape and strides span no sensible memory", name));
    }
  }
  return static_cast<std::size_t>(last + 1) * size_of(tensor.dtype);
}

}  // namespace

DType checked_dtype(const DLTensor& tensor, const char* name, DType needed) {
  const DLDataType type = tensor.dtype;
  const bool untyped = type.code == kDLUInt && type.bits == 8 && type.lanes == 1;
  if ((untyped && size_of(needed) == 1) || dtype_of(type) == needed) return needed;
  throw Error(ErrorCode::bad_input,
              fmt::format("{}: {}; {} is needed", name, type_name(type), type_name(needed)));
}

Tensor tensor_from_dlpack(const DLTensor& source, const char* name, DType needed) {
  const DType dtype = checked_dtype(source, name, needed);
  if (source.ndim < 0 || source.ndim > 8 || (source.ndim > 0 && source.shape == nullptr)) {
    throw Error(ErrorCode::bad_input, fmt::format("{}: {} dimensions are not supported", name, source.ndim));
  }
  std::vector<std::int64_t> shape(source.shape, source.shape + source.ndim);
  for (const std::int64_t extent : shape) {
    if (extent < 0 || extent > INT32_MAX) {
      throw Error(ErrorCode::bad_input, fmt::format("{}: extent {} is not supported", name, extent));
    }
  }
  const std::uint64_t address = address_of(source);
  if (source.strides == nullptr) return Tensor::dense(address, dtype, std::move(shape));
  return {address, dtype, std::move(shape),
          std::vector<std::int64_t>(source.strides, source.strides + source.ndim)};
}

void Staging::stage(Tensor& tensor, const char* name, bool copy_back) {
  const std::size_t bytes = span_bytes(tensor, name);
  if (bytes > 0 && tensor.address == 0)
    throw Error(ErrorCode::bad_input, fmt::format("{} has no memory", name));
  Copy copy{runtime_.allocate(bytes, name), reinterpret_cast<void*>(tensor.address), copy_back};
  copy.buffer.write({static_cast<const std::byte*>(copy.host), bytes});
  tensor.address = copy.buffer.address();
  copies_.push_back(std::move(copy));
}

void Staging::finish() {
  runtime_.synchronize();
  for (const Copy& copy : copies_) {
    if (copy.back) copy.buffer.read({static_cast<std::byte*>(copy.host), copy.buffer.size()});
  }
}

}  // namespace kiln
