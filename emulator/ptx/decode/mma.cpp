// mma.sync, dense and sparse.
#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/matrix.hpp"
#include "emulator/tensor/mma_elements.hpp"
#include "emulator/tensor/mma_quads.hpp"
#include "emulator/tensor/sparse.hpp"

namespace kiln::emulator::ptx {

using u64 = std::uint64_t;

std::vector<Ref> rows(Decoder& d, const Operand& o, int size, bool out) {
  std::vector<Ref> refs;
  if (o.kind == Operand::Kind::vector)
    for (const Operand& item : o.items)
      refs.push_back(out ? d.dst(item, item.kind == Operand::Kind::sink ? 0 : size) : d.src(item, size));
  else
    refs.push_back(out ? d.dst(o, size) : d.src(o, size));
  return refs;
}

std::optional<MatrixType> matrix_type(std::string_view m) {
  static constexpr std::pair<std::string_view, MatrixType> kTypes[] = {
      {"f16", MatrixType::f16},   {"bf16", MatrixType::bf16}, {"tf32", MatrixType::tf32},
      {"e4m3", MatrixType::e4m3}, {"e5m2", MatrixType::e5m2}, {"s8", MatrixType::s8},
      {"u8", MatrixType::u8},     {"s4", MatrixType::s4},     {"u4", MatrixType::u4},
      {"b1", MatrixType::b1},     {"f32", MatrixType::f32},   {"s32", MatrixType::s32},
      {"f64", MatrixType::f64}};
  for (const auto& [n, t] : kTypes)
    if (n == m) return t;
  return std::nullopt;
}
std::vector<MatrixType> matrix_types(const Decoder& d) {
  std::vector<MatrixType> out;
  for (const auto m : d.in->modifiers)
    if (const auto t = matrix_type(m)) out.push_back(*t);
  return out;
}
/// "m16n8k16" -> its three numbers.
bool shape_of(const Decoder& d, int& m, int& n, int& k) {
  for (const auto s : d.in->modifiers) {
    int v[3] = {0, 0, 0}, i = -1;
    bool ok = s.size() >= 6 && s[0] == 'm' && s[1] >= '0' && s[1] <= '9';
    for (std::size_t at = 0; ok && at < s.size(); ++at) {
      if (s[at] == "mnk"[i + 1 < 3 ? i + 1 : 2] && i < 2)
        ++i;
      else if (s[at] >= '0' && s[at] <= '9' && i >= 0 && v[i] < 1000)
        v[i] = v[i] * 10 + (s[at] - '0');
      else
        ok = false;
    }
    if (ok && i == 2) {
      m = v[0], n = v[1], k = v[2];
      return true;
    }
  }
  return false;
}

void report_metadata(Warp& w, const Op& op, MatrixType a, bool ordered, const SparseColumns& columns) {
  if (!columns.bad || !w.block->cluster->findings) return;
  report(w, op, columns.bad->lane, "bad-metadata",
         "metadata 0x" + std::string(1, "0123456789abcdef"[columns.bad->bits]) + " of a chunk of A: " +
             (a == MatrixType::tf32 ? "tf32 takes 0x4 and 0xe"
              : ordered             ? "the two indices have to increase"
                                    : "the two indices have to differ"));
}

namespace {

struct MmaCall {
  MmaOp op;
  MmaRegisters n;
  bool sparse = false, ordered = false;  ///< ordered: sp::ordered_metadata
};
/// Elements of D that depend on an unknown element of A (of its row), B (of its column) or C are unknown.
void mark_products(Warp& w, const Op& op, const MmaCall& m) {
  const Ref* const lists = w.block->cluster->program->lists.data() + op.target;
  const int wide = m.op.a == MatrixType::f64 ? 2 : 1;  // f64 rows count as two registers
  bool rows[64] = {}, columns[64] = {};
  bool elements[64][64] = {};
  const Ref* at = lists + m.n.d / wide;
  const auto visit = [&](int registers, MatrixType type, auto place, auto note) {
    const int per = elements_per_register(type);
    for (int r = 0; r < registers / wide; ++r)
      for (std::uint32_t lanes = unknown_input(w, *at++); lanes != 0; lanes &= lanes - 1)
        for (int e = 0; e < per; ++e) note(place(m.op, std::countr_zero(lanes), r * per + e));
  };
  visit(m.n.a, m.op.a, mma_place_a, [&](FragmentPlace p) { rows[p.row] = true; });
  visit(m.n.b, m.op.b, mma_place_b, [&](FragmentPlace p) { columns[p.column] = true; });
  visit(m.n.c, m.op.c, mma_place_d, [&](FragmentPlace p) { elements[p.row][p.column] = true; });
  if (m.sparse)
    for (std::uint32_t lanes =
             unknown_input(w, op.e) & metadata_lanes(m.op.a, m.op.k, static_cast<int>(op.imm));
         lanes != 0; lanes &= lanes - 1)
      rows[std::countr_zero(lanes) / 4] = rows[std::countr_zero(lanes) / 4 + 8] = true;
  const std::uint32_t origin = unknown_origin(w);
  const int per = elements_per_register(m.op.d);
  for (int r = 0; r < m.n.d / wide; ++r) {
    std::uint32_t unknown = 0;
    for (int l = 0; l < 32; ++l)
      for (int e = 0; e < per; ++e) {
        const FragmentPlace p = mma_place_d(m.op, l, r * per + e);
        if (rows[p.row] || columns[p.column] || elements[p.row][p.column]) unknown |= 1u << l;
      }
    if (unknown != 0) mark_unknown(w, origin, lists[r], unknown);
  }
  w.unknown_inputs.clear();
}

void run_mma(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  const auto& m = *static_cast<const MmaCall*>(op.aux);
  Cluster& c = *w.block->cluster;
  const Program& p = *c.program;
  std::uint32_t* d[32];
  const std::uint32_t* in[64];
  std::uint32_t at = op.target;
  // f64 rows of 8-byte lanes become pairs of 4-byte rows.
  std::uint32_t split[64][32];
  int splits = 0;
  std::uint64_t* wide_out[8];
  int wide = 0;
  const bool f64 = m.op.a == MatrixType::f64;
  for (int i = 0; i < m.n.d; ++i) {
    if (f64) {
      if (i % 2 == 0) wide_out[wide++] = w.out<std::uint64_t>(p.lists[at++]);
      d[i] = split[splits++];
    } else {
      d[i] = w.out<std::uint32_t>(p.lists[at++]);
    }
  }
  const int inputs = m.n.a + m.n.b + m.n.c;
  for (int i = 0; i < inputs; ++i) {
    if (f64) {
      const std::uint64_t* row = w.in<std::uint64_t>(p.lists[at]);
      for (int l = 0; l < 32; ++l) split[splits][l] = static_cast<std::uint32_t>(row[l] >> (32 * (i & 1)));
      in[i] = split[splits++];
      at += i & 1;
    } else {
      in[i] = w.in<std::uint32_t>(p.lists[at++]);
    }
  }
  mma_sync(m.op, d, in, in + m.n.a, in + m.n.a + m.n.b);
  for (int i = 0; i < wide; ++i)
    for (int l = 0; l < 32; ++l) wide_out[i][l] = u64{d[2 * i + 1][l]} << 32 | d[2 * i][l];
  c.counters.matrix_flops +=
      u64{2} * static_cast<unsigned>(m.op.m) * static_cast<unsigned>(m.op.n) * static_cast<unsigned>(m.op.k);
  if (!w.unknown_inputs.empty()) [[unlikely]]
    mark_products(w, op, m);
}
void run_mma_sparse(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  const auto& m = *static_cast<const MmaCall*>(op.aux);
  const Ref* const lists = w.block->cluster->program->lists.data() + op.target;
  const SparseColumns columns =
      sparse_columns(m.op.a, m.op.k, static_cast<int>(op.imm), m.ordered, w.in<std::uint32_t>(op.e));
  report_metadata(w, op, m.op.a, m.ordered, columns);
  std::uint32_t* d[4];
  const std::uint32_t* in[16];
  const int inputs = m.n.a + m.n.b + m.n.c;
  for (int i = 0; i < m.n.d; ++i) d[i] = w.out<std::uint32_t>(lists[i]);
  for (int i = 0; i < inputs; ++i) in[i] = w.in<std::uint32_t>(lists[m.n.d + i]);
  mma_sparse(m.op, columns, d, in, in + m.n.a, in + m.n.a + m.n.b);
  w.block->cluster->counters.matrix_flops +=
      u64{static_cast<unsigned>(m.op.m)} * static_cast<unsigned>(m.op.n) * static_cast<unsigned>(m.op.k);
  if (!w.unknown_inputs.empty()) [[unlikely]]
    mark_products(w, op, m);
}

/// Operands d, a, b, c, and of sparse forms metadata and selector.
void emit_mma(Decoder& d, const MmaCall& call) {
  const int f64 = call.op.a == MatrixType::f64 ? 2 : 1;
  std::vector<Ref> refs;
  const int counts[4] = {call.n.d, call.n.a, call.n.b, call.n.c};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto part = rows(d, d.operand(i), 4 * f64, i == 0);
    if (static_cast<int>(part.size()) * f64 != counts[i]) d.fail("wrong number of registers in");
    refs.insert(refs.end(), part.begin(), part.end());
  }
  const std::uint32_t at = d.list(refs);
  Ref metadata = kNoRef;
  std::int64_t selector = 0;
  if (call.sparse) {
    metadata = d.src(d.operand(4), 4);
    selector = d.operand(5).value;
    if (metadata_lanes(call.op.a, call.op.k, static_cast<int>(selector)) == 0)
      d.fail("no such sparsity selector in");
  }
  Op& op = d.emit(call.sparse ? run_mma_sparse : run_mma, Kind::mma);
  op.use = Use::handled;
  op.target = at, op.e = metadata, op.imm = selector;
  op.aux = d.own(call);
}

// --- m8n8k4 of f16 ---
void mark_quads(Warp& w, const Op& op, const MmaQuadsOp& m) {
  const Ref* const lists = w.block->cluster->program->lists.data() + op.target;
  bool rows[32] = {}, columns[32] = {}, elements[32][32] = {};
  const Ref* at = lists + quad_sums(m.d_half);
  const auto visit = [&](int registers, int per, auto note) {
    for (int r = 0; r < registers; ++r)
      for (std::uint32_t lanes = unknown_input(w, *at++); lanes != 0; lanes &= lanes - 1)
        for (int e = 0; e < per; ++e) note(std::countr_zero(lanes), r * per + e);
  };
  visit(kQuadInputs, 2, [&](int lane, int i) { rows[quad_place_a(m, lane, i).row] = true; });
  visit(kQuadInputs, 2, [&](int lane, int i) { columns[quad_place_b(m, lane, i).column] = true; });
  visit(quad_sums(m.c_half), m.c_half ? 2 : 1, [&](int lane, int i) {
    const FragmentPlace p = quad_place_sum(m.c_half, lane, i);
    elements[p.row][p.column] = true;
  });
  const std::uint32_t origin = unknown_origin(w);
  for (int i = 0; i < 8; ++i)
    for (int lane = 0; lane < 32; ++lane) {
      const FragmentPlace p = quad_place_sum(m.d_half, lane, i);
      if (rows[p.row] || columns[p.column] || elements[p.row][p.column])
        mark_unknown(w, origin, lists[m.d_half ? i / 2 : i], 1u << lane);
    }
  w.unknown_inputs.clear();
}

void run_quads(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  const auto& m = *static_cast<const MmaQuadsOp*>(op.aux);
  const Ref* at = w.block->cluster->program->lists.data() + op.target;
  std::uint32_t* d[8];
  const std::uint32_t* in[2 * kQuadInputs + 8];
  for (int i = 0; i < quad_sums(m.d_half); ++i) d[i] = w.out<std::uint32_t>(*at++);
  for (int i = 0; i < 2 * kQuadInputs + quad_sums(m.c_half); ++i) in[i] = w.in<std::uint32_t>(*at++);
  mma_quads(m, d, in, in + kQuadInputs, in + 2 * kQuadInputs);
  w.block->cluster->counters.matrix_flops += u64{2} * 4 * 8 * 8 * 4;
  if (!w.unknown_inputs.empty()) mark_quads(w, op, m);
}

/// The layouts of A and B are the first and second of .row and .col.
void decode_quads(Decoder& d, MatrixType sum, MatrixType start) {
  MmaQuadsOp m;
  std::vector<bool> column_major;
  for (const auto modifier : d.in->modifiers)
    if (modifier == "row" || modifier == "col") column_major.push_back(modifier == "col");
  if (column_major.size() != 2) d.unsupported();
  m.a_column_major = column_major[0], m.b_row_major = !column_major[1];
  m.d_half = sum == MatrixType::f16, m.c_half = start == MatrixType::f16;
  std::vector<Ref> refs;
  const int counts[4] = {quad_sums(m.d_half), kQuadInputs, kQuadInputs, quad_sums(m.c_half)};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto part = rows(d, d.operand(i), 4, i == 0);
    if (static_cast<int>(part.size()) != counts[i]) d.fail("wrong number of registers in");
    refs.insert(refs.end(), part.begin(), part.end());
  }
  const std::uint32_t at = d.list(refs);
  Op& op = d.emit(run_quads, Kind::mma);
  op.use = Use::handled, op.target = at, op.aux = d.own(m);
}

}  // namespace

