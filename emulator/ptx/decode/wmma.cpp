// wmma.load, wmma.mma, wmma.store (nvcuda::wmma). Which lane holds which element of a fragment is not
// specified; here slot s (lanes first to last, in each its registers, in each its elements) holds element s
// modulo the matrix's size, row by row, so that fragments with more slots than elements hold copies.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/matrix.hpp"
#include "emulator/tensor/mma_elements.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

/// One operand of a form.
struct Fragment {
  MatrixType type = MatrixType::f16;
  int rows = 0, columns = 0, registers = 0;
  int bits() const { return type == MatrixType::tf32 ? 32 : bit_width(type); }
  int per_register() const { return bits() >= 32 ? 1 : 32 / bits(); }
  int register_bytes() const { return type == MatrixType::f64 ? 8 : 4; }
  int slots() const { return 32 * registers * per_register(); }
  int size() const { return rows * columns; }
};

struct Shape {
  int m = 0, n = 0, k = 0;
};
Shape wmma_shape(const Decoder& d) {
  static constexpr std::pair<std::string_view, Shape> kShapes[] = {
      {"m16n16k16", {16, 16, 16}}, {"m8n32k16", {8, 32, 16}}, {"m32n8k16", {32, 8, 16}},
      {"m16n16k8", {16, 16, 8}},   {"m8n8k4", {8, 8, 4}},     {"m8n8k32", {8, 8, 32}},
      {"m8n8k128", {8, 8, 128}}};
  for (const auto& [name, shape] : kShapes)
    if (d.has(name)) return shape;
  d.unsupported();
}
MatrixType type_of(const Decoder& d, std::string_view name) {
  static constexpr std::pair<std::string_view, MatrixType> kTypes[] = {
      {"f16", MatrixType::f16}, {"bf16", MatrixType::bf16}, {"tf32", MatrixType::tf32},
      {"s8", MatrixType::s8},   {"u8", MatrixType::u8},     {"f32", MatrixType::f32},
      {"s32", MatrixType::s32}, {"f64", MatrixType::f64},   {"s4", MatrixType::s4},
      {"u4", MatrixType::u4},   {"b1", MatrixType::b1}};
  for (const auto& [n, t] : kTypes)
    if (n == name) return t;
  d.unsupported();
}
std::vector<MatrixType> types_of(const Decoder& d) {
  std::vector<MatrixType> out;
  for (const auto m : d.in->modifiers)
    for (const std::string_view known :
         {"f16", "bf16", "tf32", "s8", "u8", "f32", "s32", "f64", "s4", "u4", "b1"})
      if (m == known) out.push_back(type_of(d, m));
  return out;
}

/// `role`: 'a', 'b' or 'c' (accumulators).
Fragment fragment(const Decoder& d, char role, MatrixType type, const Shape& s, std::size_t registers) {
  Fragment f;
  f.type = type;
  f.rows = role == 'b' ? s.k : s.m;
  f.columns = role == 'a' ? s.k : s.n;
  f.registers = static_cast<int>(registers);
  if (f.slots() < f.size() || f.slots() % f.size() != 0) d.fail("wrong number of registers in");
  return f;
}

std::uint32_t rows_of(Decoder& d, const Operand& o, int bytes, bool out, std::size_t& count) {
  std::vector<Ref> refs;
  if (o.kind == Operand::Kind::vector)
    for (const Operand& item : o.items) refs.push_back(out ? d.dst(item, bytes) : d.src(item, bytes));
  else
    refs.push_back(out ? d.dst(o, bytes) : d.src(o, bytes));
  count = refs.size();
  return d.list(refs);
}

// --- load and store ---
struct Access2d {
  Fragment f;
  bool load = true, column_major = false;
  int per_word = 1;  ///< elements that the stride counts in one element of the fragment
};

