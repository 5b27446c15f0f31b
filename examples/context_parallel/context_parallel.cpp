// Context parallel prefill of one sequence by a group of threads, one a rank: over NCCL, each with a GPU of its own, or
// on the emulated device. Every rank fills its rows, computes them against the keys of all, and checks one by hand.
//
//   kiln_context_parallel_example [emulated | sm_90a | sm_80] [RANKS]
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <kiln/context_parallel.hpp>
#include <kiln/kiln.hpp>

// Row i of Q and K is 1 in column i % 64, row i of V is i % 100 / 100 in all columns: a row of O is a mean of V.
std::vector<float> values(char tensor, std::int64_t row) {
  std::vector<float> out(64, tensor == 'v' ? static_cast<float>(row % 100) / 100 : 0.0f);
  if (tensor != 'v') out[static_cast<std::size_t>(row % 64)] = 1;
  return out;
}
std::uint16_t to_bf16(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}

void rank_main(kiln::Runtime& runtime, const std::string& target,
               const std::shared_ptr<kiln::Transport>& transport) {
  const std::string config =
      R"({"target": ")" + target + R"(", "operation": "prefill", "dtype": "bf16", "depth": 64,
                                 "out_dtype": "f32", "mask": "causal", "operand": {"kind": "ragged"}})";
  kiln::ContextParallelOptions options;
  options.heads_q = options.heads_kv = 1;
  kiln::ContextPrefill prefill(runtime, kiln::parse_config(config, "example"), transport, options);
  const std::int64_t lengths[] = {300};
  prefill.set_batch(lengths);
  // This rank's rows, first run and second run one after the other.
  const std::int64_t rows = prefill.rows();
  const auto upload = [&](char tensor) {
    std::vector<std::uint16_t> memory;
    for (const int which : {0, 1})
      for (std::int64_t i = prefill.run(0, which).first; i < prefill.run(0, which).end(); ++i)
        for (const float x : values(tensor, i)) memory.push_back(to_bf16(x));
    kiln::DeviceBuffer buffer = runtime.allocate(memory.size() * 2);
    buffer.write(std::as_bytes(std::span(memory)));
    return buffer;
  };
  const auto q = upload('q'), k = upload('k'), v = upload('v');
  const kiln::DeviceBuffer o = runtime.allocate(static_cast<std::size_t>(rows) * 64 * 4);
  const auto tensor = [&](const kiln::DeviceBuffer& buffer, kiln::DType type) {
    return kiln::Tensor::dense(buffer.address(), type, {rows, 1, 64});
  };
  using kiln::DType;
  prefill.launch(
      {tensor(q, DType::bf16), tensor(k, DType::bf16), tensor(v, DType::bf16), tensor(o, DType::f32)});
  transport->synchronize(0);  // an error here says which rank failed, on all ranks
  float got[64];
  o.read(std::as_writable_bytes(std::span(got)));
  const std::int64_t row = prefill.run(0, 0).first;
  double sum = 0, weights = 0;
  for (std::int64_t key = 0; key <= row; ++key) {
    const double weight = std::exp(key % 64 == row % 64 ? 0.125 : 0.0);
    sum += weight * static_cast<double>(key % 100) / 100, weights += weight;
  }
  std::printf("rank %d of %d: %ld rows; row %ld is %.4f, by hand %.4f\n", transport->rank(),
              transport->size(), static_cast<long>(rows), static_cast<long>(row), static_cast<double>(got[0]),
              sum / weights);
  if (std::fabs(got[0] - sum / weights) > 4e-3) std::exit(1);
}

int main(int argc, char** argv) {
  const std::string where = argc > 1 ? argv[1] : "emulated";
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 2;
  kiln::LoopbackGroup group(ranks);
  const kiln::NcclId id = where == "emulated" ? kiln::NcclId{} : kiln::make_nccl_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      kiln::RuntimeOptions options;
      options.device = where == "emulated" ? where : "cuda:" + std::to_string(rank);
      kiln::Runtime runtime(options);
      if (where == "emulated") return rank_main(runtime, "sm_80", group.join(rank, runtime));
      kiln::NcclOptions nccl;
      nccl.rank = nccl.device = rank, nccl.size = ranks, nccl.id = id;
      rank_main(runtime, where, kiln::make_nccl_transport(nccl));
    });
  }
  for (std::thread& thread : threads) thread.join();
}
