// One launch plan for both forms of operands: a list of argument sets over shared buffers.
#include "workbench/verify/runner.hpp"

#include <algorithm>

#include "generator/operands/operand_form.hpp"
#include "runtime/support/memory.hpp"
#include "workbench/problem/rounding.hpp"

namespace kiln {
namespace {

// A value that the first launch writes poison over is caught whatever the kernel does later; rows past the
// last are guards.
struct DeviceTensors {
  DeviceBuffer q, k, k_rope, v, o, lse, cu_q, cu_k, lengths_k, table, q_scale, k_scale, v_scale, kv_factors,
      sink, mask, first_keys;
  std::vector<DeviceBuffer> captured;
};

DeviceBuffer upload(Runtime& runtime, std::span<const std::byte> bytes, const char* name) {
  // Empty tensors still need an address.
  DeviceBuffer buffer = runtime.allocate(std::max<std::size_t>(bytes.size(), 16), name);
  if (!bytes.empty()) buffer.write(bytes);
  return buffer;
}

/// A captured tensor as its type holds it.
std::vector<std::byte> stored(DType dtype, const std::vector<float>& values) {
  if (dtype != DType::i32) return encode(dtype, values);
  const std::vector<std::int32_t> integers(values.begin(), values.end());
  const auto bytes = std::as_bytes(std::span(integers));
  return {bytes.begin(), bytes.end()};
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
    choose_form();
    require_room(runtime.device());
    t_.q = upload(runtime, encode(manifest_.dtype, work.q), "Q");
    upload_keys(runtime);
    o_bytes_ = rows() * static_cast<std::size_t>(shape_.ov_depth) * size_of(manifest_.out_dtype);
    t_.o = runtime.allocate(std::max<std::size_t>(o_bytes_, 16), "O");
    t_.o.fill(kPoison);
    if (lse) {
      t_.lse = runtime.allocate(std::max<std::size_t>(rows() * sizeof(float), 16), "LSE");
      t_.lse.fill(kPoison);
    }
    if (!work.sink.empty()) t_.sink = upload(runtime, std::as_bytes(std::span(work.sink)), "sink");
    if (work.mask_bits)
      t_.mask = upload(runtime, std::as_bytes(std::span(work.mask_bits->bits)), "mask_bits");
    if (!work.first_keys.empty())
      t_.first_keys = upload(runtime, std::as_bytes(std::span(work.first_keys)), "first_keys");
    for (std::size_t i = 0; i < work.captured.size(); ++i)
      t_.captured.push_back(
          upload(runtime, stored(manifest_.captured.at(i).dtype, work.captured[i].values), "captured"));
    plan(runtime);
  }

  void launch(RunResult& result) {
    std::vector<double> totals(static_cast<std::size_t>(std::max(1, options_.iterations)), 0.0);
    for (const AttentionArgs& args : launches_) {
      Timing timing = kernel_.time(
          args, options_.iterations > 0 ? options_.warmup + 1 : 0, std::max(1, options_.iterations),
          {0, options_.emulator, options_.before, options_.max_blocks, options_.residency});
      for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += timing.us[i];
      if (timing.report) note(*timing.report, result);
    }
    result.samples_us = totals;
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
  bool ragged_kernel() const { return operand_form(manifest_.operand).ragged_q; }

  // Pages, padded rows with lengths on the device, or rows as they are.
  void choose_form() {
    if (operand_form(manifest_.operand).pages()) {
      pages_ = work_.pages ? *work_.pages
                           : random_pages(shape_.lengths_k, std::max(manifest_.page_size, 1), work_.seed);
    } else if (operand_form(manifest_.operand).block()) {
      pages_ = random_blocks(shape_.lengths_k, work_.seed);
    } else if (operand_form(manifest_.operand).batch_keys() && manifest_.takes("seqlens_k") &&
               !shape_.uniform()) {
      const auto& q = shape_.lengths_q;
      if (std::adjacent_find(q.begin(), q.end(), std::not_equal_to<>()) == q.end())
        padded_rows_ = longest(shape_.lengths_k) + 1;
    }
  }

  // Everything that will be on the device, and beside it on the host what is packed for it and what comes
  // back.
  void require_room(const DeviceInfo& device) const {
    const auto product = [](std::int64_t a, std::int64_t b, std::size_t size) {
      return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b) * size;
    };
    const std::int64_t key_rows = pages_             ? pages_->num_pages * pages_->page_size
                                  : padded_rows_ > 0 ? shape_.batch() * padded_rows_
                                                     : shape_.total_k();
    const std::int64_t columns = manifest_.k_row() + (work_.v_from_k ? 0 : manifest_.v_row());
    const std::uint64_t q = product(shape_.total_q() * shape_.heads_q, shape_.depth,
                                    size_of(manifest_.dtype)),
                        o = product(shape_.total_q() * shape_.heads_q, shape_.ov_depth,
                                    size_of(manifest_.out_dtype)),
                        kv = product(key_rows, shape_.heads_kv * columns, size_of(manifest_.kv_dtype)),
                        mask = work_.mask_bits ? work_.mask_bits->bits.size() * 4 : 0,
                        on_device = q + kv + o + mask, packing = std::max(q, kv) + o;
    const std::string what = "the problem (" + shape_.text() + ") on " + device.selector;
    // The emulated device keeps a byte of state for each byte, and for those in use who accessed them last.
    if (device.selector == "emulated") return require_memory(4 * on_device + packing, what);
    require_memory(on_device, what, {device.memory_bytes, device.name + " has"});
    require_memory(packing, what);
  }