/// Tells the trackers of an element, which the lane that has it here accesses, or any other one.
void track_element(Warp& w, const Op& op, int lane, const Place& place, u64 address, std::uint32_t bytes,
                   bool write, bool silent) {
  Cluster& c = *w.block->cluster;
  const std::uint32_t lanes = (1u << lane | 1u << partner_of(lane)) & w.exec;
  if (place.block == w.block) {
    std::uint32_t at[32];
    at[lane] = at[partner_of(lane)] = place.offset;
    c.races->access_lanes({w, op, *w.block, at, bytes, lanes, silent ? lanes : 0, write});
  } else if (place.block != nullptr) {
    c.races->access({w, op, lane, *place.block, place.offset, bytes, write, 0, 0, silent});
  } else if (place.space == Space::global) {
    u64 at[32];
    at[lane] = at[partner_of(lane)] = address;
    const auto index = static_cast<std::uint32_t>(&op - c.program->ops.data());
    c.launch->globals->access_lanes(w, op, {at, bytes, lanes, silent ? lanes : 0, index, write});
  }
}

void run_access(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  const auto& a = *static_cast<const Access2d*>(op.aux);
  const Program& p = *w.block->cluster->program;
  Cluster& c = *w.block->cluster;
  ++w.lanes.issue;
  const int per = a.f.per_register();
  const auto bytes = static_cast<std::uint32_t>(a.f.bits() / 8);
  for (int slot = 0; slot < a.f.slots(); ++slot) {
    if (!a.load && slot >= a.f.size()) break;
    const int lane = slot / (a.f.registers * per), r = slot / per % a.f.registers, i = slot % per;
    if ((w.exec >> lane & 1) == 0) continue;
    const int e = slot % a.f.size(), row = e / a.f.columns, column = e % a.f.columns;
    const u64 stride = op.b == kNoRef ? static_cast<u64>(a.column_major ? a.f.rows : a.f.columns)
                                      : w.value(op.b, 4, lane) / static_cast<u64>(a.per_word);
    const u64 at = a.column_major ? static_cast<u64>(column) * stride + static_cast<u64>(row)
                                  : static_cast<u64>(row) * stride + static_cast<u64>(column);
    const u64 address = w.value(op.a, op.asize, lane) + static_cast<u64>(op.imm) + at * bytes;
    const Place place =
        locate(w, op, static_cast<Space>(op.c), address, bytes, lane, a.load ? Access::read : Access::write);
    if (place.data == nullptr) continue;
    const Ref reg = p.lists[op.target + static_cast<std::size_t>(r)];
    const u64 held = w.value(reg, op.dsize, lane), fresh = held >> (i * a.f.bits());
    const bool silent = !a.load && std::memcmp(place.data, &fresh, bytes) == 0;
    if (c.races) track_element(w, op, lane, place, address, bytes, !a.load, silent);
    if (a.load) {
      u64 v = 0;
      std::memcpy(&v, place.data, bytes);
      w.set(reg, op.dsize, lane, (i == 0 ? 0 : held) | v << (i * a.f.bits()));
      if (place.unwritten) mark_unknown(w, origin_of(w, op), reg, 1u << lane);
    } else {
      std::memcpy(place.data, &fresh, bytes);
      if (c.findings && unknown_lanes(w, reg, 1u << lane) != 0) {
        if (place.space == Space::global)
          report_unknown(w, op, reg, 1u << lane);
        else
          std::memset(place.shadow, kAllocated, bytes);
      }
    }
  }
  ++c.progress;
}

