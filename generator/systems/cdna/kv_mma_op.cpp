#include "generator/systems/cdna/kv_mma_op.hpp"

#include <algorithm>

#include "generator/systems/kv_mma_op_constants.hpp"

namespace kiln::cdna {
namespace {

using layout::LdsAccess;

/// K: lane l reads the 16 bytes of row l % M, vector l / M.
LanePattern k_pattern(const Mfma& mfma) {
  const int m = mfma.shape.m, simd = mfma.simd();
  return {[m](int l) { return l % m; }, [m, simd](int l) { return l / m * simd; },
          fmt::format("lane & {}", m - 1), fmt::format("lane / {} * {}", m, simd)};
}

/// V by ds_read_b64_tr_b16: 16 lanes name a block of 4 keys x 16 columns (seed-systems.md 4.3).
LanePattern tr16_pattern(const Mfma& mfma) {
  if (mfma.shape.m == 32) {
    return {[](int l) { return 4 * (l / 32) + l % 16 / 4; },
            [](int l) { return 16 * (l / 16 % 2) + 4 * (l % 4); }, "lane / 32 * 4 + (lane & 15) / 4",
            "(lane / 16 & 1) * 16 + (lane & 3) * 4"};
  }
  return {[](int l) { return 4 * (l / 16) + l % 16 / 4; }, [](int l) { return 4 * (l % 4); },
          "lane / 16 * 4 + (lane & 15) / 4", "(lane & 3) * 4"};
}

/// V by rows as they lie: `width` columns of key 4 * group.
LanePattern perm_pattern(const Mfma& mfma, int width) {
  const int m = mfma.shape.m;
  return {[m](int l) { return 4 * (l / m); }, [m, width](int l) { return width * (l % m); },
          fmt::format("lane / {} * 4", m), fmt::format("(lane & {}) * {}", m - 1, width)};
}

}  // namespace

std::vector<ColumnGroup> KVMmaOp::column_groups(const Mfma& mfma, int cols) {
  std::vector<ColumnGroup> out;
  const int m = mfma.shape.m;
  const bool natural = mfma.target == Target::gfx950;
  for (int col = 0; col < cols;) {
    const int rest = (cols - col) / m, width = natural ? 1 : rest >= 4 ? 4 : 2;
    if (rest < width) return {};
    out.push_back({col, width, col / m});
    col += width * m;
  }
  return out;
}

KVMmaOp::KVMmaOp(const Shape& shape, const LdsTile& stage) : shape_(shape), stage_(stage) {
  if (shape_.transpose_b) {
    addresses_.emplace_back("k_frag", stage_, k_pattern(shape_.mfma));
    for (int row = 0; row < stage_.rows; row += shape_.mfma.shape.m) {
      for (int col = 0; col < stage_.cols; col += shape_.mfma.vector_k()) addresses_[0].want(row, col);
    }
    return;
  }
  groups_ = column_groups(shape_.mfma, shape_.num_mmas * shape_.mfma.shape.n);
  for (const ColumnGroup& group : groups_) {
    if (std::find(widths_.begin(), widths_.end(), group.width) != widths_.end()) continue;
    widths_.push_back(group.width);
    addresses_.emplace_back(
        transposing() ? "v_frag" : fmt::format("v_frag_x{}", group.width), stage_,
        transposing() ? tr16_pattern(shape_.mfma) : perm_pattern(shape_.mfma, group.width));
    const int step = 4 * shape_.mfma.groups();
    for (const ColumnGroup& wanted : groups_) {
      if (wanted.width != group.width) continue;
      for (int key = 0; key < stage_.rows; key += step) {
        for (int r = 0; r < (transposing() ? 1 : 4); ++r) addresses_.back().want(key + r, wanted.first);
      }
    }
  }
}

const LaneAddress& KVMmaOp::address(const ColumnGroup& group) const {
  const auto at = std::find(widths_.begin(), widths_.end(), group.width);
  return addresses_[static_cast<std::size_t>(at - widths_.begin())];
}

void KVMmaOp::use(Prelude& prelude) const {
  prelude.use(shape_.mfma.wrapper());
  if (shape_.transpose_b) {
    prelude.use("lds_read_16");
  } else if (transposing()) {
    prelude.use("lds_read_tr16");
  } else {
    prelude.use("pairs");
    for (const int width : widths_) prelude.use(width == 4 ? "lds_read_8" : "lds_read_4");
  }
}

void KVMmaOp::emit_construct(Writer& w, const std::string& base, const std::string& wave_col) const {
  for (const LaneAddress& address : addresses_) address.emit(w, base, wave_col);
}

void KVMmaOp::emit_registers(Writer& w) const {
  if (shape_.transpose_b) {
    const int count = shape_.num_k_tiles * vectors() * shape_.num_mmas;
    w.line("u32x4 k_reg[{}];  // {} fragments of {} elements", count, count * shape_.mfma.k_group(),
           shape_.mfma.frag());
  } else {
    const int count = shape_.num_k_tiles * products();
    w.line("u32x{} v_reg[{}];  // fragments of {} elements", shape_.mfma.frag_regs(), count,
           shape_.mfma.frag());
  }
}

void KVMmaOp::emit_load(Writer& w, int bk_tile, int step, int stage_offset) const {
  if (shape_.transpose_b) return emit_load_k(w, bk_tile, step, stage_offset);
  return transposing() ? emit_load_v_transposing(w, bk_tile, step, stage_offset)
                       : emit_load_v_perm(w, bk_tile, step, stage_offset);
}

void KVMmaOp::emit_load_k(Writer& w, int bk_tile, int vector, int stage_offset) const {
  const int col = bk_tile * shape_.BK + vector * shape_.mfma.vector_k();
  for (int i = 0; i < shape_.num_mmas; ++i) {
    w.line("k_reg[{}] = lds_read_16(lds + {});", (slot(bk_tile) * vectors() + vector) * shape_.num_mmas + i,
           addresses_[0].at(i * shape_.mfma.shape.m, col, stage_offset));
  }
}

void KVMmaOp::emit_load_v_transposing(Writer& w, int bk_tile, int k, int stage_offset) const {
  const int key = bk_tile * shape_.BK + k * shape_.mfma.shape.k;
  const int next = key + 4 * shape_.mfma.groups();  // past the keys of one transposing read
  for (const ColumnGroup& group : groups_) {
    const LaneAddress& at = address(group);
    w.line("v_reg[{}] = join(lds_read_tr16(lds + {}), lds_read_tr16(lds + {}));",
           (slot(bk_tile) * shape_.num_k_mmas + k) * shape_.num_mmas + group.mma,
           at.at(key, group.first, stage_offset), at.at(next, group.first, stage_offset));
  }
}

void KVMmaOp::emit_load_v_perm(Writer& w, int bk_tile, int k, int stage_offset) const {
  const int key = bk_tile * shape_.BK + k * shape_.mfma.shape.k;
  for (const ColumnGroup& group : groups_) {
    const int row = (slot(bk_tile) * shape_.num_k_mmas + k) * shape_.num_mmas + group.mma;
    w.open("");
    std::string reads;
    for (int r = 0; r < 4; ++r) {
      reads += fmt::format("{}key_{} = lds_read_{}(lds + {})", r == 0 ? "" : ", ", r, 2 * group.width,
                           address(group).at(key + r, group.first, stage_offset));
    }
    w.line("const {} {};", group.width == 4 ? "u32x2" : "u32", reads);
    for (int f = 0; f < group.width; ++f) {
      const char* part = group.width == 2 ? "" : f < 2 ? ".x" : ".y";
      w.line("v_reg[{0}] = u32x2{{{1}_halves(key_0{2}, key_1{2}), {1}_halves(key_2{2}, key_3{2})}};", row + f,
             f % 2 == 0 ? "low" : "high", part);
    }
    w.close();
  }
}

void KVMmaOp::emit_mma(Writer& w, const std::string& b, const std::string& c, int bk_tile, int step,
                       bool first, int first_operand, int first_output) const {
  const std::string zero = fmt::format("({})(0.0f)", shape_.mfma.accumulator());
  // A 16-byte vector of K and Q holds the operands of `halves` instructions.
  const int halves = shape_.transpose_b ? shape_.mfma.k_group() : 1;
  const int a = (slot(bk_tile) * steps() + step) * shape_.num_mmas,
            operand = first_operand + bk_tile * steps() + step;
  for (int half = 0; half < halves; ++half) {
    const char* part = halves == 1 ? "" : half == 0 ? ".lo" : ".hi";
    const bool fresh = first && operand == 0 && half == 0;
    for (int i = 0; i < shape_.num_mmas; ++i) {
      const int out = first_output + i;
      w.line("{0}[{1}] = {2}({3}_reg[{4}]{5}, {6}[{7}]{5}, {8});", c, out, shape_.mfma.wrapper(), name(),
             a + i, part, b, operand, fresh ? zero : fmt::format("{}[{}]", c, out));
    }
  }
}

nlohmann::ordered_json KVMmaOp::constants() const {
  KVMmaOpParams params;
  params.in_type = shape_.mfma.type;
  params.mma_shape = {shape_.mfma.shape.m, shape_.mfma.shape.n, shape_.mfma.shape.k};
  params.num_mmas = shape_.num_mmas;
  params.num_k_mmas = shape_.num_k_mmas;
  params.num_k_tiles = shape_.num_k_tiles;
  nlohmann::ordered_json json = to_json(kv_mma_op_constants(params));
  json["num_mmas"] = shape_.num_mmas;
  json["num_k_mmas"] = shape_.num_k_mmas;
  json["num_k_tiles"] = shape_.num_k_tiles;
  json["transpose_b"] = shape_.transpose_b;
  return json;
}

std::vector<layout::Proof> KVMmaOp::proofs(Target target) const {
  std::vector<layout::Proof> out;
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const LdsAccess access = shape_.transpose_b ? LdsAccess::read_b128
                             : transposing()    ? LdsAccess::read_b64_tr
                                                : LdsAccess::read_b64;
    const bool narrow = !shape_.transpose_b && !transposing() && widths_[i] != 4;
    const char* how = shape_.transpose_b ? "ds_read_b128"
                      : transposing()    ? "ds_read_b64_tr_b16"
                      : narrow           ? "ds_read_b32"
                                         : "ds_read_b64";
    out.push_back({fmt::format("{} fragments: {}", shape_.transpose_b ? "K" : "V", how),
                   addresses_[i].proves(), narrow ? 0 : addresses_[i].bank_conflicts(target, access)});
  }
  return out;
}

}  // namespace kiln::cdna
