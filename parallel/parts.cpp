#include "parallel/parts.hpp"

#include <kiln/error.hpp>
#include <kiln/transport.hpp>

namespace kiln {

void Transport::collect(std::uint64_t blocks, std::size_t bytes, std::uint64_t stream) {
  std::vector<Message> sends, receives;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    sends.push_back({blocks + static_cast<std::uint64_t>(rank()) * bytes, bytes, other});
    receives.push_back({blocks + static_cast<std::uint64_t>(other) * bytes, bytes, other});
  }
  start(sends, receives, stream);
  finish(stream);
}

}  // namespace kiln

namespace kiln::parallel {

void refuse_decode(const std::string& what) {
  throw Error(ErrorCode::bad_input, "context parallel decode: " + what);
}

void launch(Kernel& kernel, const AttentionArgs& args, const LaunchOptions& options) {
  const auto report = kernel.launch(args, options);
  if (!report || (report->findings.empty() && report->completed)) return;
  throw Error(ErrorCode::device,
              kernel.manifest().name + (report->findings.empty()
                                            ? ": the emulated device stopped the kernel"
                                            : ": emulated device: " + report->findings[0].message));
}

void merge(Kernel& kernel, const MergeArgs& m, std::uint64_t stream) {
  if (m.rows == 0) return;
  const Manifest& manifest = kernel.manifest();
  const std::vector<std::int64_t> shape{1, m.rows, m.heads, manifest.ov_depth};
  AttentionArgs args;
  args.q = args.k = args.v = Tensor::dense(m.parts, DType::f32, shape);
  args.o = Tensor::dense(m.o, manifest.out_dtype, shape);
  args.lse = Tensor::dense(m.lse, DType::f32, {1, m.heads, m.rows});
  if (m.sink != 0) args.sink = Tensor::dense(m.sink, DType::f32, {m.heads});
  LaunchOptions options;
  options.stream = stream;
  launch(kernel, args, options);
}

void merge_shares(Kernel& kernel, const SharesArgs& m, std::uint64_t stream) {
  if (m.rows == 0) return;
  const Manifest& manifest = kernel.manifest();
  const std::vector<std::int64_t> shape{1, m.rows, m.heads, manifest.ov_depth};
  AttentionArgs args;
  args.q = {m.shares, DType::f32, shape, {0, m.row_floats, m.head_floats, 1}};
  args.k = {m.lses, DType::f32, {1, 1, 1, manifest.ov_depth}, {m.lse_first, m.share_floats, m.lse_pitch, 1}};
  args.v = args.k;
  args.o = Tensor::dense(m.o, manifest.out_dtype, shape);
  args.lse = Tensor::dense(m.lse, DType::f32, {1, m.heads, m.rows});
  if (m.sink != 0) args.sink = Tensor::dense(m.sink, DType::f32, {m.heads});
  LaunchOptions options;
  options.stream = stream;
  launch(kernel, args, options);
}

}  // namespace kiln::parallel