void decode_access(Decoder& d, bool load) {
  const Shape shape = wmma_shape(d);
  const auto types = types_of(d);
  if (types.size() != 1) d.unsupported();
  const char role = d.has("a") ? 'a' : d.has("b") ? 'b' : 'c';
  if (load == d.has("d") || (!load && role != 'c')) d.unsupported();
  Access2d access;
  access.load = load;
  access.column_major = d.has("col");
  if (!access.column_major && !d.has("row")) d.unsupported();
  const int bytes = types[0] == MatrixType::f64 ? 8 : 4;
  std::size_t count = 0;
  const std::uint32_t list = rows_of(d, d.operand(load ? 0 : 1), bytes, load, count);
  if (bit_width(types[0]) < 8) {
    // Rows of A, columns of B: words of 32 bits, one a lane.
    if (role == 'c' || access.column_major != (role == 'b') || count != 1) d.unsupported();
    access.per_word = 32 / bit_width(types[0]);
    access.column_major = false;
    access.f = {MatrixType::s32, 8, shape.k / access.per_word, 1};
  } else {
    access.f = fragment(d, role, types[0], shape, count);
  }
  std::string_view name;
  const Space space = d.space_of(name);
  const auto address = d.address(d.operand(load ? 1 : 0), space);
  const Ref stride = d.operands() > 2 ? d.src(d.operand(2), 4) : kNoRef;
  Op& op = d.emit(run_access, Kind::matrix_load);
  op.use = load ? Use::load : Use::store;
  op.a = address.ref, op.asize = static_cast<std::uint8_t>(address.size), op.imm = address.offset;
  op.flags |= kUnspecifiedLanes;
  op.b = stride, op.c = static_cast<Ref>(space), op.target = list,
  op.dsize = static_cast<std::uint8_t>(bytes);
  op.aux = d.own(access);
}

// --- mma ---
struct Multiply {
  Shape shape;
  Fragment a, b, c, d;
  std::uint32_t lists[4] = {};  ///< d, a, b, c
  bool satfinite = false;
};

/// Element e of a fragment as a 32-bit word or the bits of a double.
u64 element(const Warp& w, const Fragment& f, std::uint32_t list, int e) {
  const Program& p = *w.block->cluster->program;
  const int per = f.per_register(), lane = e / (f.registers * per), r = e / per % f.registers, i = e % per;
  const u64 word = w.value(p.lists[list + static_cast<std::size_t>(r)],
                           static_cast<std::uint8_t>(f.register_bytes()), lane);
  return f.bits() >= 32 ? word : word >> (i * f.bits()) & ((u64{1} << f.bits()) - 1);
}
float number(MatrixType type, u64 bits) {
  return element_as_float(type, static_cast<std::uint32_t>(bits), 0);
}

u64 sum_of(const Warp& w, const Multiply& m, int row, int column) {
  const u64 start = element(w, m.c, m.lists[3], row * m.shape.n + column);
  if (m.d.type == MatrixType::f64) {
    double sum = std::bit_cast<double>(start);
    for (int k = 0; k < m.shape.k; ++k)
      sum = std::fma(std::bit_cast<double>(element(w, m.a, m.lists[1], row * m.shape.k + k)),
                     std::bit_cast<double>(element(w, m.b, m.lists[2], k * m.shape.n + column)), sum);
    return std::bit_cast<u64>(sum);
  }
  if (m.d.type == MatrixType::s32) {
    std::int64_t sum = 0;
    for (int k = 0; k < m.shape.k; ++k)
      sum += static_cast<std::int64_t>(number(m.a.type, element(w, m.a, m.lists[1], row * m.shape.k + k))) *
             static_cast<std::int64_t>(number(m.b.type, element(w, m.b, m.lists[2], k * m.shape.n + column)));
    return accumulate_s32(static_cast<std::uint32_t>(start), sum, m.satfinite);
  }
  float sum = number(m.c.type, start);
  for (int k = 0; k < m.shape.k; ++k)
    sum = std::fma(number(m.a.type, element(w, m.a, m.lists[1], row * m.shape.k + k)),
                   number(m.b.type, element(w, m.b, m.lists[2], k * m.shape.n + column)), sum);
  return m.d.type == MatrixType::f16 ? f32_to_f16(sum) : std::bit_cast<std::uint32_t>(sum);
}

