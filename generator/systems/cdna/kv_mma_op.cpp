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

/// V by ds_read_b64_tr_b16: 16 lanes name a block of 4 keys x 16 columns.
LanePattern tr16_pattern(const Mfma& mfma) {
  if (mfma.shape.m == 32) {
    return {[](int l) { return 4 * (l / 32) + l % 16 / 4; },
            [](int l) { return 16 * (l / 16 % 2) + 4 * (l % 4); }, "lane / 32 * 4 + (lane & 15) / 4",
            "(lane / 16 & 1) * 16 + (lane & 3) * 4"};
  }
  return {[](int l) { return 4 * (l / 16) + l % 16 / 4; }, [](int l) { return 4 * (l % 4); },
          "lane / 16 * 4 + (lane & 15) / 4", "(lane & 3) * 4"};
}

/// V by ds_read_b64_tr_b8: 16 lanes name a block of 8 keys x 16 columns, a key to two lanes. The keys are two
/// runs of four accumulator rows, or eight in order.
LanePattern tr8_pattern(const Mfma& mfma, bool in_order) {
  const int m = mfma.shape.m, groups = mfma.groups(), columns = m / 16;
  const std::string col = columns == 2 ? "(lane / 16 & 1) * 16 + (lane & 1) * 8" : "(lane & 1) * 8";
  const auto col_of = [columns](int l) { return 16 * (l / 16 % columns) + 8 * (l % 2); };
  if (in_order)
    return {[m](int l) { return 8 * (l / m) + l % 16 / 2; }, col_of,
            fmt::format("lane / {} * 8 + (lane & 15) / 2", m), col};
  return {[m, groups](int l) { return 4 * (l / m) + l % 8 / 2 + 4 * groups * (l % 16 / 8); }, col_of,
          fmt::format("lane / {} * 4 + (lane & 7) / 2 + (lane / 8 & 1) * {}", m, 4 * groups), col};
}

/// V by rows as they lie: `width` columns of key `keys` * group.
LanePattern perm_pattern(const Mfma& mfma, int width, int keys) {
  const int m = mfma.shape.m;
  return {[m, keys](int l) { return keys * (l / m); }, [m, width](int l) { return width * (l % m); },
          fmt::format("lane / {} * {}", m, keys), fmt::format("(lane & {}) * {}", m - 1, width)};
}

/// V by single elements: column lane % M of a lane's own keys.
LanePattern block_pattern(const Mfma& mfma) {
  const int m = mfma.shape.m, frag = mfma.frag();
  return {[m, frag](int l) { return frag * (l / m); }, [m](int l) { return l % m; },
          fmt::format("lane / {} * {}", m, frag), fmt::format("(lane & {})", m - 1)};
}

/// `pattern` of `waves` waves, whose columns are `columns` apart.
LanePattern of_waves(LanePattern pattern, int waves, int columns) {
  if (waves == 1) return pattern;
  pattern.row = [row = pattern.row](int l) { return row(l % 64); };
  pattern.col = [col = pattern.col, columns](int l) { return col(l % 64) + l / 64 * columns; };
  pattern.lanes = 64 * waves;
  return pattern;
}

}  // namespace

int KVMmaOp::column_unit(const Mfma& mfma) {
  const bool natural = mfma.target == Target::gfx950;
  return mfma.shape.m * (natural ? 1 : is_fp8(mfma.type) ? 4 : 2);
}

std::vector<ColumnGroup> KVMmaOp::column_groups(const Mfma& mfma, int cols, bool block) {
  std::vector<ColumnGroup> out;
  const int m = mfma.shape.m;
  const bool natural = block || mfma.target == Target::gfx950;
  for (int col = 0; col < cols;) {
    const int rest = (cols - col) / m;
    const int width = natural ? 1 : is_fp8(mfma.type) || rest >= 4 ? 4 : 2;
    if (rest < width) return {};
    out.push_back({col, width, col / m});
    col += width * m;
  }
  return out;
}

KVMmaOp::KVMmaOp(const Shape& shape, const LdsTile& stage) : shape_(shape), stage_(stage) {
  if (shape_.transpose_b) {
    want_keys();
    return;
  }
  groups_ = column_groups(shape_.mfma, wave_columns(), shape_.block);
  if (shape_.block) {
    want_blocks();
    return;
  }
  for (const ColumnGroup& group : groups_) {
    if (std::find(widths_.begin(), widths_.end(), group.width) == widths_.end()) want_columns(group.width);
  }
}