  void upload_keys(Runtime& runtime) {
    const auto row_bytes = [&](std::int64_t depth) {
      return static_cast<std::size_t>(shape_.heads_kv * depth) * size_of(manifest_.kv_dtype);
    };
    const std::byte poison = poison_of(manifest_.kv_dtype);
    const auto in_memory = [&](const std::vector<float>& values, std::int64_t columns, std::int64_t row) {
      const std::size_t size = size_of(manifest_.kv_dtype);
      std::vector<std::byte> rows = encode(manifest_.kv_dtype, values);
      columns /= numbers_of(manifest_.kv_dtype);
      if (row != columns) {
        rows =
            pack_columns(rows, static_cast<std::size_t>(columns) * size, static_cast<std::size_t>(row) * size,
                         static_cast<std::size_t>(manifest_.head_dim_offset) * size, poison);
      }
      return in_form(std::move(rows), row_bytes(row), poison);
    };
    if (manifest_.own_rope()) {
      const DType type = manifest_.rope->dtype;
      const KeyColumns columns = split_keys(work_.k, shape_.depth, manifest_.rope->depth);
      t_.k = upload(runtime, in_memory(columns.plain, manifest_.k_columns(), manifest_.k_row()), "K");
      const auto rope_bytes =
          static_cast<std::size_t>(shape_.heads_kv * manifest_.rope->depth) * size_of(type);
      t_.k_rope = upload(runtime, in_form(encode(type, columns.rope), rope_bytes, poison_of(type)),
                         "K's rotary columns");
    } else if (manifest_.rope) {
      t_.k = upload(runtime, in_form(rows_with_tail(poison), row_bytes(manifest_.k_row()), poison), "K");
    } else {
      t_.k = upload(runtime, in_memory(work_.k, shape_.depth, manifest_.k_row()), "K");
    }
    if (!work_.v_from_k) t_.v = upload(runtime, in_memory(work_.v, shape_.ov_depth, manifest_.v_row()), "V");
    if (manifest_.takes("q_scale")) {
      const bool each = work_.k_scale && work_.k_scale->by_sequence();  // one for all, many times
      const std::vector<float> scale(each ? static_cast<std::size_t>(shape_.batch() * shape_.heads_kv) : 1,
                                     static_cast<float>(work_.q_scale));
      t_.q_scale = upload(runtime, std::as_bytes(std::span(scale)), "Q scale");
    }
    if (manifest_.takes("k_scale") && work_.k_scale)
      t_.k_scale = upload_scales(runtime, *work_.k_scale, "K scales");
    if (manifest_.takes("v_scale") && work_.v_scale)
      t_.v_scale = upload_scales(runtime, *work_.v_scale, "V scales");
    if (manifest_.takes("kv_factors")) {
      const float factors[] = {work_.k_scale ? work_.k_scale->factor : 1.0F,
                               work_.v_scale ? work_.v_scale->factor : 1.0F};
      t_.kv_factors = upload(runtime, std::as_bytes(std::span(factors)), "factors of K and V");
    }
    if (pages_) {
      t_.table = upload(runtime, std::as_bytes(std::span<const std::int32_t>(pages_->entries)), "page table");
    }
    if (pages_ || padded_rows_ > 0) t_.lengths_k = upload_offsets(runtime, shape_.lengths_k, "seqlens_k");
  }

