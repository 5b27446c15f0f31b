// The smallest complete program on kiln: a kernel generated while this program was built (prefill.json) is
// compiled, launched on random tensors, and checked on the host.
//
//   kiln_attention [DEVICE]; without one the first GPU, else the emulated device
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include <attention_kernels.hpp>
#include <kiln/kiln.hpp>

namespace {

constexpr int kBatch = 2, kLength = 77, kHeads = 2, kDepth = 64;
constexpr std::size_t kElements = std::size_t{kBatch} * kLength * kHeads * kDepth;

std::uint16_t to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float to_float(std::uint16_t value) {
  const std::uint32_t bits = std::uint32_t{value} << 16;
  float out = 0;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

std::size_t at(int b, int row, int head) {
  return ((std::size_t(b) * kLength + row) * kHeads + head) * kDepth;
}

struct HostTensor {
  std::vector<std::uint16_t> values = std::vector<std::uint16_t>(kElements);
  kiln::DeviceBuffer buffer;

  explicit HostTensor(kiln::Runtime& runtime) : buffer(runtime.allocate(2 * kElements)) {}
  void fill(std::mt19937& random) {
    std::normal_distribution<float> normal;
    for (std::uint16_t& value : values) value = to_bf16(normal(random));
    buffer.write(std::as_bytes(std::span(values)));
  }
  kiln::Tensor tensor() const {
    return kiln::Tensor::dense(buffer.address(), kiln::DType::bf16, {kBatch, kLength, kHeads, kDepth});
  }
};

// softmax(Q K' / sqrt(depth)) V of one row, over the keys up to its own.
std::vector<double> reference(const HostTensor& q, const HostTensor& k, const HostTensor& v, int b, int row,
                              int head) {
  std::vector<double> out(kDepth);
  double sum = 0;
  for (int key = 0; key <= row; ++key) {
    double score = 0;
    for (int d = 0; d < kDepth; ++d)
      score += double(to_float(q.values[at(b, row, head) + d])) * to_float(k.values[at(b, key, head) + d]);
    const double weight = std::exp(score / std::sqrt(kDepth));
    sum += weight;
    for (int d = 0; d < kDepth; ++d) out[d] += weight * to_float(v.values[at(b, key, head) + d]);
  }
  for (double& x : out) x /= sum;
  return out;
}

int run(const char* device) {
  kiln::RuntimeOptions options;
  options.device = device;
  kiln::Runtime runtime(options);
  const auto kernel = runtime.load(attention_kernels::kernels().front());
  std::printf("%s on %s, %d registers\n", kernel->manifest().name.c_str(), runtime.device().name.c_str(),
              kernel->binary().registers);

  std::mt19937 random(1);
  HostTensor q(runtime), k(runtime), v(runtime), o(runtime);
  for (HostTensor* tensor : {&q, &k, &v}) tensor->fill(random);
  kiln::AttentionArgs args;
  args.q = q.tensor(), args.k = k.tensor(), args.v = v.tensor(), args.o = o.tensor();
  kernel->launch(args);
  runtime.synchronize();
  o.buffer.read(std::as_writable_bytes(std::span(o.values)));

  double error = 0, size = 0;
  for (int b = 0; b < kBatch; ++b) {
    for (int row = 0; row < kLength; ++row) {
      for (int head = 0; head < kHeads; ++head) {
        const std::vector<double> wanted = reference(q, k, v, b, row, head);
        for (int d = 0; d < kDepth; ++d) {
          const double difference = to_float(o.values[at(b, row, head) + d]) - wanted[d];
          error += difference * difference;
          size += wanted[d] * wanted[d];
        }
      }
    }
  }
  const double relative = std::sqrt(error / size);
  std::printf("relative error %.2g: %s\n", relative, relative < 4e-3 ? "right" : "WRONG");
  return relative < 4e-3 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "");
  } catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == kiln::ErrorCode::environment ? 3 : 2;
  }
}
