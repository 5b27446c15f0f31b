// One launch plan for both forms of operands: a list of argument sets over shared buffers.
#include "runtime/problem/runner.hpp"

#include <algorithm>

#include "runtime/problem/rounding.hpp"

namespace kiln {
namespace {

// A value that the first launch writes poison over is caught whatever the kernel does later; rows past the
// last are guards.
struct DeviceTensors {
  DeviceBuffer q, k, v, o, lse, cu_q, cu_k;
};

DeviceBuffer upload(Runtime& runtime, std::span<const std::byte> bytes, const char* name) {
  // Empty tensors still need an address.
  DeviceBuffer buffer = runtime.allocate(std::max<std::size_t>(bytes.size(), 16), name);
  if (!bytes.empty()) buffer.write(bytes);
  return buffer;
}

DeviceBuffer upload_offsets(Runtime& runtime, const std::vector<std::int64_t>& offsets, const char* name) {
  std::vector<std::int32_t> values(offsets.begin(), offsets.end());
  return upload(runtime, std::as_bytes(std::span<const std::int32_t>(values)), name);
}

std::int64_t longest(const std::vector<std::int64_t>& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

class Job {
 public:
  Job(Runtime& runtime, Kernel& kernel, const Workload& work, const RunOptions& options)
      : kernel_(kernel), manifest_(kernel.manifest()), work_(work), shape_(work.shape), options_(options) {
    const bool lse = manifest_.writes_lse;
    t_.q = upload(runtime, encode(manifest_.dtype, work.q), "Q");
    t_.k = upload(runtime, encode(manifest_.kv_dtype, work.k), "K");
    if (!work.v_from_k) t_.v = upload(runtime, encode(manifest_.kv_dtype, work.v), "V");
    o_bytes_ = rows() * static_cast<std::size_t>(shape_.ov_depth) * size_of(manifest_.out_dtype);
    t_.o = runtime.allocate(std::max<std::size_t>(o_bytes_, 16), "O");
    t_.o.fill(kPoison);
    if (lse) {
      t_.lse = runtime.allocate(std::max<std::size_t>(rows() * sizeof(float), 16), "LSE");
      t_.lse.fill(kPoison);
    }
    plan(runtime);
  }

  void launch(RunResult& result) {
    std::vector<double> totals(static_cast<std::size_t>(std::max(1, options_.iterations)), 0.0);
    for (const AttentionArgs& args : launches_) {
      Timing timing = kernel_.time(args, options_.iterations > 0 ? options_.warmup + 1 : 0,
                                   std::max(1, options_.iterations), {0, options_.emulator});
      for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += timing.us[i];
      if (timing.report) note(*timing.report, result);
    }
    std::nth_element(totals.begin(), totals.begin() + static_cast<std::ptrdiff_t>(totals.size() / 2),
                     totals.end());
    result.launch_us = totals[totals.size() / 2];
    result.launches = static_cast<std::int64_t>(launches_.size());
  }

  void fetch(RunResult& result) const {
    std::vector<std::byte> o(o_bytes_);
    if (!o.empty()) t_.o.read(o);
    result.output.unwritten = count_unwritten(o, size_of(manifest_.out_dtype));
    result.output.o = decode(manifest_.out_dtype, o);
    if (!manifest_.writes_lse || !options_.want_lse) return;
    std::vector<float> raw(rows());
    if (!raw.empty()) t_.lse.read(std::as_writable_bytes(std::span(raw)));
    result.output.unwritten += count_unwritten(std::as_bytes(std::span(raw)), sizeof(float));
    result.output.lse = by_row(raw);
  }

 private:
  std::size_t rows() const { return static_cast<std::size_t>(shape_.total_q() * shape_.heads_q); }
  bool ragged_kernel() const { return manifest_.operand == OperandKind::ragged; }

  // What the kernel is called with: once, or per request where a contiguous kernel meets different lengths.
  void plan(Runtime& runtime) {
    if (ragged_kernel()) {
      t_.cu_q = upload_offsets(runtime, shape_.offsets_q(), "cu_seqlens_q");
      t_.cu_k = upload_offsets(runtime, shape_.offsets_k(), "cu_seqlens_k");
      launches_.push_back(ragged_args());
    } else if (shape_.uniform()) {
      launches_.push_back(contiguous_args(0, shape_.batch()));
    } else {
      for (std::int64_t b = 0; b < shape_.batch(); ++b) launches_.push_back(contiguous_args(b, 1));
    }
  }

  AttentionArgs ragged_args() const {
    const ProblemShape& s = shape_;
    AttentionArgs args;
    args.q = Tensor::dense(t_.q.address(), manifest_.dtype, {s.total_q(), s.heads_q, s.depth});
    args.k = Tensor::dense(t_.k.address(), manifest_.kv_dtype, {s.total_k(), s.heads_kv, s.depth});
    args.v = Tensor::dense(t_.v.address(), manifest_.kv_dtype, {s.total_k(), s.heads_kv, s.ov_depth});
    args.o = Tensor::dense(t_.o.address(), manifest_.out_dtype, {s.total_q(), s.heads_q, s.ov_depth});
    if (manifest_.writes_lse)
      args.lse = Tensor::dense(t_.lse.address(), DType::f32, {s.heads_q, s.total_q()});
    args.cu_seqlens_q = Tensor::dense(t_.cu_q.address(), DType::i32, {s.batch() + 1});
    args.cu_seqlens_k = Tensor::dense(t_.cu_k.address(), DType::i32, {s.batch() + 1});
    args.max_seqlen_q = longest(s.lengths_q);
    args.max_seqlen_k = longest(s.lengths_k);
    args.scale = options_.scale;
    return args;
  }

  AttentionArgs contiguous_args(std::int64_t first, std::int64_t batch) const {
    const ProblemShape& s = shape_;
    const auto request = static_cast<std::size_t>(first);
    const std::int64_t q = s.lengths_q[request], k = s.lengths_k[request];
    const std::int64_t row_q = s.offsets_q()[request], row_k = s.offsets_k()[request];
    const auto tensor = [&](const DeviceBuffer& buffer, DType dtype, std::int64_t row, std::int64_t rows,
                            std::int64_t heads, std::int64_t depth) {
      const auto offset = static_cast<std::uint64_t>(row * heads * depth) * size_of(dtype);
      return Tensor::dense(buffer.address() + offset, dtype, {batch, rows, heads, depth});
    };
    AttentionArgs args;
    args.q = tensor(t_.q, manifest_.dtype, row_q, q, s.heads_q, s.depth);
    args.k = tensor(t_.k, manifest_.kv_dtype, row_k, k, s.heads_kv, s.depth);
    args.v = tensor(t_.v, manifest_.kv_dtype, row_k, k, s.heads_kv, s.ov_depth);
    args.o = tensor(t_.o, manifest_.out_dtype, row_q, q, s.heads_q, s.ov_depth);
    if (manifest_.writes_lse) {
      const auto offset = static_cast<std::uint64_t>(row_q * s.heads_q) * sizeof(float);
      args.lse = Tensor::dense(t_.lse.address() + offset, DType::f32, {batch, s.heads_q, q});
    }
    args.scale = options_.scale;
    return args;
  }

  // The device's LSE ([batch, heads, q], or [heads, total] of a ragged kernel) as [total, heads].
  std::vector<float> by_row(const std::vector<float>& raw) const {
    std::vector<float> out(raw.size());
    const std::vector<std::int64_t> first = shape_.offsets_q();
    for (std::int64_t b = 0; b < shape_.batch(); ++b) {
      const std::int64_t start = first[static_cast<std::size_t>(b)],
                         length = shape_.lengths_q[static_cast<std::size_t>(b)];
      for (std::int64_t h = 0; h < shape_.heads_q; ++h) {
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t from =
              ragged_kernel() ? h * shape_.total_q() + start + i : start * shape_.heads_q + h * length + i;
          out[static_cast<std::size_t>((start + i) * shape_.heads_q + h)] =
              raw[static_cast<std::size_t>(from)];
        }
      }
    }
    return out;
  }

  static void note(const EmulationReport& report, RunResult& result) {
    result.emulated = true;
    result.findings.insert(result.findings.end(), report.findings.begin(), report.findings.end());
    for (const auto& [name, value] : report.counters) {
      const auto found = std::find_if(result.counters.begin(), result.counters.end(),
                                      [&](const auto& c) { return c.first == name; });
      if (found != result.counters.end()) {
        found->second += value;
      } else {
        result.counters.emplace_back(name, value);
      }
    }
  }

  Kernel& kernel_;
  const Manifest& manifest_;
  const Workload& work_;
  const ProblemShape& shape_;
  const RunOptions& options_;
  DeviceTensors t_;
  std::size_t o_bytes_ = 0;
  std::vector<AttentionArgs> launches_;
};

}  // namespace

RunResult run_workload(Runtime& runtime, Kernel& kernel, const Workload& work, const RunOptions& options) {
  check_shape(work.shape);
  Job job(runtime, kernel, work, options);
  RunResult result;
  job.launch(result);
  job.fetch(result);
  return result;
}

}  // namespace kiln