  // Rows of K whose last columns have a type of their own.
  std::vector<std::byte> rows_with_tail(std::byte poison) const {
    const Manifest::Rope& rope = *manifest_.rope;
    const KeyColumns columns = split_keys(work_.k, shape_.depth, rope.depth);
    const std::size_t size = size_of(manifest_.kv_dtype),
                      row = static_cast<std::size_t>(manifest_.k_row()) * size;
    const auto first = static_cast<std::size_t>(manifest_.head_dim_offset) * size;
    std::vector<std::byte> rows =
        pack_columns(encode(manifest_.kv_dtype, columns.plain),
                     static_cast<std::size_t>(manifest_.k_columns()) * size, row, first, poison);
    place_columns(encode(rope.dtype, columns.rope),
                  static_cast<std::size_t>(rope.depth) * size_of(rope.dtype), row,
                  first + static_cast<std::size_t>(rope.padded_depth), rows);
    return rows;
  }

  std::vector<std::byte> in_form(std::vector<std::byte> rows, std::size_t row_bytes, std::byte poison) const {
    if (pages_) return pack_pages(rows, row_bytes, shape_.lengths_k, *pages_, poison);
    if (padded_rows_ > 0) return pack_padded(rows, row_bytes, shape_.lengths_k, padded_rows_, poison);
    return rows;
  }

  DeviceBuffer upload_scales(Runtime& runtime, const Scales& scales, const char* name) const {
    const DType type = scales.quantization.scale_dtype;
    std::vector<std::byte> bytes = encode(type, scales.values);
    if (scales.by_token()) {
      const auto row = static_cast<std::size_t>(scales.heads * scales.groups()) * size_of(type);
      bytes = in_form(std::move(bytes), row, poison_of(type));
    }
    if (scales_by_head(scales.quantization))
      bytes = pack_by_head(bytes, scales.heads, scale_groups(), poison_of(DType::f32));
    return upload(runtime, bytes, name);
  }

  // Rows of K that are contiguous in memory: those of a page, of a sequence, or all.
  std::vector<std::int64_t> scale_groups() const {
    if (pages_)
      return std::vector<std::int64_t>(static_cast<std::size_t>(pages_->num_pages), pages_->page_size);
    if (padded_rows_ > 0)
      return std::vector<std::int64_t>(static_cast<std::size_t>(shape_.batch()), padded_rows_);
    if (ragged_kernel()) return {shape_.total_k()};
    return shape_.lengths_k;
  }

  // Scales as the kernel takes them: per token in the form of their operand without its depth.
  std::optional<Tensor> scales_of(const DeviceBuffer& buffer, const std::optional<Scales>& scales,
                                  const Tensor& operand, std::int64_t batch) const {
    if (buffer.address() == 0 || !scales) return std::nullopt;
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(scales->values.size())};
    if (scales->by_sequence()) shape = {batch, scales->heads};
    if (scales->by_token()) shape.assign(operand.shape.begin(), operand.shape.end() - 1);
    if (scales->quantization.granularity == Scales::Granularity::per_block) shape.push_back(scales->groups());
    if (scales_by_head(scales->quantization)) {
      std::swap(shape.back(), shape[shape.size() - 2]);
      const std::vector<std::int64_t> allocated{shape.front(), shape[shape.size() - 2],
                                                padded_rows(shape.back())};
      Tensor tensor = Tensor::dense(buffer.address(), DType::f32, allocated);
      if (shape.size() == 2) tensor.strides.erase(tensor.strides.begin());
      tensor.shape = std::move(shape);
      return tensor;
    }
    return Tensor::dense(buffer.address(), scales->quantization.scale_dtype, std::move(shape));
  }