/// K: rows of fragments are keys.
void KVMmaOp::want_keys() {
  addresses_.emplace_back(tensor() + "_frag", stage_, k_pattern(shape_.mfma));
  for (int row = 0; row < stage_.rows; row += shape_.mfma.shape.m) {
    for (int col = 0; col < std::min(stage_.cols, columns()); col += shape_.mfma.vector_k())
      for (int half = 0; half < stage_.simd(); half += stage_.unit()) addresses_[0].want(row, col + half);
  }
}

/// V an element at a time.
void KVMmaOp::want_blocks() {
  widths_.push_back(1);
  addresses_.emplace_back("v_frag", stage_,
                          of_waves(block_pattern(shape_.mfma), shape_.waves, wave_columns()));
  for (const ColumnGroup& group : groups_) {
    for (int step = 0; step < stage_.rows; step += shape_.mfma.shape.k) {
      for (int e = 0; e < shape_.mfma.frag(); ++e) addresses_[0].want(step + e, group.first);
    }
  }
}

/// V in groups of `width` columns. Literals are the keys that no lane adds.
void KVMmaOp::want_columns(int width) {
  widths_.push_back(width);
  const Mfma& mfma = shape_.mfma;
  const bool in_order = shape_.keys_in_order;
  const LanePattern pattern = transposing() && bytes() ? tr8_pattern(mfma, in_order)
                              : transposing()          ? tr16_pattern(mfma)
                                              : perm_pattern(mfma, width, bytes() && in_order ? 8 : 4);
  addresses_.emplace_back(transposing() ? "v_frag" : fmt::format("v_frag_x{}", width), stage_,
                          of_waves(pattern, shape_.waves, wave_columns()));
  const int runs = bytes() && !transposing() ? 2 : 1, step = (bytes() ? 8 : 4) * mfma.groups();
  for (const ColumnGroup& wanted : groups_) {
    if (wanted.width != width) continue;
    for (int key = 0; key < stage_.rows; key += step) {
      for (int run = 0; run < runs; ++run) {
        for (int r = 0; r < (transposing() ? 1 : 4); ++r)
          addresses_.back().want(key + run * key_stride() + r, wanted.first);
      }
    }
  }
}

int KVMmaOp::key_stride() const {
  const int all = 4 * shape_.mfma.groups();  // keys of one accumulator run of every lane
  if (!bytes()) return all;
  if (transposing()) return 2 * all;
  return shape_.keys_in_order ? 4 : all;
}

int KVMmaOp::products(int bk_tile) const {
  if (!shape_.transpose_b) return products();
  int there = 0;
  for (int step = 0; step < steps(); ++step) there += has_part(bk_tile, step, 0);
  return there * products() / steps();
}

int KVMmaOp::slot_key(int lane, int element) const {
  const LaneAddress& at = addresses_[0];
  if (shape_.block) return at.row(lane) + element;
  if (transposing()) {
    // A transposing read gives a lane one element of every row that its 16 lanes name.
    const int per_read = bytes() ? 8 : 4, lanes_per_row = 16 / per_read;
    const int source = lane / 16 * 16 + lanes_per_row * (element % per_read);
    return at.row(source) + element / per_read * key_stride();
  }
  return at.row(lane) + element % 4 + element / 4 * key_stride();
}

layout::LdsAccess KVMmaOp::access(std::size_t i) const {
  if (shape_.transpose_b) return parted() ? LdsAccess::read_b64 : LdsAccess::read_b128;
  if (shape_.block) return LdsAccess::read_u16;
  if (transposing()) return LdsAccess::read_b64_tr;
  return widths_[i] * (bytes() ? 1 : 2) == 8 ? LdsAccess::read_b64 : LdsAccess::read_b32;
}

const LaneAddress& KVMmaOp::address(const ColumnGroup& group) const {
  const auto at = std::find(widths_.begin(), widths_.end(), group.width);
  return addresses_[static_cast<std::size_t>(at - widths_.begin())];
}

void KVMmaOp::use(Prelude& prelude) const {
  prelude.use(shape_.mfma.wrapper());
  if (shape_.transpose_b) {
    prelude.use("lds_read_16");
    if (parted()) prelude.use("lds_read_8"), prelude.use("join_8");
    if (shape_.columns % shape_.mfma.vector_k() != 0) prelude.use("zero_past");
  } else if (shape_.block) {
    prelude.use("lds_read_pair");
  } else if (transposing()) {
    prelude.use(bytes() ? "lds_read_tr8" : "lds_read_tr16");
    if (!bytes()) prelude.use("join_8");
  } else {
    prelude.use(bytes() ? "turn_bytes" : "pairs");
    for (std::size_t i = 0; i < widths_.size(); ++i)
      prelude.use(access(i) == LdsAccess::read_b64 ? "lds_read_8" : "lds_read_4");
  }
}

