#include "generator/systems/cdna/decode_streaming.hpp"

namespace kiln::cdna {
namespace {

DecodeStreamingConstants constants_of(const DecodeStreamingKVBuffer::Shape& s) {
  DecodeStreamingParams params;
  params.dtype = s.mfma.type;
  params.mma_shape = {s.mfma.shape.m, s.mfma.shape.n, s.mfma.shape.k};
  params.BN = s.BN, params.WN = s.WN, params.BK = s.BK;
  params.num_threads = s.num_threads;
  params.depth = s.depth;
  params.transpose = s.transpose;
  return decode_streaming_constants(params);
}

/// The buffer of one strip: K is BN keys by BK columns, V is BK keys by all columns in one flat block.
KVBuffer::Shape strip_of(const DecodeStreamingKVBuffer::Shape& s, const DecodeStreamingConstants& c) {
  KVBuffer::Shape strip;
  strip.transpose = s.transpose;
  strip.mfma = s.mfma;
  strip.BN = c.strip_rows;
  strip.WN = s.transpose ? s.WN : s.BK;
  strip.BK = s.BK;
  strip.depth = c.strip_cols;
  strip.bk_smem = c.strip_cols;
  strip.num_threads = s.num_threads;
  strip.num_smem_stages = 1;
  strip.dma_bytes = s.dma_bytes;
  strip.swizzle = s.swizzle;
  strip.strips = s.transpose ? c.num_strips : 1;
  strip.read_columns = s.transpose ? 0 : s.depth / c.num_warps_n;
  strip.page_size = s.page_size;
  strip.keys_in_order = true;  // P comes from LDS
  return strip;
}

}  // namespace

DecodeStreamingKVBuffer::DecodeStreamingKVBuffer(const Shape& shape)
    : shape_(shape), constants_(constants_of(shape)), buffer_(strip_of(shape, constants_)) {
  if (shape.widens)
    widening_.emplace(WideningCopy::Shape{shape.transpose ? "k" : "v", buffer_.stage(),
                                          shape.transpose ? constants_.num_strips : 1, shape.num_threads,
                                          shape.page_size, shape.mfma.type});
}

void DecodeStreamingKVBuffer::use(Prelude& prelude) const {
  if (!widening_) return buffer_.use(prelude);
  widening_->use(prelude);
  kv_mma_op().use(prelude);
}

void DecodeStreamingKVBuffer::emit_landed(Writer& w) const {
  if (!widening_) return w.line("WAIT_LOADS_AND_SYNC(0);");
  widening_->emit_store(w);
  w.line("SYNC();");
}

std::vector<layout::Proof> DecodeStreamingKVBuffer::proofs() const {
  if (!widening_) return buffer_.proofs();
  std::vector<layout::Proof> out{widening_->proof()};
  for (auto& proof : kv_mma_op().proofs(shape_.mfma.target)) out.push_back(std::move(proof));
  return out;
}

void DecodeStreamingKVBuffer::emit_construct(Writer& w, int base, const std::string& first,
                                             const std::string& row_bytes, const std::string& rows,
                                             const std::string& first_row) const {
  // K: the wave's keys, whole periods of the swizzle; V: its columns.
  const int key_bytes = shape_.WN * shape_.BK * static_cast<int>(size_of(shape_.mfma.type));
  const std::string own_bytes = shape_.transpose ? fmt::format(" + warp * {}", key_bytes) : "";
  const std::string own_col = shape_.transpose ? "" : fmt::format("warp * {}", wave_columns());
  if (!widening_)
    return buffer_.emit_construct(w, base, first, row_bytes, rows, first_row, own_bytes, own_col);
  widening_->emit_construct(w, base, first, row_bytes, rows, first_row);
  kv_mma_op().emit_construct(w, std::to_string(base) + own_bytes, own_col);
}

void DecodeStreamingKVBuffer::emit_load_from_dram(Writer& w, int strip) const {
  const int column_strip = shape_.transpose ? strip : 0;
  widening_ ? widening_->emit_load(w, column_strip) : buffer_.emit_load_from_dram(w, 0, column_strip);
}

void DecodeStreamingKVBuffer::emit_load_from_shared(Writer& w) const {
  buffer_.kv_mma_op().emit_registers(w);
  for (int step = 0; step < kv_mma_op().steps(); ++step) buffer_.emit_load_from_shared(w, 0, 0, step);
}

void DecodeStreamingKVBuffer::emit_mma(Writer& w, const std::string& b, const std::string& c, int strip,
                                       bool first) const {
  const int steps = kv_mma_op().steps();
  for (int step = 0; step < steps; ++step)
    kv_mma_op().emit_mma(w, b, c, 0, step, first && strip == 0, strip * steps);
}

}  // namespace kiln::cdna
