#include "generator/systems/sm80/kv_mma_op.hpp"

#include "generator/systems/kv_mma_op_constants.hpp"

namespace kiln::sm80 {

KVMmaOp::KVMmaOp(const Shape& shape, const SmemTile& stage)
    : shape_(shape),
      reader_(shape.transpose_b ? "k_frag" : "v_frag", stage,
              shape.transpose_b ? layout::MatrixOrder::cols_first : layout::MatrixOrder::rows_first) {}

void KVMmaOp::use(Prelude& prelude) const {
  prelude.use(shape_.transpose_b ? "ldmatrix" : "ldmatrix_trans");
  prelude.use(shape_.in_type == DType::bf16 ? "mma_bf16" : "mma_fp16");
}

void KVMmaOp::emit_registers(Writer& w) const {
  w.line("u32 {}_reg[{}];  // {} fragments of 16x8", name(), num_registers(), total_rows());
}

void KVMmaOp::emit_load(Writer& w, int bk_tile, int k_mma, int stage_offset, Range range) const {
  const int step = bk_tile * shape_.BK + k_mma * MMA_K;  // first depth column (K) or key (V)
  for (int mma = range.first; mma < end_of(range); mma += 2) {
    const int n = mma * MMA_N;
    const std::string address =
        shape_.transpose_b ? reader_.at(n, step, stage_offset) : reader_.at(step, n, stage_offset);
    w.line("ldmatrix_x4{}({}_reg + {}, {});", shape_.transpose_b ? "" : "_trans", name(),
           mma_tile_at(bk_tile, k_mma) + mma * input_frag_size / 2, address);
  }
}

void KVMmaOp::emit_mma(Writer& w, const std::string& a, const std::string& c, int bk_tile, int k_mma,
                       bool first, Range range) const {
  const char* type = shape_.in_type == DType::bf16 ? "bf16" : "fp16";
  for (int mma = range.first; mma < end_of(range); ++mma) {
    w.line("mma_{}{}({} + {}, {}, {}_reg + {});", type, first ? "_first" : "", c, 4 * mma, a, name(),
           mma_tile_at(bk_tile, k_mma) + mma * input_frag_size / 2);
  }
}

nlohmann::ordered_json KVMmaOp::constants() const {
  KVMmaOpParams params;
  params.in_type = shape_.in_type;
  params.mma_shape = {MMA_M, MMA_N, MMA_K};
  params.num_mmas = shape_.num_mmas;
  params.num_k_mmas = shape_.num_k_mmas;
  params.num_k_tiles = shape_.num_k_tiles;
  params.wave = 32;
  nlohmann::ordered_json json = to_json(kv_mma_op_constants(params));
  json.erase("packs");  // how 16-byte loads fill fragments: ldmatrix fills whole ones
  json.erase("k_group");
  json["num_mmas"] = shape_.num_mmas;
  json["num_k_mmas"] = shape_.num_k_mmas;
  json["num_k_tiles"] = shape_.num_k_tiles;
  json["transpose_b"] = shape_.transpose_b;
  return json;
}

}  // namespace kiln::sm80