void decode_mma(Decoder& d) {
  MmaCall call;
  const auto t = matrix_types(d);
  if (d.has("block_scale") || t.size() != 4) d.unsupported();
  if (d.has("m8n8k4") && t[1] == MatrixType::f16) return decode_quads(d, t[0], t[3]);
  call.op.d = t[0], call.op.a = t[1], call.op.b = t[2], call.op.c = t[3];
  call.op.satfinite = d.has("satfinite");
  call.op.b1_and = d.has("and");
  call.sparse = d.has("sp") || d.has("sp::ordered_metadata");
  call.ordered = d.has("sp::ordered_metadata");
  if (!shape_of(d, call.op.m, call.op.n, call.op.k) || !d.has("row") || !d.has("col")) d.unsupported();
  const auto n = call.sparse ? mma_sparse_registers(call.op) : mma_registers(call.op);
  if (!n) d.unsupported();
  call.n = *n;
  emit_mma(d, call);
}

void decode_subbyte_wmma(Decoder& d) {
  MmaCall call;
  const auto t = matrix_types(d);
  if (t.size() != 4 || !shape_of(d, call.op.m, call.op.n, call.op.k)) d.unsupported();
  call.op.d = t[0], call.op.a = t[1], call.op.b = t[2], call.op.c = t[3];
  call.op.satfinite = d.has("satfinite");
  call.op.b1_and = d.has("and");
  const auto n = mma_registers(call.op);
  if (!n) d.unsupported();
  call.n = *n;
  emit_mma(d, call);
}

}  // namespace kiln::emulator::ptx
