#include "parallel/query_ends.hpp"

#include <fmt/format.h>

#include "generator/emit/part_ends.hpp"
#include "parallel/parts.hpp"

namespace kiln::parallel {
namespace {

constexpr std::int64_t kNumber = sizeof(std::int32_t);

/// Numbers of one rank: one more than sequences, up to 16 bytes.
constexpr std::int64_t numbers_of(std::int64_t sequences) {
  return align_up(sequences + 1, 4);
}

}  // namespace

QueryEnds::QueryEnds(Runtime& runtime, const Config& config, std::shared_ptr<Transport> transport,
                     std::int64_t most_sequences)
    : transport_(std::move(transport)),
      kernel_(runtime.load(make_part_ends_kernel(config))),
      most_sequences_(most_sequences),
      starts_(config.operand->kind == OperandKind::ragged) {
  const auto bytes = static_cast<std::size_t>(numbers_of(most_sequences) * kNumber);
  tables_ = runtime.allocate(bytes * static_cast<std::size_t>(transport_->size()), "lengths of parts");
  ends_ = runtime.allocate(bytes * 4, "positions of queries");  // as rows of four
}

Tensor QueryEnds::find(const AttentionArgs& args, std::uint64_t stream) {
  const std::optional<Tensor>& lengths = starts_ ? args.cu_seqlens_k : args.seqlens_k;
  if (!lengths || lengths->shape.size() != 1 || lengths->dtype != DType::i32)
    refuse_decode(starts_ ? "cu_seqlens_k is i32 [batch + 1]" : "seqlens_k is i32 [batch]");
  const std::int64_t batch = lengths->shape[0] - (starts_ ? 1 : 0), distance = numbers_of(batch);
  if (batch < 1 || batch > most_sequences_)
    refuse_decode(
        fmt::format("{} sequences; 1 to max_rows, {}, can be without query_ends", batch, most_sequences_));
  const auto at = [&](int rank) {
    return tables_.address() + static_cast<std::uint64_t>(rank * distance * kNumber);
  };
  const auto bytes = static_cast<std::size_t>(lengths->shape[0] * kNumber);
  std::vector<Message> sends, receives;
  for (int peer = 0; peer < transport_->size(); ++peer) {
    sends.push_back({lengths->address, bytes, peer});
    receives.push_back({at(peer), bytes, peer});
  }
  transport_->start(sends, receives, stream);
  transport_->finish(stream);
  const int own = transport_->rank();
  AttentionArgs one;
  one.q = {at(own), DType::f32, {1, batch, 1, 4}, {0, distance, 0, 1}};
  one.k = one.v = {at(own), DType::f32, {1, 1, 1, 4}, {0, 0, transport_->size() - own, 1}};
  one.o = Tensor::dense(ends_.address(), DType::f32, {1, batch, 1, 4});
  LaunchOptions options;
  options.stream = stream;
  launch(*kernel_, one, options);
  return Tensor::dense(ends_.address(), DType::i32, {batch});
}

}  // namespace kiln::parallel