void KVMmaOp::emit_construct(Writer& w, const std::string& base, const std::string& wave_col) const {
  for (const LaneAddress& address : addresses_) address.emit(w, base, wave_col);
}

void KVMmaOp::emit_arrived(Writer& w) const {
  // Named as operands: the compiler waits for them here, and not again.
  std::string operands;
  for (int i = 0; i < k_registers(); ++i)
    operands += fmt::format("{}\"+v\"({}_reg[{}])", i > 0 ? ", " : "", tensor(), i);
  w.line("__asm volatile(\"\" : {} :: \"memory\");  // the fragments are in registers", operands);
}

void KVMmaOp::emit_registers(Writer& w) const {
  if (shape_.transpose_b) {
    const int count = k_registers();
    w.line("u32x4 {}_reg[{}];  // {} fragments of {} elements", tensor(), count,
           count * shape_.mfma.k_group() / shape_.mfma.packs(), shape_.mfma.frag());
  } else {
    const int count = shape_.num_k_tiles * products();
    w.line("u32x{} v_reg[{}];  // fragments of {} elements", shape_.mfma.frag_regs(), count,
           shape_.mfma.frag());
  }
}

void KVMmaOp::emit_load(Writer& w, int bk_tile, int step, int stage_offset) const {
  if (shape_.transpose_b) return emit_load_k(w, bk_tile, step, stage_offset);
  if (shape_.block) return emit_load_v_block(w, bk_tile, step, stage_offset);
  return transposing() ? emit_load_v_transposing(w, bk_tile, step, stage_offset)
                       : emit_load_v_perm(w, bk_tile, step, stage_offset);
}

void KVMmaOp::emit_load_k(Writer& w, int bk_tile, int step, int stage_offset) const {
  const int packs = shape_.mfma.packs();
  if (!has_part(bk_tile, step, 0)) return;
  for (int i = 0; i < shape_.num_mmas; ++i) {
    for (int part = 0; part < packs; ++part) {
      const int reg = ((slot(bk_tile) * steps() + step) * shape_.num_mmas + i) * packs + part;
      if (!has_part(bk_tile, step, part)) {
        w.line("{}_reg[{}] = (u32x4)(0u);", tensor(), reg);
        continue;
      }
      const int col = column(bk_tile, step, part), lanes = shape_.mfma.lanes_within(columns() - col);
      const int row = i * shape_.mfma.shape.m;
      std::string read = fmt::format("lds_read_16(lds + {})", addresses_[0].at(row, col, stage_offset));
      if (parted()) {
        read = fmt::format("join(lds_read_8(lds + {}), lds_read_8(lds + {}))",
                           addresses_[0].at(row, col, stage_offset),
                           addresses_[0].at(row, col + stage_.unit(), stage_offset));
      }
      w.line("{}_reg[{}] = {}{}{};", tensor(), reg, lanes < 64 ? "zero_past(" : "", read,
             lanes < 64 ? fmt::format(", lane < {})", lanes) : "");
    }
  }
}

void KVMmaOp::emit_load_v_transposing(Writer& w, int bk_tile, int k, int stage_offset) const {
  const int key = bk_tile * shape_.BK + k * shape_.mfma.shape.k;
  const int reads = shape_.mfma.frag_regs() / 2;
  for (const ColumnGroup& group : groups_) {
    std::string parts;
    for (int i = 0; i < reads; ++i) {
      parts += fmt::format("{}lds_read_tr{}(lds + {})", i == 0 ? "" : ", ", bytes() ? 8 : 16,
                           address(group).at(key + i * key_stride(), group.first, stage_offset));
    }
    w.line("v_reg[{}] = {};", (slot(bk_tile) * shape_.num_k_mmas + k) * shape_.num_mmas + group.mma,
           reads == 1 ? parts : fmt::format("join({})", parts));
  }
}

