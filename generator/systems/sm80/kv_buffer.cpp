#include "generator/systems/sm80/kv_buffer.hpp"

#include <algorithm>

namespace kiln::sm80 {

namespace {

KVBufferConstants constants_of(const KVBuffer::Shape& shape) {
  KVBufferParams params;
  params.dtype = shape.in_type;
  params.mma_shape = {KVMmaOp::MMA_M, KVMmaOp::MMA_N, KVMmaOp::MMA_K};
  params.BN = shape.BN;
  params.WN = shape.WN;
  params.BK = shape.BK;
  params.num_threads = shape.num_threads;
  params.depth = shape.depth;
  params.transpose = shape.transpose;
  params.smem_depth = align_up(shape.depth, shape.bk_smem);
  params.bk_smem = shape.bk_smem;
  params.num_smem_stages = size_of(shape.stored) == 1 ? 1 : shape.num_smem_stages;
  params.wave = 32;
  return kv_buffer_constants(params);
}

}  // namespace

KVBuffer::KVBuffer(const Shape& shape)
    : shape_(shape),
      operand_(shape.page_size > 0 ? OperandKind::paged : OperandKind::contiguous, shape.page_size, 1),
      constants_(constants_of(shape)),
      stage_{shape.BN, shape.depth, shape.bk_smem, shape.swizzle},
      op_({shape.in_type, num_mmas(), num_k_mmas2(), num_k_tiles(), shape.BN, shape.BK, shape.transpose},
          stage_),
      copy_(name(), narrow() ? tile_of_bytes(stage_) : stage_, shape.num_threads, narrow()) {
  if (narrow()) widening_.emplace(name(), stage_, shape.num_threads, shape.stored, shape.in_type);
}

int KVBuffer::k_steps(int bk_tile) const {
  const int extent = shape_.transpose ? shape_.depth : shape_.WN;
  return std::min(num_k_mmas2(), ceil_div(extent - bk_tile * shape_.BK, KVMmaOp::MMA_K));
}

void KVBuffer::use(Prelude& prelude) const {
  prelude.use("cp_async");
  op_.use(prelude);
  if (narrow()) prelude.use("byte_type"), widening_->use(prelude);
}

void KVBuffer::emit_construct(Writer& w, const std::string& base, const std::string& first,
                              const std::string& stride, const std::string& rows) const {
  const std::string n = name();
  w.comment("{}: copies of this thread ({} rows apart), fragment addresses of this lane",
            shape_.transpose ? "K" : "V", copy_.rows_per_pass());
  // The pages of V's rows are those of K's.
  copy_.emit_construct(w, narrow() ? base + "_bytes" : base, shape_.transpose || shape_.page_size == 0);
  if (narrow()) widening_->emit_construct(w, base);
  const char* const type = narrow() ? "u8" : "u16";
  const int vector = narrow() ? 16 : 8;
  if (shape_.page_size > 0) {
    w.line("const {2}* const {0}_column = {1} + {3} * {0}_chunk;", n, first, type, vector);
    op_.emit_construct(w, base);
    return;
  }
  w.line("const {3}* {0}_src = {1} + {0}_row * {2} + {4} * {0}_chunk;", n, first, stride, type, vector);
  if (copy_.passes() > 1) w.line("const long long {}_pass = {} * {};", n, copy_.rows_per_pass(), stride);
  w.line("int {0}_rows = {1} - {0}_row;", n, rows);
  op_.emit_construct(w, base);
}

void KVBuffer::emit_pages(Writer& w, const std::string& first) const {
  w.comment("pages of this thread's rows of the tile to load next; -1: no row");
  w.line("int page_row = {} + k_row;", first);
  for (int pass = 0; pass < copy_.passes(); ++pass) w.line("int page_{} = -1;", pass);
  emit_populate(w);
}

void KVBuffer::emit_populate(Writer& w) const {
  for (int pass = 0; pass < copy_.passes(); ++pass) {
    const std::string row =
        pass == 0 ? "page_row" : fmt::format("page_row + {}", pass * copy_.rows_per_pass());
    w.line("page_{} = {};", pass, operand_.populate("batch", row, "0", "seqlen_k"));
  }
}

void KVBuffer::emit_load_from_dram(Writer& w, int stage) const {
  const std::string n = name();
  w.comment("load_{}_stage{}", n, stage);
  if (shape_.page_size > 0) {
    copy_.emit_from(
        w, stage * stage_bytes(),
        [&](int pass) {
          const std::string row =
              pass == 0 ? "page_row" : fmt::format("page_row + {}", pass * copy_.rows_per_pass());
          return fmt::format("{}_column + {}", n, operand_.row_offset(n, fmt::format("page_{}", pass), row));
        },
        [](int pass) { return fmt::format("page_{} >= 0", pass); });
    if (shape_.transpose) return;
    w.line("page_row += {};", shape_.BN);
    emit_populate(w);
    return;
  }
  copy_.emit(w, stage * stage_bytes());
  w.line("{0}_src += {1} * {0}_stride_seq; {0}_rows -= {1};", n, shape_.BN);
}

void KVBuffer::emit_widen(Writer& w, int stage) const {
  w.comment("{}(n): this thread's bytes of stage {} to 16 bits", shape_.transpose ? "K" : "V", stage);
  widening_->emit(w, copy_, stage * stage_bytes());
}

void KVBuffer::emit_load_from_shared(Writer& w, int stage, int bk_tile, int k_mma,
                                     KVMmaOp::Range range) const {
  op_.emit_load(w, bk_tile, k_mma, narrow() ? 0 : stage * tile_bytes(), range);
}

nlohmann::ordered_json KVBuffer::constants() const {
  KVBufferConstants c = constants_;
  c.vm_exact = c.vm_instrs_per_load = copy_.copies_per_thread();  // cp.async instructions of a warp, per load
  nlohmann::ordered_json json = to_json(c);
  if (narrow()) json["byte_stage_bytes"] = stage_bytes();
  return json;
}

std::vector<layout::Proof> KVBuffer::proofs() const {
  const std::string n = shape_.transpose ? "K" : "V";
  std::vector<layout::Proof> proofs{
      {n + " stage: bijection", stage_.layout().is_bijection(), 0},
      {n + " copies: cp.async", copy_.proves(), copy_.bank_conflicts()},
      {n + " fragments: ldmatrix", op_.reader().proves(), op_.reader().bank_conflicts()}};
  if (narrow())
    proofs.push_back({n + " widened: st.shared", widening_->proves(copy_), widening_->bank_conflicts()});
  return proofs;
}

}  // namespace kiln::sm80
