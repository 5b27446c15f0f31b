#include "emulator/ptx/decode/decoder.hpp"

#include <algorithm>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator::ptx {
namespace {

void run_scalar(Warp& w, const Op& op) {
  const auto f = reinterpret_cast<Scalar>(const_cast<void*>(op.aux));
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    w.set(op.d, op.dsize, lane,
          f(op, w.value(op.a, op.asize, lane), w.value(op.b, op.bsize, lane), w.value(op.c, op.csize, lane)));
  }
}

const std::unordered_map<std::string_view, DecodeFn>& table() {
  static const auto map = [] {
    std::unordered_map<std::string_view, DecodeFn> m;
    for (const auto& group :
         {integer_table(),      move_table(),    address_table(), float_table(),   convert_table(),
          memory_table(),       control_table(), sync_table(),    async_table(),   matrix_table(),
          extended_table(),     bits_table(),    atomics_table(), wmma_table(),    remote_table(),
          exchange_table(),     video_table(),   stack_table(),   texture_table(), surface_table(),
          packed_video_table(), tcgen05_table(), multimem_table()})
      for (const DecodeEntry& e : group) m[e.opcode] = e.decode;
    return m;
  }();
  return map;
}

Use use_of(Kind kind) {
  switch (kind) {
    case Kind::integer:
    case Kind::floating:
    case Kind::half:
    case Kind::conversion:
    case Kind::predicate:
    case Kind::move:
    case Kind::parameter:
      return Use::propagate;
    case Kind::shuffle:
      return Use::handled;
    default:
      return Use::strict;
  }
}

/// %r1.b0, which only video instructions take.
bool is_part(const Operand& o) {
  return (o.kind == Operand::Kind::reg && o.value != 0) ||
         std::any_of(o.items.begin(), o.items.end(), is_part);
}

}  // namespace

Program decode(const Module& module, std::uint32_t kernel) {
  Decoder d(module, kernel);
  return d.take();
}

Decoder::Decoder(const Module& m, std::uint32_t kernel_index) : module(m), kernel_(kernel_index) {
  program.entry_function = kernel_index;
  program.functions.resize(module.functions.size());
  for (FunctionInfo& f : program.functions) f.entry = kNoRef;
  layout_shared();
}

void Decoder::layout_shared() {
  // Static shared memory of the kernel, of the module, and of every function it could call; dynamic memory
  // follows.
  program.shared_offset.assign(module.variables.size(), 0);
  std::size_t at = kSharedBase;
  std::size_t dynamic_align = 16;
  for (std::size_t i = 0; i < module.variables.size(); ++i) {
    const Variable& v = module.variables[i];
    if (v.space != Space::shared) continue;
    if (v.function >= 0 && static_cast<std::uint32_t>(v.function) != kernel_ &&
        module.functions[static_cast<std::size_t>(v.function)].entry)
      continue;
    if (v.dynamic) {
      dynamic_align = std::max(dynamic_align, v.align);
      continue;
    }
    at = round_up(at, std::max<std::size_t>(1, v.align));
    program.shared_offset[i] = static_cast<std::uint32_t>(at);
    at += v.bytes;
    if (at > (1u << 20)) throw Error("static shared memory is too large", v.line);
  }
  at = round_up(at, dynamic_align);
  program.static_smem = static_cast<std::uint32_t>(at - kSharedBase);
  for (std::size_t i = 0; i < module.variables.size(); ++i)
    if (module.variables[i].dynamic) program.shared_offset[i] = static_cast<std::uint32_t>(at);
}

Program Decoder::take() {
  // All defined functions: calls may be indirect, and functions are few.
  decode_function(kernel_);
  for (std::uint32_t i = 0; i < module.functions.size(); ++i)
    if (!module.functions[i].entry && module.functions[i].defined) decode_function(i);
  program.touch_begin.push_back(static_cast<std::uint32_t>(program.touches.size()));
  // Vector loops read whole rows past the last one.
  program.constants.resize(program.constants.size() + 512, 0);
  return std::move(program);
}

void Decoder::decode_function(std::uint32_t index) {
  fn = &module.functions[index];
  FunctionInfo& info = program.functions[index];
  info.entry = static_cast<std::uint32_t>(program.ops.size());
  info.ast = fn;
  layout_registers(info);
  layout_frame(index, info);
  decode_body();
  mark_stamped(program, *fn, info);
  mark_unread(program, info);
  if (fn->entry) mark_assigned(program, info);
}

void Decoder::decode_body() {
  // Falling off the end returns.
  static const Instruction kRet = [] {
    Instruction r;
    r.opcode = "ret";
    return r;
  }();
  const std::size_t first = program.ops.size();
  in = fn->body.empty() ? &kRet : &fn->body[0];
  program.sources.push_back({in});
  emit_prologue();
  statement_pc_.assign(fn->body.size() + 1, 0);
  for (std::size_t i = 0; i < fn->body.size(); ++i) {
    statement_pc_[i] = static_cast<std::uint32_t>(program.ops.size());
    in = &fn->body[i];
    program.sources.push_back({in});
    decode_instruction();
  }
  statement_pc_[fn->body.size()] = static_cast<std::uint32_t>(program.ops.size());
  in = &kRet;
  program.sources.push_back({in});
  decode_instruction();
  for (std::size_t i = first; i < program.ops.size(); ++i)
    if ((program.ops[i].flags & 0x8000) != 0) program.ops[i].target = statement_pc_[program.ops[i].target];
  for (std::vector<std::uint32_t>* t : pending_tables)
    for (std::uint32_t& target : *t) target = statement_pc_[target];
  pending_tables.clear();
}

