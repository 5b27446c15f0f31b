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
  strip.bk_smem = !s.transpose && s.blocked ? s.BK : c.strip_cols;
  strip.num_threads = s.num_threads;
  strip.num_smem_stages = 1;
  strip.dma_bytes = s.dma_bytes;
  strip.swizzle = s.swizzle;
  strip.strips = s.transpose ? c.num_strips : 1;
  strip.last_columns = s.transpose ? s.depth % s.BK : 0;
  strip.read_columns = s.transpose ? 0 : s.depth / c.num_warps_n;
  // Flat rows of V: a swizzle may move columns of one wave among those of another.
  if (!s.transpose && strip.bk_smem == strip.depth) strip.read_waves = c.num_warps_n;
  strip.row_columns = s.row_columns;
  strip.page_size = s.page_size;
  strip.reg_staged = s.reg_staged, strip.widens = s.widens;
  strip.stored = s.stored, strip.scale_columns = s.scale_columns;
  strip.keys_in_order = true;  // P comes from LDS
  strip.block = !s.transpose && s.block_form;
  return strip;
}

}  // namespace

DecodeStreamingKVBuffer::DecodeStreamingKVBuffer(const Shape& shape)
    : shape_(shape), constants_(constants_of(shape)), buffer_(strip_of(shape, constants_)) {
  if (shape_.transpose && shape_.depth % shape_.BK != 0)
    last_ = kv_mma_op().with_columns(shape_.depth % shape_.BK);
}

void DecodeStreamingKVBuffer::use(Prelude& prelude) const {
  buffer_.use(prelude);
  if (last_) last_->use(prelude);
  if (!buffer_.own_rows()) return;
  if (buffer_.staged()) {
    prelude.use("barrier");
  } else if (num_strips() > 1) {
    prelude.use("wait_loads");
  }
}

void DecodeStreamingKVBuffer::emit_landed(Writer& w, int strip) const {
  const bool own = buffer_.own_rows();
  // The first strip's barrier also says that every wave is done with V, whose next copy comes before P's.
  if (!buffer_.staged()) return w.line(own && strip > 0 ? "WAIT_LOADS(0);" : "WAIT_LOADS_AND_SYNC(0);");
  buffer_.emit_store(w, 0);
  if (!own) w.line("SYNC();");
}

void DecodeStreamingKVBuffer::emit_segment_start(Writer& w) const {
  if (buffer_.staged() && buffer_.own_rows())
    w.line("BARRIER();  // every wave has read the last segment's sums");
}

void DecodeStreamingKVBuffer::emit_taken(Writer& w, int strip) const {
  const bool last = strip + 1 == num_strips();
  if (last && !shape_.shared) return;
  if (last || !buffer_.own_rows()) return w.line("SYNC();  // every wave has its fragments");
  // LDS takes a wave's reads and writes in order; copies go past it.
  if (!buffer_.staged()) kv_mma_op().emit_arrived(w);
}

void DecodeStreamingKVBuffer::emit_construct(Writer& w, int base, const std::string& first,
                                             const std::string& row_bytes, const std::string& rows,
                                             const std::string& first_row) const {
  // K: the wave's keys, whole periods of the swizzle; V: its columns.
  const int key_bytes = shape_.WN * shape_.BK * static_cast<int>(size_of(shape_.mfma.type));
  const LdsTile& stage = buffer_.stage();
  const bool blocks = !shape_.transpose && stage.blocks() > 1;
  const int own = shape_.transpose ? key_bytes : wave_columns() / stage.block_cols * stage.block_bytes();
  const std::string own_bytes = shape_.transpose || blocks ? fmt::format(" + warp * {}", own) : "";
  const std::string own_col = shape_.transpose || blocks ? "" : fmt::format("warp * {}", wave_columns());
  buffer_.emit_construct(w, base, first, row_bytes, rows, first_row, own_bytes, own_col);
}

void DecodeStreamingKVBuffer::emit_load_from_dram(Writer& w, int strip) const {
  buffer_.emit_load_from_dram(w, 0, shape_.transpose ? strip : 0);
}

const KVMmaOp& DecodeStreamingKVBuffer::op_of(int strip) const {
  return last_ && strip + 1 == num_strips() ? *last_ : kv_mma_op();
}

void DecodeStreamingKVBuffer::emit_load_from_shared(Writer& w, int strip) const {
  const KVMmaOp& op = op_of(strip);
  op.emit_registers(w);
  for (int step = 0; step < op.steps(); ++step) op.emit_load(w, 0, step, 0);
}

void DecodeStreamingKVBuffer::emit_mma(Writer& w, const std::string& b, const std::string& c, int strip,
                                       bool first) const {
  const int steps = kv_mma_op().steps();
  for (int step = 0; step < steps; ++step) op_of(strip).emit_mma(w, b, c, 0, step, first, strip * steps);
}

/// Of the two ways into LDS the constants of the one that is not taken are null.
nlohmann::ordered_json DecodeStreamingKVBuffer::constants() const {
  nlohmann::ordered_json json = to_json(constants_, shape_.transpose);
  const auto& staged = buffer_.staged_copy();
  const auto set = [&](const char* name, bool known, int value) {
    json[name] = known ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  set("_total_dma_tiles", !staged, buffer_.derived().total_tiles);
  set("_tiles_per_warp", !staged, buffer_.derived().tiles_per_warp);
  set("vm_instrs_per_load", !staged, buffer_.copies());
  set(shape_.transpose ? "k_tr" : "v_tr", staged.has_value(), staged ? staged->rows_at_once() : 0);
  set(shape_.transpose ? "k_tc" : "v_tc", staged.has_value(), staged ? staged->pieces_a_row() : 0);
  set("vectors_per_thread", staged.has_value(), staged ? staged->loads() : 0);
  if (!shape_.transpose) set("staging_rows", staged.has_value(), staged ? staged->loads() : 0);
  json["smem_bytes"] = bytes();
  return json;
}

}  // namespace kiln::cdna
