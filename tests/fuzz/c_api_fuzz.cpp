// Sequences of calls of the C interface: handles are created, used and destroyed in any order that the header
// allows, texts and tensors are what the bytes say. Every call ends with a status, and a failure with a text.
// Needs NVRTC for launches.
#include <kiln/kiln.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool done() const { return at_ >= size_; }
  unsigned next() { return done() ? 0 : data_[at_++]; }
  unsigned below(unsigned count) { return next() % count; }
  std::string text() {
    std::string result;
    for (unsigned left = next() % 64; left > 0 && !done(); --left) result += static_cast<char>(next());
    return result;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

constexpr const char* kConfigs[] = {
    R"({"target": "sm_80", "operation": "prefill", "dtype": "fp16", "depth": 64, "mask": "causal", "lse": true})",
    R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 64, "operand": {"kind": "ragged"}})",
    R"({"target": "sm_80", "operation": "decode", "dtype": "bf16", "depth": 64, "operand": {"kind": "paged", "page_size": 16}})",
};
constexpr std::int64_t kExtents[] = {0, 1, 2, 3, 16, 17, 64, -1, std::int64_t{1} << 40, INT64_MAX};
alignas(256) std::array<std::uint8_t, 1 << 18> pool;

void expect(kiln_status status) {
  if (status < KILN_OK || status > KILN_INTERNAL) std::abort();
  if (status != KILN_OK && *kiln_last_error() == '\0') std::abort();
}

/// A tensor of host memory that lies in the pool, whatever its shape says.
struct Tensor {
  DLTensor raw{};
  std::array<std::int64_t, 6> shape{}, strides{};

  explicit Tensor(Bytes& bytes, bool four) {
    raw.device = {static_cast<DLDeviceType>(bytes.below(16) == 0 ? bytes.below(20) : 1u), 0};
    raw.ndim = four ? 4 : static_cast<int>(bytes.below(6));
    for (int i = 0; i < raw.ndim; ++i) shape[static_cast<std::size_t>(i)] = kExtents[bytes.below(10)];
    if (four && bytes.below(4) != 0) shape = {1, static_cast<std::int64_t>(bytes.below(20)), 2, 64};
    raw.shape = shape.data();
    const unsigned bits = 8u << bytes.below(4);
    raw.dtype = {static_cast<std::uint8_t>(bytes.below(6)),
                 static_cast<std::uint8_t>(four && bytes.below(4) != 0 ? 16 : bits), 1};
    if (bytes.below(3) == 0) {
      for (int i = 0; i < raw.ndim; ++i) strides[static_cast<std::size_t>(i)] = kExtents[bytes.below(8)];
      raw.strides = strides.data();
    }
    raw.byte_offset = bytes.below(8) == 0 ? bytes.next() : 0;
    raw.data = bytes.below(32) == 0 ? nullptr : pool.data();
  }
  /// The caller's part of the contract: what shape and strides reach is there.
  bool inside() const {
    double last = 1, dense = 1;  // exact as far as they matter
    for (int i = 0; i < raw.ndim; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (shape[at] <= 0) return true;  // nothing is read of it
      dense *= static_cast<double>(shape[at]);
      last += static_cast<double>(shape[at] - 1) * std::fabs(static_cast<double>(strides[at]));
    }
    return (raw.strides != nullptr ? last : dense) * 16 + 256 <= static_cast<double>(pool.size());
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  kiln_runtime* runtime = nullptr;
  kiln_runtime_options options{sizeof options, "emulated", ""};
  static kiln_runtime* const shared = [&] {  // whose kernels are compiled once
    kiln_runtime* made = nullptr;
    expect(kiln_runtime_create(&options, &made));
    return made;
  }();
  std::vector<kiln_kernel*> kernels;
  for (int calls = 0; !bytes.done() && calls < 12; ++calls) {
    switch (bytes.below(8)) {
      case 0: {
        const std::string device = bytes.text();
        kiln_runtime_options other{bytes.below(8) == 0 ? bytes.next() : sizeof options, device.c_str(), ""};
        kiln_runtime_destroy(runtime);
        runtime = nullptr;
        expect(kiln_runtime_create(bytes.below(8) == 0 ? nullptr : &other,
                                   bytes.below(16) == 0 ? nullptr : &runtime));
        break;
      }
      case 1: {
        const std::string config = bytes.below(2) == 0 ? bytes.text() : kConfigs[bytes.below(3)];
        char *source = nullptr, *manifest = nullptr;
        expect(kiln_generate(config.c_str(), bytes.below(4) == 0 ? nullptr : &source,
                             bytes.below(4) == 0 ? nullptr : &manifest));
        kiln_free(source);
        kiln_free(manifest);
        break;
      }
      case 2:
        if (!kernels.empty()) {
          kiln_kernel_destroy(kernels.back());
          kernels.pop_back();
        }
        break;
      case 3:
      case 4: {
        kiln_kernel* kernel = nullptr;
        expect(kiln_kernel_load(bytes.below(16) == 0 ? nullptr : shared, kConfigs[bytes.below(3)], &kernel));
        if (kernel != nullptr) kernels.push_back(kernel);
        kiln_kernel_info info{};
        info.size = bytes.below(8) == 0 ? bytes.next() : sizeof info;
        expect(kiln_kernel_get_info(kernel, &info));
        break;
      }
      default: {
        std::vector<Tensor> tensors;
        tensors.reserve(14);
        for (int i = 0; i < 14; ++i) tensors.emplace_back(bytes, i < 4);
        bool inside = true;
        for (const Tensor& tensor : tensors) inside = inside && tensor.inside();
        kiln_attention_args args{};
        args.size = bytes.below(16) == 0 ? bytes.next() : sizeof args;
        const auto some = [&](int i, unsigned odds) {
          return bytes.below(odds) == 0 ? &tensors[static_cast<std::size_t>(i)].raw : nullptr;
        };
        args.q = &tensors[0].raw, args.k = &tensors[1].raw, args.v = &tensors[2].raw,
        args.o = &tensors[3].raw;
        args.lse = some(4, 2), args.cu_seqlens_q = some(5, 3), args.cu_seqlens_k = some(6, 3),
        args.page_table = some(7, 3);
        args.seqlens_k = some(8, 3), args.q_scale = some(9, 8), args.k_scale = some(10, 8),
        args.sink = some(11, 8);
        args.mask_bits = some(12, 8), args.k_rope = some(13, 8);
        args.max_seqlen_q = kExtents[bytes.below(10)], args.max_seqlen_k = kExtents[bytes.below(10)];
        const double scale = bytes.below(4) == 0 ? 1e300 * 1e300 : 0.125;
        args.scale = bytes.below(2) == 0 ? &scale : nullptr;
        args.launch_before = static_cast<int>(bytes.below(5)) - 1;
        args.max_blocks = static_cast<int>(bytes.below(5)) - 1;
        if (inside && !kernels.empty())
          expect(kiln_kernel_launch(kernels[bytes.next() % kernels.size()], &args, 0));
        break;
      }
    }
  }
  for (kiln_kernel* kernel : kernels) kiln_kernel_destroy(kernel);
  kiln_runtime_destroy(runtime);
  return 0;
}
