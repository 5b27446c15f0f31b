// Where a function's registers, parameters and locals are, and what passes between it and its callers.
#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include <kiln/emulator/emulator.hpp>
#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {

namespace {

std::size_t row_bytes(Type t) {
  return round_up(std::size_t{32} * static_cast<std::size_t>(size_of(t)), 64);
}

/// Gives rows to registers in the order in which they come to life. Compilers write each value to a register of its own:
/// with a row for each, a warp would not fit into a cache.
class RowPool {
 public:
  explicit RowPool(std::size_t& at) : at_(at) {}
  Ref take(const RegisterLives::Life& life, std::size_t bytes) {
    while (!used_.empty() && used_.begin()->first < life.first) {
      free_[used_.begin()->second.bytes].push_back(used_.begin()->second.row);
      used_.erase(used_.begin());
    }
    std::vector<Ref>& free = free_[bytes];
    if (free.empty()) {
      free.push_back(static_cast<Ref>(at_));
      at_ += bytes;
    }
    const Ref row = free.back();
    free.pop_back();
    used_.insert({life.last, {row, bytes}});
    return row;
  }

 private:
  struct Used {
    Ref row;
    std::size_t bytes;
  };
  std::size_t& at_;
  std::multimap<std::uint32_t, Used> used_;  ///< by the last statement
  std::map<std::size_t, std::vector<Ref>> free_;
};

}  // namespace

/// Rows of a kernel's registers that are surely assigned: those that are never needed together may share one. Of the
/// others it is noted lane by lane what was written.
void Decoder::share_rows(const RegisterLives& r, std::size_t& at) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < r.lives.size(); ++i)
    if (r.assigned[i] && fn->registers[i] != Type::pred && r.lives[i].first <= r.lives[i].last)
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(r.lives[a].first, a) < std::pair(r.lives[b].first, b);
  });
  RowPool pool(at);
  for (const std::uint32_t i : order) register_rows_[i] = pool.take(r.lives[i], row_bytes(fn->registers[i]));
}

/// Rows: 64-byte aligned, predicates packed behind them.
void Decoder::layout_registers(FunctionInfo& info) {
  register_rows_.assign(fn->registers.size(), 0);
  std::size_t at = 512;  // row 0: scratch for sinks
  scratch_ = 0;
  const RegisterLives lives =
      fn->entry ? register_lives(*fn) : RegisterLives{std::vector<bool>(fn->registers.size(), false), {}};
  for (std::size_t i = 0; i < fn->registers.size(); ++i) {
    if (fn->registers[i] == Type::pred || lives.assigned[i]) continue;
    register_rows_[i] = static_cast<Ref>(at);
    at += row_bytes(fn->registers[i]);
  }
  share_rows(lives, at);
  find_frame_addresses();
  for (auto& [symbol, refs] : frame_addresses_)
    for (Ref& row : refs) {
      row = static_cast<Ref>(at);
      at += kHalfRow;
    }
  const std::size_t predicates = at;
  for (std::size_t i = 0; i < fn->registers.size(); ++i) {
    if (fn->registers[i] != Type::pred) continue;
    register_rows_[i] = static_cast<Ref>(at);
    at += 4;
  }
  if (at > (std::size_t{1} << 28))
    throw Error("function '" + fn->name + "' has too many registers", fn->line);
  info.predicates = static_cast<std::uint32_t>(predicates);
  info.register_bytes = static_cast<std::uint32_t>(round_up(at, 64));
  info.state_count = static_cast<std::uint32_t>(predicates / 64 + (at - predicates) / 4);
  name_states(lives.assigned, info);
}

/// The state of each register; those of registers that are surely assigned need no look.
void Decoder::name_states(const std::vector<bool>& assigned, FunctionInfo& info) {
  if (fn->entry) program.assigned_states.assign(info.state_count, false);
  for (std::size_t i = 0; i < fn->registers.size(); ++i) {
    const Ref row = register_rows_[i];
    const std::uint32_t state =
        row < info.predicates ? row / 64 : info.predicates / 64 + (row - info.predicates) / 4;
    info.states.push_back(state);
    if (!assigned[i] || row == scratch_) continue;
    program.assigned_states[state] = true;
    if (fn->registers[i] == Type::b128) program.assigned_states[state + kHalfRow / 64] = true;
  }
}