/// As for mma: elements of D in an unknown row of A, column of B or at an unknown element of C.
void mark_products(Warp& w, const Multiply& m) {
  const Program& p = *w.block->cluster->program;
  std::vector<std::uint8_t> unknown(static_cast<std::size_t>(m.d.size()));
  const auto visit = [&](const Fragment& f, std::uint32_t list, auto note) {
    const int per = f.per_register();
    for (int r = 0; r < f.registers; ++r)
      for (std::uint32_t lanes = unknown_input(w, p.lists[list + static_cast<std::size_t>(r)]); lanes != 0;
           lanes &= lanes - 1)
        for (int i = 0; i < per; ++i) {
          const int e = ((std::countr_zero(lanes) * f.registers + r) * per + i) % f.size();
          note(e / f.columns, e % f.columns);
        }
  };
  const auto set = [&](int row, int column) {
    unknown[static_cast<std::size_t>(row * m.shape.n + column)] = 1;
  };
  visit(m.a, m.lists[1], [&](int row, int) {
    for (int n = 0; n < m.shape.n; ++n) set(row, n);
  });
  visit(m.b, m.lists[2], [&](int, int column) {
    for (int row = 0; row < m.shape.m; ++row) set(row, column);
  });
  visit(m.c, m.lists[3], set);
  const std::uint32_t origin = unknown_origin(w);
  const int per = m.d.per_register();
  for (int slot = 0; slot < m.d.slots(); ++slot)
    if (unknown[static_cast<std::size_t>(slot % m.d.size())] != 0)
      mark_unknown(w, origin, p.lists[m.lists[0] + static_cast<std::size_t>(slot / per % m.d.registers)],
                   1u << slot / (m.d.registers * per));
  w.unknown_inputs.clear();
}

void run_multiply(Warp& w, const Op& op) {
  if (!converge(w, op, 0xffffffffu)) return;
  const auto& m = *static_cast<const Multiply*>(op.aux);
  const Program& p = *w.block->cluster->program;
  std::vector<u64> result(static_cast<std::size_t>(m.d.size()));
  for (int e = 0; e < m.d.size(); ++e)
    result[static_cast<std::size_t>(e)] = sum_of(w, m, e / m.shape.n, e % m.shape.n);
  const int per = m.d.per_register();
  for (int slot = 0; slot < m.d.slots(); slot += per) {
    const int lane = slot / (m.d.registers * per), r = slot / per % m.d.registers;
    u64 word = 0;
    for (int i = 0; i < per; ++i)
      word |= result[static_cast<std::size_t>((slot + i) % m.d.size())] << (i * m.d.bits() % 64);
    w.set(p.lists[m.lists[0] + static_cast<std::size_t>(r)], static_cast<std::uint8_t>(m.d.register_bytes()),
          lane, word);
  }
  w.block->cluster->counters.matrix_flops += u64{2} * static_cast<unsigned>(m.shape.m) *
                                             static_cast<unsigned>(m.shape.n) *
                                             static_cast<unsigned>(m.shape.k);
  if (!w.unknown_inputs.empty()) mark_products(w, m);
}

void decode_multiply(Decoder& d) {
  Multiply m;
  m.shape = wmma_shape(d);
  m.satfinite = d.has("satfinite");
  const auto t = types_of(d);
  // f16 inputs name D and C only; all others name D, A, B, C.
  if (t.size() != 2 && t.size() != 4) d.unsupported();
  const MatrixType types[4] = {t[0], t.size() == 4 ? t[1] : MatrixType::f16,
                               t.size() == 4 ? t[2] : MatrixType::f16, t.back()};
  std::size_t counts[4] = {};
  for (std::size_t i = 0; i < 4; ++i)
    m.lists[i] = rows_of(d, d.operand(i), types[i] == MatrixType::f64 ? 8 : 4, i == 0, counts[i]);
  m.d = fragment(d, 'c', types[0], m.shape, counts[0]);
  m.a = fragment(d, 'a', types[1], m.shape, counts[1]);
  m.b = fragment(d, 'b', types[2], m.shape, counts[2]);
  m.c = fragment(d, 'c', types[3], m.shape, counts[3]);
  Op& op = d.emit(run_multiply, Kind::mma);
  op.use = Use::handled;
  op.aux = d.own(m);
}

void decode_wmma(Decoder& d) {
  if (d.has("load")) return decode_access(d, true);
  if (d.has("store")) return decode_access(d, false);
  if (!d.has("mma")) d.unsupported();
  if (d.has("m8n8k32") || d.has("m8n8k128")) return decode_subbyte_wmma(d);
  decode_multiply(d);
}

}  // namespace

std::vector<DecodeEntry> wmma_table() {
  return {{"wmma", decode_wmma}};
}

}  // namespace kiln::emulator::ptx
