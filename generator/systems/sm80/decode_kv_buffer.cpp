#include "generator/systems/sm80/decode_kv_buffer.hpp"

#include <algorithm>

#include "generator/emit/output_elements.hpp"
#include "generator/systems/decode_streaming_constants.hpp"
#include "generator/systems/kv_buffer_constants.hpp"
#include "generator/systems/sm80/tile_widening.hpp"

namespace kiln::sm80 {

namespace {

SmemTile tile_of(const DecodeStreamingKVBuffer::Shape& shape) {
  return {shape.WN, shape.depth * static_cast<int>(size_of(shape.stored)) / 2, shape.columns, shape.swizzle};
}

}  // namespace

DecodeStreamingKVBuffer::DecodeStreamingKVBuffer(const Shape& shape, const MHAOperand& operand)
    : shape_(shape),
      operand_(operand),
      tile_(tile_of(shape)),
      reader_(shape.transpose ? "k_frag" : "v_frag", tile_,
              shape.transpose ? layout::MatrixOrder::cols_first : layout::MatrixOrder::rows_first),
      address_(name() + "_dst", tile_, 32) {
  if (!bytes()) {
    KVMmaOp::Shape op;
    op.in_type = shape.compute;
    op.num_mmas = (shape.transpose ? shape.WN : shape.depth) / KVMmaOp::MMA_N;
    op.num_k_mmas = 1;
    op.num_k_tiles = shape.transpose ? 2 : 1;  // fragments of the next step load during the products of one
    op.BN = shape.WN;
    op.BK = KVMmaOp::MMA_K;
    op.transpose_b = shape.transpose;
    op_.emplace(op, tile_);
  }
  const int rows_per_copy = 32 / tile_.vectors_per_row();
  for (int row = 0; row < shape.WN; row += rows_per_copy) address_.want(row, 0);
}

std::string DecodeStreamingKVBuffer::widen() const {
  return widen_function(shape_.stored, shape_.compute);
}

void DecodeStreamingKVBuffer::use(Prelude& prelude) const {
  prelude.use("cp_async");
  prelude.use(shape_.transpose ? "ldmatrix" : "ldmatrix_trans");
  const std::string mma = fmt::format("mma_{}", to_string(shape_.compute));
  prelude.use(mma);
  if (shape_.transpose) prelude.use(mma + "_first");
  if (bytes()) prelude.use("byte_type"), prelude.use(widen());
}

void DecodeStreamingKVBuffer::emit_lane(Writer& w) const {
  if (shape_.transpose) {
    w.line(
        "const int copy_row = lane / {0}, copy_chunk = lane % {0};  // rows of 16-byte chunks, {1} at a time",
        tile_.vectors_per_row(), 32 / tile_.vectors_per_row());
  }
}

void DecodeStreamingKVBuffer::emit_copy(Writer& w, const std::string& stage, const std::string& page,
                                        const std::string& first_row, const std::string& length) const {
  const std::string n = name();
  const int per_row = tile_.vectors_per_row(), rows = 32 / per_row, R = operand_.chunk_rows();
  const int block_elements = bytes() ? 2 * tile_.block_cols : tile_.block_cols;
  const auto copies = [&](int row, const std::string& src, const std::string& valid) {
    for (int block = 0; block < tile_.blocks(); ++block) {
      const int chunks = std::min(per_row, tile_.cols / 8 - block * per_row);
      const std::string at = block > 0 ? fmt::format("{} + {}", src, block * block_elements) : src;
      w.line("{}cp_async_16({}, {}, {});",
             chunks < per_row ? fmt::format("if (copy_chunk < {}) ", chunks) : "",
             address_.at(row, block * per_row), bytes() ? fmt::format("(const u16*)({})", at) : at, valid);
    }
  };
  address_.emit(w, stage, "lane");
  for (int chunk = 0; R >= rows && chunk < operand_.chunks(); ++chunk) {
    const std::string first = chunk == 0 ? first_row : fmt::format("{} + {}", first_row, chunk * R);
    w.open("");
    std::string at = page;
    if (operand_.chunks() > 1) {
      w.line("const int chunk_page = __shfl_sync(0xffffffffu, {}, {});", page, chunk);
      at = "chunk_page";
    }
    const std::string in_page = operand_.row_in_page(first);
    w.line("const {4}* const {0}_src = {0}_base + {1}({2} + copy_row) * {0}_stride_seq{3};", n,
           operand_.table() ? fmt::format("{} * {}_stride_page + ", at, n) : "",
           in_page == "0" ? "0" : in_page, "", bytes() ? "u8" : "u16");
    w.line("const int {}_rows = {}{} - ({}) - copy_row;", n,
           operand_.table() ? fmt::format("{} < 0 ? 0 : ", at) : "", length, first);
    for (int row = 0; row < R; row += rows) {
      copies(chunk * R + row, row == 0 ? n + "_src" : fmt::format("{0}_src + {1} * {0}_stride_seq", n, row),
             fmt::format("{}_rows > {}", n, row));
    }
    w.close();
  }
  for (int row = 0; R < rows && row < shape_.WN; row += rows) {
    w.open("");
    w.line("const int row = {} + copy_row, row_page = __shfl_sync(0xffffffffu, {}, row / {});", row, page, R);
    copies(row,
           fmt::format("{}_base + {}", n,
                       operand_.row_offset(n, "row_page", fmt::format("{} + row", first_row))),
           fmt::format("row_page >= 0 && {} + row < {}", first_row, length));
    w.close();
  }
}

std::string DecodeStreamingKVBuffer::emit_query(Writer& w, int step) const {
  if (shape_.q_in_registers) return fmt::format("q_reg + {}", 4 * step);
  w.line("load_shared_128(q_reg + {}, smem_q + {});", 4 * (step % 2), 512 * step);
  return fmt::format("q_reg + {}", 4 * (step % 2));
}

void DecodeStreamingKVBuffer::emit_qk(Writer& w, const std::string& stage) const {
  w.comment("S = Q K(n)'");
  if (bytes()) {
    reader_.emit_construct(w, stage);
    return emit_qk_bytes(w);
  }
  op_->emit_construct(w, stage);
  op_->emit_registers(w);
  op_->emit_load(w, 0, 0, 0);
  for (int step = 0; step < steps(); ++step) {
    if (step + 1 < steps()) op_->emit_load(w, step + 1, 0, 0);
    op_->emit_mma(w, emit_query(w, step), "s_acc", step, 0, step == 0);
  }
}

void DecodeStreamingKVBuffer::emit_qk_bytes(Writer& w) const {
  const std::string mma = fmt::format("mma_{}", to_string(shape_.compute));
  const int tiles = shape_.WN / 8;
  const std::string target = groups() > 1 ? "part" : "s_acc";
  w.line("u32 k_reg[4], k_wide[2];");
  if (groups() > 1) w.line("float part[{}];", 4 * tiles);
  const int group_steps = shape_.group == 0 ? steps() : shape_.group / 16;
  for (int pair = 0; pair < steps() / 2; ++pair) {
    w.comment("depth {} .. {}", 32 * pair, 32 * pair + 31);
    const std::string query[2] = {emit_query(w, 2 * pair), emit_query(w, 2 * pair + 1)};
    for (int keys = 0; keys < shape_.WN; keys += 16) {
      w.line("ldmatrix_x4(k_reg, {});", reader_.at(keys, 16 * pair));
      for (int half = 0; half < 2; ++half) {
        const int step = 2 * pair + half;
        const bool first = groups() > 1 ? step % group_steps == 0 : step == 0;
        for (int upper = 0; upper < 2; ++upper) {
          w.line("{}(k_wide, k_reg[{}]); {}{}({} + {}, {}, k_wide);", widen(), half + 2 * upper, mma,
                 first ? "_first" : "", target, 4 * (keys / 8 + upper), query[half]);
        }
      }
    }
    if (groups() == 1 || ((2 * pair + 2) % group_steps != 0 && 2 * pair + 2 < steps())) continue;
    const int group = (2 * pair + 1) / group_steps;
    for (int i = 0; i < 4 * tiles; ++i) {
      w.line("s_acc[{0}] {1}= part[{0}] * k_scales[({2} + column) * {3} + {4}];", i, group == 0 ? "" : "+",
             8 * (i / 4) + i % 2, groups(), group);
    }
  }
  if (shape_.group > 0 && groups() == 1) {
    for (int i = 0; i < 4 * tiles; ++i) w.line("s_acc[{}] *= k_scales[{} + column];", i, 8 * (i / 4) + i % 2);
  }
}

void DecodeStreamingKVBuffer::emit_pv(Writer& w, const std::string& stage) const {
  w.comment("O += P V(n)");
  const char* pack = pack_name(shape_.compute);
  w.line("u32 p[{}];  // P: 16 x {} as the A operand", shape_.WN / 4, shape_.WN);
  const auto emit_pack = [&](int group) {
    const auto scaled = [&](int i) {
      if (shape_.group == 0) return fmt::format("s_acc[{}]", i);
      return fmt::format("s_acc[{}] * v_scales[({} + column) * {} + {}]", i, 8 * (i / 4) + i % 2, groups(),
                         group);
    };
    for (int i = 0; i < shape_.WN / 4; ++i)
      w.line("p[{}] = {}({}, {});", i, pack, scaled(2 * i), scaled(2 * i + 1));
  };
  if (!bytes()) {
    emit_pack(0);
    op_->emit_construct(w, stage);
    op_->emit_registers(w);
    for (int step = 0; step < shape_.WN / 16; ++step) {
      op_->emit_load(w, step, 0, 0);
      op_->emit_mma(w, fmt::format("p + {}", 4 * step), "o_acc", step, 0, false);
    }
    return;
  }
  reader_.emit_construct(w, stage);
  const std::string mma = fmt::format("mma_{}", to_string(shape_.compute));
  w.line("u32 v_reg[4], v_low[2], v_high[2], v_even[2], v_odd[2];");
  int packed = -1;
  for (int pair = 0; pair < steps() / 2; ++pair) {
    for (int half = 0; half < 2; ++half) {
      const int block = 2 * pair + half, group = shape_.group == 0 ? 0 : 16 * block / shape_.group;
      if (group != packed) emit_pack(group);
      packed = group;
      for (int step = 0; step < shape_.WN / 16; ++step) {
        // Both halves of the .x4 are 16 columns; where a group has only one of them they are read twice.
        if (half == 0 || shape_.WN > 16 || groups() > 1)
          w.line("ldmatrix_x4_trans(v_reg, {});", reader_.at(16 * step, 16 * pair));
        w.line("{0}(v_low, v_reg[{1}]); {0}(v_high, v_reg[{2}]);", widen(), 2 * half, 2 * half + 1);
        w.line("v_even[0] = v_low[0]; v_even[1] = v_high[0]; v_odd[0] = v_low[1]; v_odd[1] = v_high[1];");
        w.line("{0}(o_acc + {1}, p + {2}, v_even); {0}(o_acc + {3}, p + {2}, v_odd);", mma, 8 * block,
               4 * step, 8 * block + 4);
      }
    }
  }
}

DecodeStreamingKVBuffer::Column DecodeStreamingKVBuffer::output_column(int tile, int e) const {
  if (!bytes()) return {8 * tile + e, 2};
  return {16 * (tile / 2) + 2 * e + tile % 2, 4};
}

std::array<int, 4> DecodeStreamingKVBuffer::query_columns(int step) const {
  if (!bytes()) return {16 * step, 16 * step + 1, 16 * step + 8, 16 * step + 9};
  return {16 * step, 16 * step + 2, 16 * step + 1, 16 * step + 3};
}

nlohmann::ordered_json DecodeStreamingKVBuffer::constants() const {
  // A warp has tiles of its own: no other one shares their columns. Strips are one instruction step wide.
  const bool k = shape_.transpose;
  const int frag = KVMmaOp::input_frag_size, num_mmas = (k ? shape_.WN : shape_.depth) / KVMmaOp::MMA_N;
  const int rows = op_ ? op_->total_rows()
                   : k ? 1
                       : 2;  // bytes are widened a fragment, or two of V, at a time
  nlohmann::ordered_json json{{"MMA_N", KVMmaOp::MMA_N},
                              {"MMA_K", KVMmaOp::MMA_K},
                              {"simd_width", bytes() ? 16 : 8},
                              {"warp_tile_rows", shape_.WN},
                              {"input_frag_size", frag},
                              {"_num_warps_n", 1},
                              {"num_mmas", num_mmas},
                              {"num_k_mmas2", 1},
                              {"mma_layout", {rows, frag}},
                              {"_strip_rows", k ? shape_.WN : KVMmaOp::MMA_K},
                              {"_strip_cols", k ? KVMmaOp::MMA_K : shape_.depth},
                              {"num_strips", (k ? shape_.depth : shape_.WN) / KVMmaOp::MMA_K}};
  json["BN"] = shape_.WN;
  json["depth"] = shape_.depth;
  json["smem_stage_bytes"] = stage_bytes();
  json["scale_groups"] = shape_.group == 0 ? 0 : groups();
  return json;
}

std::vector<layout::Proof> DecodeStreamingKVBuffer::proofs() const {
  const std::string n = shape_.transpose ? "K" : "V";
  const TileCopy copy(name(), tile_, 32);
  return {{n + " stage: bijection", tile_.layout().is_bijection(), 0},
          {n + " copies: cp.async", copy.proves(), copy.bank_conflicts()},
          {n + " fragments: ldmatrix", reader_.proves(), reader_.bank_conflicts()}};
}

}  // namespace kiln::sm80