/// Which addresses of locals and parameters the function takes, other than to load or store there.
void Decoder::find_frame_addresses() {
  frame_addresses_.clear();
  if (fn->entry) return;  // its frame is the first: addresses are constants
  const auto visit = [&](const auto& self, const Operand& o) -> void {
    if (o.kind == Operand::Kind::symbol) {
      const Variable& v = module.variables[o.id];
      if (v.space == Space::local || v.space == Space::param) frame_addresses_[{o.id, o.value}] = {};
    }
    for (const Operand& item : o.items) self(self, item);
  };
  for (const Instruction& i : fn->body) {
    const bool direct = i.opcode == "ld" || i.opcode == "st";
    for (const Operand& o : i.operands)
      if (o.kind != Operand::Kind::list && !(direct && o.kind == Operand::Kind::address)) visit(visit, o);
  }
}

Ref Decoder::frame_address(std::uint32_t variable, std::int64_t offset, int size) {
  const std::uint64_t in_frame = local_offset(variable) + static_cast<std::uint64_t>(offset);
  const auto found = frame_addresses_.find({variable, offset});
  if (fn->entry || found == frame_addresses_.end()) return constant(in_frame, size);
  if (size != 4 && size != 8) fail("an address needs 32 or 64 bits in");
  return found->second[size == 8 ? 0 : 1];
}

namespace {
void run_frame_address(Warp& w, const Op& op) {
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const std::uint64_t address = w.frame->local + static_cast<std::uint64_t>(op.imm);
    w.set(op.d, 8, lane, address);
    w.set(op.a, 4, lane, address);
  }
}
}  // namespace

/// What a function does before its first instruction.
void Decoder::emit_prologue() {
  for (const auto& [symbol, refs] : frame_addresses_) {
    Op& op = emit(run_frame_address, Kind::other);
    op.d = refs[0], op.a = refs[1];
    op.imm = static_cast<std::int64_t>(local_offset(symbol.first)) + symbol.second;
    for (const Ref r : refs) program.touches.push_back({r / 64, kNoRef, true, false});
  }
  for (const RegisterParameter& p : fn->register_params) frame_access(true, p.id, local_offset(p.variable));
}

/// Parameters, return values, locals, and the values that calls pass without a variable.
void Decoder::layout_frame(std::uint32_t index, FunctionInfo& info) {
  std::size_t local = 0;
  for (std::uint32_t v = 0; v < module.variables.size(); ++v) {
    const Variable& var = module.variables[v];
    if (var.function != static_cast<int>(index) || (var.space != Space::local && var.space != Space::param))
      continue;
    if (is_kernel_param(v)) continue;
    local = round_up(local, std::max<std::size_t>(1, var.align));
    local_offset_[v] = static_cast<std::uint32_t>(local);
    local += var.bytes;
  }
  std::size_t values = 0;
  for (const Instruction& i : fn->body) {
    if (i.opcode != "call") continue;
    std::size_t here = 0;
    for (const Operand& o : i.operands) here += o.kind == Operand::Kind::list ? o.items.size() : 0;
    values = std::max(values, here);
  }
  local = round_up(local, kCallSlot);
  call_slots_ = static_cast<std::uint32_t>(local);
  local += values * kCallSlot;
  if (local > (std::size_t{1} << 19))
    throw Error("function '" + fn->name + "' has too much local memory", fn->line);
  info.local_bytes = static_cast<std::uint32_t>(round_up(local, 16));
  const auto slot = [&](std::uint32_t v) {
    return FunctionInfo::Slot{local_offset_.at(v), static_cast<std::uint32_t>(module.variables[v].bytes)};
  };
  for (const std::uint32_t v : fn->entry ? std::vector<std::uint32_t>{} : fn->params)
    info.params.push_back(slot(v));
  for (const std::uint32_t v : fn->returns) info.returns.push_back(slot(v));
}

void Decoder::touch(std::uint32_t reg, bool write, bool address) {
  const FunctionInfo& info = program.functions[static_cast<std::size_t>(fn - module.functions.data())];
  const std::uint32_t rows = fn->registers[reg] == Type::b128 ? 2 : 1;
  for (std::uint32_t i = 0; i < rows; ++i)
    program.touches.push_back({info.states[reg] + i * kHalfRow / 64, reg, write, address});
}

void Decoder::frame_access(bool load, std::uint32_t reg, std::uint32_t offset) {
  const int size = fn->registers[reg] == Type::pred ? 3 : size_of(fn->registers[reg]);
  emit_frame_access(*this, load, register_rows_[reg], size, offset);
  touch(reg, load);
}

std::uint32_t Decoder::resolve(std::uint32_t function) const {
  const int alias = module.functions[function].alias;
  return alias >= 0 ? static_cast<std::uint32_t>(alias) : function;
}

}  // namespace kiln::emulator::ptx
