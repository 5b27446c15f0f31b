// What the host pays for a launch: kiln_kernel_launch beside the driver's launch of the same kernel with the
// same parameters. Kernels are short, so that the host is what is measured.
//
//   kiln_launch_cost [DEVICE] [LAUNCHES]      cuda:0, 20000
#include <kiln/kiln.h>
#include <kiln/generator.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/device/device.hpp"
#include "runtime/launch/prepared.hpp"

namespace {

/// Microseconds that one call takes, in the round that nothing disturbed; `settle` waits for the device after
/// each round.
template <class Call, class Settle>
double microseconds(int launches, const Call& call, const Settle& settle) {
  constexpr int kRounds = 9;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) call();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    settle();
    rounds.push_back(taken.count() / launches);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds.front();
}

void check(kiln_status status) {
  if (status == KILN_OK) return;
  std::fprintf(stderr, "%s\n", kiln_last_error());
  std::exit(1);
}

/// A tensor on the device in both forms.
struct Operand {
  kiln::DeviceBuffer buffer;
  std::vector<std::int64_t> shape;
  kiln::Tensor tensor;
  DLTensor view{};
  Operand(kiln::Runtime& runtime, std::vector<std::int64_t> extents, kiln::DType dtype, DLDataType type,
          int device)
      : shape(std::move(extents)) {
    std::size_t bytes = kiln::size_of(dtype);
    for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
    buffer = runtime.allocate(bytes);
    buffer.fill(std::byte{0});
    tensor = kiln::Tensor::dense(buffer.address(), dtype, shape);
    view = {reinterpret_cast<void*>(buffer.address()),
            {kDLCUDA, device},
            static_cast<int>(shape.size()),
            type,
            shape.data(),
            nullptr,
            0};
  }
};

void measure(const std::string& selector, const std::string& config, bool paged, int launches) {
  kiln::Runtime runtime({.device = selector, .cache_dir = {}, .emulator = {}, .log_level = {}, .log = {}});
  const kiln::KernelSource source = kiln::generate(kiln::make_plan(kiln::parse_config(config, "config")));
  const auto kernel = runtime.load(source);
  const int ordinal = std::stoi(runtime.device().selector.substr(5));
  const DLDataType bf16{kDLBfloat, 16, 1}, i32{kDLInt, 32, 1};
  const auto make = [&](std::vector<std::int64_t> shape, bool table = false) {
    return Operand(runtime, std::move(shape), table ? kiln::DType::i32 : kiln::DType::bf16,
                   table ? i32 : bf16, ordinal);
  };
  constexpr std::int64_t kBatch = 4;
  Operand q = paged ? make({kBatch, 8, 128}) : make({1, 128, 8, 128});
  Operand o = paged ? make({kBatch, 8, 128}) : make({1, 128, 8, 128});
  Operand k = paged ? make({16, 64, 2, 128}) : make({1, 128, 2, 128});
  Operand v = paged ? make({16, 64, 2, 128}) : make({1, 128, 2, 128});
  Operand table = make({kBatch, 4}, true), lengths = make({kBatch}, true), offsets = make({kBatch + 1}, true);
  kiln::AttentionArgs args;
  args.q = q.tensor;
  args.k = k.tensor;
  args.v = v.tensor;
  args.o = o.tensor;
  kiln_attention_args c{};
  c.size = sizeof c;
  c.q = &q.view;
  c.k = &k.view;
  c.v = &v.view;
  c.o = &o.view;
  if (paged) {
    const std::int32_t steps[kBatch + 1] = {0, 1, 2, 3, 4}, keys[kBatch] = {64, 64, 64, 64};
    offsets.buffer.write(std::as_bytes(std::span(steps)));
    lengths.buffer.write(std::as_bytes(std::span(keys)));
    args.page_table = table.tensor;
    args.seqlens_k = lengths.tensor;
    args.cu_seqlens_q = offsets.tensor;
    args.max_seqlen_q = c.max_seqlen_q = 1;
    c.page_table = &table.view;
    c.seqlens_k = &lengths.view;
    c.cu_seqlens_q = &offsets.view;
  }

  // The driver's launch alone, with parameters and grid ready.
  const auto device = kiln::open_cuda_device(ordinal);
  const auto function = device->load(kernel->binary(), source.manifest);
  kiln::PreparedLaunch prepared(source.manifest, args, {}, device->info().num_sms);
  const kiln::FlatLaunch flat = kiln::flatten(args);
  const std::size_t scratch_bytes = 64u << 20;
  const std::uint64_t scratch = device->allocate(scratch_bytes, "scratch");
  device->fill(scratch, std::byte{0}, scratch_bytes);
  kiln::LaunchParams params;
  const kiln::ParamView view =
      prepared.params.fill(flat.addresses, {scratch, scratch + 4096, scratch + (1 << 20)}, *device, params);
  const auto settle = [&] { device->synchronize(); };
  const auto raw = [&] { device->launch(*function, prepared.geometry, view, {}); };

  const kiln_runtime_options options{sizeof options, selector.c_str(), nullptr};
  kiln_runtime* c_runtime = nullptr;
  kiln_kernel* c_kernel = nullptr;
  check(kiln_runtime_create(&options, &c_runtime));
  check(kiln_kernel_load(c_runtime, config.c_str(), &c_kernel));
  const auto call = [&] { check(kiln_kernel_launch(c_kernel, &c, 0)); };
  const auto cpp = [&] { kernel->launch(args); };
  raw();
  call();
  cpp();
  settle();
  const double driver = microseconds(launches, raw, settle), by_c = microseconds(launches, call, settle),
               by_cpp = microseconds(launches, cpp, settle);
  std::printf("%-14s driver %6.2f us   kiln_kernel_launch %6.2f us (%.2f x)   Kernel::launch %6.2f us\n",
              paged ? "paged decode" : "prefill", driver, by_c, by_c / driver, by_cpp);
  kiln_kernel_destroy(c_kernel);
  kiln_runtime_destroy(c_runtime);
  device->release(scratch);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string selector = argc > 1 ? argv[1] : "cuda:0";
  const int launches = argc > 2 ? std::atoi(argv[2]) : 20000;
  if (!selector.starts_with("cuda:") || launches < 1) {
    std::fprintf(stderr, "usage: kiln_launch_cost [cuda:N] [LAUNCHES]\n");
    return 2;
  }
  try {
    const auto device = kiln::open_cuda_device(std::stoi(selector.substr(5)));
    const std::string target = device->info().target == "sm_90a" ? "sm_90a" : "sm_80";
    const std::string head = "{\"target\": \"" + target + "\", \"dtype\": \"bf16\", \"depth\": 128, ";
    measure(selector, head + "\"operation\": \"prefill\", \"mask\": \"causal\"}", false, launches);
    measure(selector,
            head + "\"operation\": \"decode\", \"operand\": {\"kind\": \"paged\", \"page_size\": 64}}", true,
            launches);
  } catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == kiln::ErrorCode::environment ? 3 : 1;
  }
  return 0;
}