void Decoder::decode_instruction() {
  const auto it = table().find(in->opcode);
  if (it == table().end()) unsupported();
  if (!in->opcode.starts_with('v') && std::any_of(in->operands.begin(), in->operands.end(), is_part))
    fail("a part of a register in");
  const std::size_t before = program.ops.size();
  touched = false;
  if (!decode_blackwell(*this)) it->second(*this);
  if (program.ops.size() > before && !touched) touch_operands(before);
  if (in->predicated)
    for (std::size_t i = before; i < program.ops.size(); ++i) {
      program.ops[i].predicate = register_rows_[in->predicate];
      program.ops[i].predicate_negated = in->predicate_negated;
    }
}

void Decoder::fail(const std::string& message) const {
  std::string text(in->opcode);
  for (const auto m : in->modifiers) text += "." + std::string(m);
  throw Error(message + " '" + text + "'", in->line);
}

const Operand& Decoder::operand(std::size_t i) const {
  if (i >= in->operands.size()) fail("too few operands of");
  return in->operands[i];
}

std::vector<Type> Decoder::types() const {
  std::vector<Type> out;
  for (const auto m : in->modifiers)
    if (const Type t = type_from(m); t != Type::none) out.push_back(t);
  return out;
}
Type Decoder::type(std::size_t i) const {
  const auto all = types();
  if (i >= all.size()) fail("missing type in");
  return all[i];
}
Type Decoder::last_type() const {
  const auto all = types();
  if (all.empty()) fail("missing type in");
  return all.back();
}
std::uint32_t Decoder::local_offset(std::uint32_t variable) const {
  const auto it = local_offset_.find(variable);
  if (it == local_offset_.end()) fail("variable of another function in");
  return it->second;
}
int Decoder::which(std::initializer_list<std::string_view> known) const {
  int i = 0;
  for (const auto k : known) {
    if (in->has(k)) return i;
    ++i;
  }
  return -1;
}

/// Of an instruction in several steps the first reads, too: what tcgen05.ld still writes is complete before it.
void Decoder::repeat_reads(std::size_t first) {
  if (program.ops.size() - first < 2 || !module.target.starts_with("sm_10")) return;
  const auto begin = static_cast<std::ptrdiff_t>(program.touch_begin[first]);
  const std::vector<Touch> read(program.touches.begin() + begin, program.touches.end());
  for (std::size_t i = first + 1; i < program.ops.size(); ++i)
    program.touch_begin[i] = static_cast<std::uint32_t>(program.touches.size());
  program.touches.insert(program.touches.end(), read.begin(), read.end());
}

void Decoder::touch_operands(std::size_t first) {
  const FunctionInfo& info = program.functions[static_cast<std::size_t>(fn - module.functions.data())];
  std::vector<Touch> written;
  each_register(*in, [&](std::uint32_t reg, std::size_t operand, bool write, bool address) {
    // The accumulators of wgmma are looked at when it runs: it may not read them.
    // Of metadata only some lanes matter.
    if (in->opcode == "wgmma" && !address && (operand == 0 || (operand == 3 && in->has("sp")))) return;
    const int rows = fn->registers[reg] == Type::b128 ? 2 : 1;
    for (int i = 0; i < rows; ++i) {
      const std::uint32_t state = info.states[reg] + static_cast<std::uint32_t>(i) * kHalfRow / 64;
      (write ? written : program.touches).push_back({state, reg, write, !write && address});
    }
  });
  repeat_reads(first);
  program.touches.insert(program.touches.end(), written.begin(), written.end());
}

Op& Decoder::emit(Handler run, Kind kind) {
  program.touch_begin.push_back(static_cast<std::uint32_t>(program.touches.size()));
  Op op;
  op.run = run;
  op.kind = kind;
  op.use = use_of(kind);
  program.uses_async |=
      kind == Kind::async_copy || kind == Kind::bulk_copy || kind == Kind::wgmma || kind == Kind::tensor;
  op.source = static_cast<std::uint32_t>(program.sources.size() - 1);
  program.ops.push_back(op);
  return program.ops.back();
}

Op& Decoder::emit_alu(Alu code, Kind kind, Ref d, Ref a, Ref b, Ref c) {
  Op& op = emit(alu(code), kind);
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
  if (code == Alu::selp16 || code == Alu::selp32 || code == Alu::selp64) op.use = Use::select;
  if (code == Alu::and_pred) op.use = Use::logic_and;
  if (code == Alu::or_pred) op.use = Use::logic_or;
  return op;
}

Op& Decoder::emit_scalar(Scalar f, Kind kind, Ref d, int ds, Ref a, int as, Ref b, int bs, Ref c, int cs) {
  Op& op = emit(run_scalar, kind);
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
  op.dsize = static_cast<std::uint8_t>(ds);
  op.asize = static_cast<std::uint8_t>(as);
  op.bsize = static_cast<std::uint8_t>(bs);
  op.csize = static_cast<std::uint8_t>(cs);
  op.aux = reinterpret_cast<const void*>(f);
  return op;
}

}  // namespace kiln::emulator::ptx