  void add_scales(AttentionArgs& args, std::int64_t batch) const {
    args.scale = options_.scale;
    if (t_.q_scale.address() != 0) {
      args.q_scale = Tensor::dense(t_.q_scale.address(), DType::f32, {1});
      if (work_.k_scale && work_.k_scale->by_sequence()) args.q_scale->shape = {batch, shape_.heads_kv};
      args.q_scale = Tensor::dense(t_.q_scale.address(), DType::f32, args.q_scale->shape);
    } else if (work_.q_scale != 1) {
      // A factor of Q is one of the softmax scale.
      args.scale = options_.scale.value_or(manifest_.scale) * work_.q_scale;
    }
    args.k_scale = scales_of(t_.k_scale, work_.k_scale, args.k, batch);
    args.v_scale = scales_of(t_.v_scale, work_.v_scale, args.v, batch);
    if (t_.kv_factors.address() != 0)
      args.kv_factors = Tensor::dense(t_.kv_factors.address(), DType::f32, {2});
  }

  // What the kernel is called with: once, or per request where a contiguous kernel meets different lengths.
  void plan(Runtime& runtime) {
    const bool together = padded_rows_ > 0 || (!pages_ && !ragged_kernel() && shape_.uniform());
    if (together) {
      launches_.push_back(contiguous_args(0, shape_.batch()));
    } else if (pages_) {
      t_.cu_q = upload_offsets(runtime, shape_.offsets_q(), "cu_seqlens_q");
      launches_.push_back(ragged_args());
    } else if (ragged_kernel()) {
      t_.cu_q = upload_offsets(runtime, shape_.offsets_q(), "cu_seqlens_q");
      t_.cu_k = upload_offsets(runtime, shape_.offsets_k(), "cu_seqlens_k");
      launches_.push_back(ragged_args());
    } else {
      for (std::int64_t b = 0; b < shape_.batch(); ++b) launches_.push_back(contiguous_args(b, 1));
    }
  }

  // Sink and mask, for `batch` requests from `first` on of at most q query rows and k keys.
  void add_extras(AttentionArgs& args, std::int64_t first, std::int64_t batch, std::int64_t q,
                  std::int64_t k) const {
    if (!work_.sink.empty()) args.sink = Tensor::dense(t_.sink.address(), DType::f32, {shape_.heads_q});
    for (std::size_t i = 0; i < t_.captured.size(); ++i)
      args.captured[i] =
          Tensor::dense(t_.captured[i].address(), manifest_.captured[i].dtype, work_.captured[i].shape);
    args.window = work_.window;
    if (!work_.first_keys.empty())
      args.first_keys =
          Tensor::dense(t_.first_keys.address() + 4 * static_cast<std::uint64_t>(first), DType::i32, {batch});
    if (!work_.mask_bits) return;
    const MaskBits& mask = *work_.mask_bits;
    const std::int64_t head = mask.rows * mask.words, request = mask.heads * head;
    const std::int64_t start = mask.batch == 1 ? 0 : first * request;
    args.mask_bits = Tensor{t_.mask.address() + 4 * static_cast<std::uint64_t>(start),
                            DType::i32,
                            {mask.batch == 1 ? 1 : batch, mask.heads, q, (k + 31) / 32},
                            {request, head, mask.words, 1}};
  }

