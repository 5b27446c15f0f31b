// multimem: one operation on the memory of every device of a team. The emulated device is a team of one: an address of
// a multicast object stands for the one piece of memory that is bound there, so that a reduction over the team is what
// that memory holds. Ordinary addresses are not taken.
#include <cstring>

#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/memory.hpp"
#include "emulator/ptx/decode/reduction.hpp"
#include "emulator/ptx/decode/warp_access.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

struct Multimem {
  enum class Act : std::uint8_t { load, store, reduce } act = Act::load;
  bool strong = false;
  ReduceOp op = ReduceOp::add;
  TensorType type = TensorType::u32;
  std::uint32_t width = 4;  ///< bytes of a register
  std::vector<Ref> registers;
};

/// The memory that a lane's address stands for; `bound` is its own address. Null with a report when there is none.
Place place_of(Warp& w, const Op& op, int lane, std::uint32_t bytes, Access access, u64& bound) {
  const u64 address = lane_address(w, op, lane);
  bound = w.block->cluster->launch->memory->bound_at(address, bytes);
  if (bound != 0) return locate(w, op, Space::global, bound, bytes, lane, access);
  report(w, op, lane, "out-of-bounds",
         "address " + std::to_string(address) +
             " is in no multicast object, or no memory is bound there: multimem takes no other address");
  return {};
}

/// As ordinary loads, stores and atomics of that memory would be. `silent`: stores what is there.
void track(Warp& w, const Op& op, const Multimem& m, int lane, u64 bound, std::uint32_t bytes, bool silent) {
  const bool write = m.act != Multimem::Act::load, atomic = m.act == Multimem::Act::reduce;
  GlobalRaces& globals = *w.block->cluster->launch->globals;
  if (!m.strong && !atomic) return globals.access(w, op, lane, bound, bytes, write, 0, 0, silent);
  globals.strong_access(w, op, lane, bound, bytes, write);
  w.global_words.access(w, op, lane, bound, bytes, {write, true, false});
  if (write) publish_global(w, op, lane, bound, atomic);
}

/// What a lane stores or reduces with.
void take_operands(const Warp& w, const Multimem& m, int lane, std::uint8_t* buffer) {
  if (m.act == Multimem::Act::load) return;
  for (std::size_t i = 0; i < m.registers.size(); ++i) {
    const u64 value = w.value(m.registers[i], static_cast<std::uint8_t>(m.width), lane);
    std::memcpy(buffer + i * m.width, &value, m.width);
  }
}

void perform(Warp& w, const Multimem& m, int lane, const Place& place, const std::uint8_t* buffer) {
  const std::size_t bytes = m.registers.size() * m.width;
  switch (m.act) {
    case Multimem::Act::load:
      for (std::size_t i = 0; i < m.registers.size(); ++i) {
        u64 value = 0;
        std::memcpy(&value, place.data + i * m.width, m.width);
        w.set(m.registers[i], static_cast<std::uint8_t>(m.width), lane, value);
      }
      return;
    case Multimem::Act::store:
      std::memcpy(place.data, buffer, bytes);
      break;
    case Multimem::Act::reduce:
      reduce_elements(m.op, m.type, reinterpret_cast<std::byte*>(place.data),
                      reinterpret_cast<const std::byte*>(buffer), bytes);
      break;
  }
  std::memset(place.shadow, kWritten, bytes);
}

void run_multimem(Warp& w, const Op& op) {
  const auto& m = *static_cast<const Multimem*>(op.aux);
  Cluster& c = *w.block->cluster;
  ++c.progress;
  ++w.lanes.issue;
  const auto bytes = static_cast<std::uint32_t>(m.registers.size()) * m.width;
  each_lane(w, [&](int lane) {
    u64 bound = 0;
    const Place place =
        place_of(w, op, lane, bytes, m.act == Multimem::Act::store ? Access::write : Access::read, bound);
    if (place.data == nullptr) return abort_cluster(c);
    const std::lock_guard lock(c.launch->atomics);
    std::uint8_t buffer[32] = {};
    take_operands(w, m, lane, buffer);
    const bool silent = m.act == Multimem::Act::store && std::memcmp(place.data, buffer, bytes) == 0;
    if (c.races) track(w, op, m, lane, bound, bytes, silent);
    perform(w, m, lane, place, buffer);
    if (c.races && m.strong && m.act != Multimem::Act::store) observe_global(w, op, 1u << lane, bound);
  });
}

/// The type of an element; pairs are two of them, and of what is only moved the size matters alone.
TensorType element_type(const Decoder& d, bool reduces) {
  switch (d.last_type()) {
    case Type::f16x2:
      return TensorType::f16;
    case Type::bf16x2:
      return TensorType::bf16;
    default:
      return reduces ? reduced_type(d) : TensorType::u32;
  }
}

void decode_multimem(Decoder& d) {
  Multimem m;
  const int act = d.which({"ld_reduce", "st", "red"});
  if (act < 0) d.unsupported();
  m.act = static_cast<Multimem::Act>(act);
  const bool reduces = m.act == Multimem::Act::reduce, loads = m.act == Multimem::Act::load;
  m.strong = reduces || d.has("relaxed") || d.has("acquire") || d.has("release");
  m.type = element_type(d, reduces);
  if (m.act != Multimem::Act::store) {
    static constexpr ReduceOp kOps[] = {ReduceOp::add,  ReduceOp::min, ReduceOp::max,
                                        ReduceOp::and_, ReduceOp::or_, ReduceOp::xor_};
    const int which = d.which({"add", "min", "max", "and", "or", "xor"});
    if (which < 0) d.unsupported();
    m.op = kOps[which];
    if (reduces && !reduce_supported(m.op, m.type)) d.unsupported();
  }
  m.width = static_cast<std::uint32_t>(size_of(d.last_type()));
  const auto width = static_cast<int>(m.width);
  const Operand& value = d.operand(loads ? 0 : 1);
  const bool vector = value.kind == Operand::Kind::vector;
  for (const Operand& o : vector ? value.items : std::vector<Operand>{value})
    m.registers.push_back(loads ? d.dst(o, width) : d.src(o, width));
  if (m.registers.size() != (d.has("v8") ? 8u : d.has("v4") ? 4u : d.has("v2") ? 2u : 1u))
    d.fail("vector of the wrong length in");
  const auto a = d.address(d.operand(loads ? 1 : 0), Space::global);
  Op& op = d.emit(run_multimem, reduces ? Kind::atomic : loads ? Kind::load_global : Kind::store_global);
  op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset;
  op.c = static_cast<Ref>(Space::global);
  op.flags = order_flags(d);
  op.aux = d.own(m);
}

}  // namespace

std::vector<DecodeEntry> multimem_table() {
  return {{"multimem", decode_multimem}};
}

}  // namespace kiln::emulator::ptx