void KVMmaOp::emit_load_v_perm(Writer& w, int bk_tile, int k, int stage_offset) const {
  const int key = bk_tile * shape_.BK + k * shape_.mfma.shape.k;
  for (const ColumnGroup& group : groups_) {
    const int row = (slot(bk_tile) * shape_.num_k_mmas + k) * shape_.num_mmas + group.mma;
    w.open("");
    if (bytes()) {
      emit_load_v_perm_bytes(w, group, row, key, stage_offset);
      w.close();
      continue;
    }
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

void KVMmaOp::emit_load_v_block(Writer& w, int bk_tile, int k, int stage_offset) const {
  const int key = bk_tile * shape_.BK + k * shape_.mfma.shape.k;
  for (const ColumnGroup& group : groups_) {
    std::string words;
    for (int e = 0; e < shape_.mfma.frag(); e += 2) {
      words += fmt::format("{}lds_read_pair(lds + {}, lds + {})", e == 0 ? "" : ", ",
                           addresses_[0].at(key + e, group.first, stage_offset),
                           addresses_[0].at(key + e + 1, group.first, stage_offset));
    }
    w.line("v_reg[{}] = u32x{}{{{}}};", (slot(bk_tile) * shape_.num_k_mmas + k) * shape_.num_mmas + group.mma,
           shape_.mfma.frag_regs(), words);
  }
}

/// Two runs of four keys, four columns to a register: each 4 x 4 block of bytes is turned.
void KVMmaOp::emit_load_v_perm_bytes(Writer& w, const ColumnGroup& group, int row, int key,
                                     int stage_offset) const {
  std::string keys;
  for (int run = 0; run < 2; ++run) {
    for (int r = 0; r < 4; ++r) {
      keys += fmt::format("{}key_{} = lds_read_{}(lds + {})", keys.empty() ? "" : ", ", 4 * run + r, 4,
                          address(group).at(key + run * key_stride() + r, group.first, stage_offset));
    }
  }
  w.line("const u32 {};", keys);
  for (int run = 0; run < 2; ++run)
    w.line("const u32x4 run_{} = turn_bytes(key_{}, key_{}, key_{}, key_{});", run, 4 * run, 4 * run + 1,
           4 * run + 2, 4 * run + 3);
  for (int f = 0; f < 4; ++f) w.line("v_reg[{0}] = u32x2{{run_0.{1}, run_1.{1}}};", row + f, "xyzw"[f]);
}

void KVMmaOp::emit_mma(Writer& w, const std::string& b, const std::string& c, int bk_tile, int step,
                       bool first, int first_operand, int first_output) const {
  const std::string zero = fmt::format("({})(0.0f)", shape_.mfma.accumulator());
  // A 16-byte vector of K and Q holds the operands of `halves` instructions.
  const int halves = shape_.transpose_b ? shape_.mfma.k_group() : 1;
  const int packs = shape_.transpose_b ? shape_.mfma.packs() : 1;
  const auto operand_of = [&](const std::string& registers, int index, const char* part) {
    if (packs == 1) return fmt::format("{}[{}]{}", registers, index, part);
    return fmt::format("join({0}[{1}], {0}[{2}])", registers, packs * index, packs * index + 1);
  };
  if (shape_.transpose_b && !has_part(bk_tile, step, 0)) return;
  const int a = (slot(bk_tile) * steps() + step) * shape_.num_mmas,
            operand = first_operand + bk_tile * steps() + step;
  for (int half = 0; half < halves; ++half) {
    const char* part = halves == 1 ? "" : half == 0 ? ".lo" : ".hi";
    const bool fresh = first && step == 0 && half == 0;
    for (int i = 0; i < shape_.num_mmas; ++i) {
      const int out = first_output + i;
      w.line("{}[{}] = {}({}, {}, {});", c, out, shape_.mfma.wrapper(),
             operand_of(tensor() + "_reg", a + i, part), operand_of(b, operand, part),
             fresh ? zero : fmt::format("{}[{}]", c, out));
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
    const LdsAccess how = access(i);
    const char* name = how == LdsAccess::read_b128 ? "ds_read_b128"
                       : how == LdsAccess::read_b64_tr
                           ? (bytes() ? "ds_read_b64_tr_b8" : "ds_read_b64_tr_b16")
                       : how == LdsAccess::read_u16 ? "ds_read_u16"
                       : how == LdsAccess::read_b32 ? "ds_read_b32"
                                                    : "ds_read_b64";
    const char* const what = shape_.transpose_b ? "K" : "V";
    out.push_back({fmt::format("{} fragments: {}", shape_.tensor.empty() ? what : shape_.tensor, name),
                   addresses_[i].proves(), addresses_[i].bank_conflicts(target, how)});
  }
  return out;
}

}  // namespace kiln::cdna