  AttentionArgs ragged_args() const {
    const ProblemShape& s = shape_;
    AttentionArgs args;
    args.q = Tensor::dense(t_.q.address(), manifest_.dtype, {s.total_q(), s.heads_q, s.depth});
    std::vector<std::int64_t> rows{s.total_k()};
    if (pages_) rows = {pages_->num_pages, pages_->page_size};
    const auto keys = [&](const DeviceBuffer& buffer, DType dtype, std::int64_t depth) {
      std::vector<std::int64_t> shape = rows;
      shape.insert(shape.end(), {s.heads_kv, depth});
      return Tensor::dense(buffer.address(), dtype, std::move(shape));
    };
    args.k = keys(t_.k, manifest_.kv_dtype, manifest_.k_row());
    args.v = keys(t_.v, manifest_.kv_dtype, manifest_.v_row());
    if (manifest_.own_rope()) args.k_rope = keys(t_.k_rope, manifest_.rope->dtype, manifest_.rope->depth);
    args.o = Tensor::dense(t_.o.address(), manifest_.out_dtype, {s.total_q(), s.heads_q, s.ov_depth});
    if (manifest_.writes_lse)
      args.lse = Tensor::dense(t_.lse.address(), DType::f32, {s.heads_q, s.total_q()});
    args.cu_seqlens_q = Tensor::dense(t_.cu_q.address(), DType::i32, {s.batch() + 1});
    if (pages_) {
      args.page_table = Tensor::dense(t_.table.address(), DType::i32, {s.batch(), pages_->max_pages});
      args.seqlens_k = Tensor::dense(t_.lengths_k.address(), DType::i32, {s.batch()});
    } else {
      args.cu_seqlens_k = Tensor::dense(t_.cu_k.address(), DType::i32, {s.batch() + 1});
    }
    args.max_seqlen_q = longest(s.lengths_q);
    args.max_seqlen_k = longest(s.lengths_k);
    add_scales(args, s.batch());
    add_extras(args, 0, s.batch(), args.max_seqlen_q, args.max_seqlen_k);
    return args;
  }

  AttentionArgs contiguous_args(std::int64_t first, std::int64_t batch) const {
    const ProblemShape& s = shape_;
    const auto request = static_cast<std::size_t>(first);
    const std::int64_t q = s.lengths_q[request];
    const std::int64_t k = padded_rows_ > 0 ? padded_rows_ : s.lengths_k[request];
    const std::int64_t row_q = s.offsets_q()[request], row_k = s.offsets_k()[request];
    const auto tensor = [&](const DeviceBuffer& buffer, DType dtype, std::int64_t row, std::int64_t rows,
                            std::int64_t heads, std::int64_t depth) {
      const auto offset = static_cast<std::uint64_t>(row * heads * depth) * size_of(dtype);
      return Tensor::dense(buffer.address() + offset, dtype, {batch, rows, heads, depth});
    };
    AttentionArgs args;
    args.q = tensor(t_.q, manifest_.dtype, row_q, q, s.heads_q, s.depth);
    args.k = tensor(t_.k, manifest_.kv_dtype, row_k, k, s.heads_kv, manifest_.k_row());
    args.v = tensor(t_.v, manifest_.kv_dtype, row_k, k, s.heads_kv, manifest_.v_row());
    if (manifest_.own_rope())
      args.k_rope = tensor(t_.k_rope, manifest_.rope->dtype, row_k, k, s.heads_kv, manifest_.rope->depth);
    args.o = tensor(t_.o, manifest_.out_dtype, row_q, q, s.heads_q, s.ov_depth);
    if (manifest_.writes_lse) {
      const auto offset = static_cast<std::uint64_t>(row_q * s.heads_q) * sizeof(float);
      args.lse = Tensor::dense(t_.lse.address() + offset, DType::f32, {batch, s.heads_q, q});
    }
    if (padded_rows_ > 0) args.seqlens_k = Tensor::dense(t_.lengths_k.address(), DType::i32, {s.batch()});
    add_scales(args, batch);
    // Requests launched one by one have the scales of their own rows.
    const auto skip = [&](std::optional<Tensor>& scale, const std::optional<Scales>& scales) {
      if (scale && scales && scales->by_sequence())
        scale->address += static_cast<std::uint64_t>(first * scales->heads) * sizeof(float);
      if (!scale || !scales || !scales->by_token() || padded_rows_ > 0) return;
      std::int64_t row = row_k;
      if (scales_by_head(scales->quantization)) {
        row = 0;
        for (std::size_t b = 0; b < request; ++b) row += padded_rows(s.lengths_k[b]);
      }
      scale->address += static_cast<std::uint64_t>(row * scales->heads * scales->groups()) *
                        size_of(scales->quantization.scale_dtype);
    };
    skip(args.k_scale, work_.k_scale);
    skip(args.v_scale, work_.v_scale);
    add_extras(args, first, batch, q, k);
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
                                      [&name = name](const auto& c) { return c.first == name; });
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
  std::optional<PageTable> pages_;
  std::int64_t padded_rows_ = 0;  ///< rows of a sequence of a contiguous operand with lengths; 0: as they are
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
