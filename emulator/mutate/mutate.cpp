#include "emulator/mutate/mutate.hpp"

#include <algorithm>

#include "emulator/mutate/rewrites.hpp"
#include "emulator/mutate/statement.hpp"
#include "emulator/ptx/parse/parser.hpp"

namespace kiln::emulator {
namespace {

using ptx::Instruction;
using ptx::Operand;
using Kind = MutationKind;

/// Makes the mutants of one instruction after another.
class Mutator {
 public:
  Mutator(const ptx::Module& module, MutationSet set) : module_(module), set_(set) {}

  std::vector<Mutation> run() {
    for (const ptx::Function& f : module_.functions) {
      function_ = &f;
      for (const Instruction& in : f.body) visit(in);
    }
    return std::move(out_);
  }

 private:
  void visit(const Instruction& in);
  void barrier();
  void mbarrier();
  void copy();
  void wgmma();
  void tcgen05();
  void products();
  void instruction_descriptor(std::size_t operand);
  void masks(std::size_t instruction, std::size_t flag);
  void addresses(std::size_t operand);
  void groups();
  void ordering();
  void membership();
  void fence();
  void access();
  void bulk();

  bool has(std::string_view modifier) const { return in_->has(modifier); }
  void add(Kind kind, std::string change, std::string replacement) {
    if (set_ == MutationSet::synchronisation && !info(kind).synchronisation) return;
    Mutation m;
    m.kind = kind;
    m.change = std::move(change);
    m.ptx_line = in_->line;
    m.ptx_text = one_line(statement_->text.substr(statement_->begin, statement_->end - statement_->begin));
    m.source_line = in_->source_line;
    m.caller_line = in_->caller_line;
    if (in_->source_line != 0 && static_cast<std::size_t>(in_->source_file) < module_.files.size())
      m.source_file = module_.files[static_cast<std::size_t>(in_->source_file)];
    m.begin = statement_->begin;
    m.end = statement_->end;
    m.replacement = std::move(replacement);
    // Line numbers of everything behind must stay.
    for (std::size_t i = m.begin; i < m.end; ++i)
      if (statement_->text[i] == '\n') m.replacement += '\n';
    out_.push_back(std::move(m));
  }
  /// `replacement` unless it is empty: the statement is none of that sort.
  void add_if(Kind kind, std::string change, std::string replacement) {
    if (!replacement.empty()) add(kind, std::move(change), std::move(replacement));
  }
  void remove(Kind kind) { add(kind, "removed", ""); }
  /// The statement with operand `index` (of 32 or 64 bits) put through `operation` first.
  void change_operand(Kind kind, const std::string& change, std::size_t index, const std::string& operation,
                      const std::string& amount, bool wide);

  static std::string one_line(std::string_view s) {
    std::string out;
    for (const char c : s) out += c == '\n' || c == '\t' ? ' ' : c;
    return out;
  }

  const ptx::Module& module_;
  const MutationSet set_;
  const ptx::Function* function_ = nullptr;
  const Instruction* in_ = nullptr;
  const Statement* statement_ = nullptr;
  std::vector<Mutation> out_;
};

void Mutator::change_operand(Kind kind, const std::string& change, std::size_t index,
                             const std::string& operation, const std::string& amount, bool wide) {
  const std::string_view operand = statement_->operands[index];
  const bool address = operand.starts_with("[");
  const AddressText parts = address ? split_address(operand) : AddressText{operand, {}};
  // Inside an address the register may have either size.
  if (address) {
    const Operand& base = in_->operands[index].items[0];
    wide = base.kind != Operand::Kind::reg || ptx::size_of(function_->registers[base.id]) == 8;
  }
  const char* type = wide ? "b64" : "b32";
  std::string text = "{ .reg ." + std::string(type) + " kiln_mutant; ";
  const std::string suffix = operation == "xor" ? std::string(type) : wide ? "s64" : "s32";
  if (in_->operands[index].kind == Operand::Kind::reg ||
      (address && in_->operands[index].items[0].kind == Operand::Kind::reg))
    text += operation + "." + suffix + " kiln_mutant, " + std::string(parts.base) + ", " + amount + "; ";
  else
    text += "mov." + std::string(type) + " kiln_mutant, " + std::string(parts.base) + "; " + operation + "." +
            suffix + " kiln_mutant, kiln_mutant, " + amount + "; ";
  const std::string replaced =
      address ? "[kiln_mutant" + std::string(parts.rest) + "]" : std::string("kiln_mutant");
  add(kind, change, text + statement_->with_operand(index, replaced) + " }");
}

void Mutator::barrier() {
  if (has("warp")) {
    remove(Kind::warp_barrier_removed);
    return membership();
  }
  if (has("cluster")) return remove(Kind::cluster_barrier_removed);
  const std::size_t number = has("red") ? 1 : 0;  // the result of a reduction has no replacement
  if (number == 0) remove(Kind::barrier_removed);
  const auto constant = [&](std::size_t i) {
    return i < in_->operands.size() && in_->operands[i].kind == Operand::Kind::integer;
  };
  // Without a count all threads of the block meet here, under whatever number.
  const std::size_t count = number + 1;
  if (count >= in_->operands.size() || (number == 1 && in_->operands.size() < 4)) return;
  if (constant(number))
    add(Kind::barrier_id, "number + 1",
        statement_->with_operand(number, std::to_string((in_->operands[number].value + 1) % 16)));
  if (!constant(count)) return;
  const std::int64_t threads = in_->operands[count].value;
  add(Kind::barrier_count, "32 threads more", statement_->with_operand(count, std::to_string(threads + 32)));
  if (threads > 32)
    add(Kind::barrier_count, "32 threads fewer",
        statement_->with_operand(count, std::to_string(threads - 32)));
}

/// The member mask is the last operand of all of them.
void Mutator::membership() {
  if (!has("sync") || in_->operands.empty()) return;
  const std::size_t mask = in_->operands.size() - 1;
  const Operand& given = in_->operands[mask];
  if (given.kind == Operand::Kind::reg) {
    change_operand(Kind::member_mask, "lane 0 flipped in the mask", mask, "xor", "1", false);
  } else if (given.kind == Operand::Kind::integer) {
    const auto other = static_cast<std::uint32_t>(given.value) ^ 1U;
    if (other != 0)
      add(Kind::member_mask, "lane 0 flipped in the mask",
          statement_->with_operand(mask, std::to_string(other)));
  }
}

/// Loads, stores and atomics.
void Mutator::access() {
  const std::string_view o = in_->opcode;
  if (o == "atom" || o == "red") {
    add_if(Kind::atomic_split, "not atomic", split_atomic(*statement_, *in_));
  } else {
    add_if(Kind::strong_dropped, "made plain", plain_access(*statement_, *in_));
    if (o == "st" && has("bulk")) change_operand(Kind::copy_bytes, "8 bytes fewer", 1, "add", "-8", true);
    const std::size_t address = o == "ld" ? 1 : 0;
    const bool shared = has("shared") || has("shared::cta");
    if ((shared || has("global")) && !has("async"))
      add_if(shared ? Kind::shared_index : Kind::global_index, "one access on",
             next_address(*statement_, *in_, address));
  }
  add_if(Kind::scope_narrowed, "cta scope", narrow_scope(*statement_, *in_));
  add_if(Kind::guard_dropped, "for all lanes", without_guard(*statement_, *in_));
}

/// cp.async.bulk and cp.reduce.async.bulk without a tensor map: its size is the third operand.
void Mutator::bulk() {
  if (!has("tensor") && !has("prefetch") && in_->operands.size() >= 3)
    change_operand(Kind::copy_bytes, "16 bytes fewer", 2, "add", "-16", false);
}

void Mutator::mbarrier() {
  const auto twice = [&] {
    const std::string text = statement_->with_head(statement_->head());
    add(Kind::arrival_doubled, "done twice", text + " " + text);
  };
  if (has("init")) {
    change_operand(Kind::arrival_count, "arrival count + 1", 1, "add", "1", false);
    change_operand(Kind::arrival_count, "arrival count - 1", 1, "add", "-1", false);
  } else if (has("try_wait") || has("test_wait")) {
    add(Kind::wait_removed, "not waited",
        std::string(statement_->predicate()) + "setp.eq.u32 " + std::string(statement_->operands[0]) +
            ", 0, 0;");
    if (has("parity")) change_operand(Kind::wait_phase, "parity flipped", 2, "xor", "1", false);
  } else if (has("expect_tx")) {
    remove(Kind::expected_bytes);
    const std::size_t bytes = statement_->operands.size() - 1;
    change_operand(Kind::expected_bytes, "16 bytes more expected", bytes, "add", "16", false);
    change_operand(Kind::expected_bytes, "16 bytes fewer expected", bytes, "add", "-16", false);
  } else if (has("arrive") || has("arrive_drop")) {
    // An arrival's state is used by some later wait: only those without one can go.
    if (in_->operands[0].kind != Operand::Kind::reg) remove(Kind::arrival_removed);
    twice();
  } else if (has("complete_tx")) {
    remove(Kind::arrival_removed);
  }
}

void Mutator::groups() {
  if (!has("wait_group")) return remove(Kind::commit_removed);
  remove(Kind::group_wait_removed);
  const std::int64_t n = in_->operands[0].value;
  add(Kind::group_wait_count, "N + 1", statement_->with_operand(0, std::to_string(n + 1)));
}

void Mutator::addresses(std::size_t operand) {
  change_operand(Kind::operand_address, "16-byte chunk swapped (swizzle bit)", operand, "xor", "16", false);
}

void Mutator::copy() {
  if (has("commit_group") || has("wait_group")) return groups();
  if (has("wait_all")) return remove(Kind::group_wait_removed);
  if (has("async") && has("mbarrier") && has("arrive") && !has("bulk")) return remove(Kind::arrival_removed);
  if (has("bulk")) return bulk();
  if (!has("async")) return;
  addresses(0);
  add_if(Kind::guard_dropped, "for all lanes", without_guard(*statement_, *in_));
}

void Mutator::wgmma() {
  if (has("fence")) return remove(Kind::wgmma_fence_removed);
  if (has("commit_group") || has("wait_group")) return groups();
  if (!has("mma_async")) return;
  for (const std::size_t i : {1, 2}) {
    if (in_->operands[i].kind == Operand::Kind::vector) continue;
    const std::string which = i == 1 ? "A" : "B";
    const std::size_t before = out_.size();
    change_operand(Kind::operand_address, "swizzle bit of descriptor " + which, i, "xor",
                   "0x4000000000000000", true);
    change_operand(Kind::operand_address, "descriptor " + which + " 32 bytes on", i, "add", "2", true);
    if (in_->operands[1].kind != Operand::Kind::vector) continue;
    const std::string zeros = "{ .reg .b32 kiln_zero; mov.b32 kiln_zero, 0; wgmma.fence.sync.aligned; " +
                              statement_->with_operand(1, "{kiln_zero, kiln_zero, kiln_zero, kiln_zero}") +
                              " }";
    for (std::size_t m = before; m < out_.size(); ++m) out_[m].with_zeros = zeros;
  }
}

/// Fields of the instruction descriptor.
void Mutator::instruction_descriptor(std::size_t operand) {
  const auto change = [&](const char* what, const char* operation, const char* amount) {
    change_operand(Kind::product_changed, what, operand, operation, amount, false);
  };
  change("negation of A", "xor", "8192");
  if (has("sp") && (has("kind::f16") || has("kind::tf32")))
    change("the other column of metadata", "xor", "1");
  if (has("kind::f8f6f4") || has("kind::i8") || has("kind::mxf8f6f4"))
    change("another type of A", "xor", "128");
  if (has("kind::f16") || has("kind::f8f6f4") || has("kind::i8"))
    change("the other major of B", "xor", "65536");
  change("16 columns fewer", "add", "-262144");
  const Operand& given = in_->operands[operand];
  if (given.kind == Operand::Kind::integer) {
    const std::int64_t m = given.value >> 24 & 31;
    add(Kind::product_changed, "half the rows",
        statement_->with_operand(operand, std::to_string((given.value & ~(31LL << 24)) | (m / 2) << 24)));
  }
  if (has("block_scale") && !has("scale_vec::4X") && !has("block16"))
    change("another scale of B", "xor", has("kind::mxf8f6f4") ? "16" : "32");
}

/// Lanes of D that stay as they are, columns of B that count as zeros, rows of A that move.
void Mutator::masks(std::size_t instruction, std::size_t flag) {
  if (flag == instruction + 2) {
    std::string lanes(statement_->operands[instruction + 1]);
    const std::size_t begin = lanes.find('{') + 1, end = lanes.find(',');
    const std::string first = lanes.substr(begin, end - begin);
    add(Kind::product_changed, "lane 0 of the mask flipped",
        "{ .reg .b32 kiln_mutant; mov.b32 kiln_mutant, " + first + "; xor.b32 kiln_mutant, kiln_mutant, 1; " +
            statement_->with_operand(instruction + 1, lanes.replace(begin, end - begin, "kiln_mutant")) +
            " }");
  }
  if (has("ws") && flag + 1 < in_->operands.size() &&
      (in_->operands[flag + 1].kind == Operand::Kind::reg || in_->operands[flag + 1].value != 0))
    change_operand(Kind::product_changed, "first span of the zero-column mask", flag + 1, "xor",
                   "0x100000000", true);
  if (has("ashift")) {
    std::string head(statement_->head());
    add(Kind::product_changed, "A not shifted", statement_->with_head(head.erase(head.find(".ashift"), 7)));
  }
}

/// tcgen05.mma: its descriptors, which lanes it writes, and whether it adds to D.
void Mutator::products() {
  const std::size_t instruction = has("sp") ? 4 : 3;  // metadata come before it
  if (in_->operands[1].kind != Operand::Kind::address)
    change_operand(Kind::operand_address, "descriptor A 32 bytes on", 1, "add", "2", true);
  change_operand(Kind::operand_address, "descriptor B 32 bytes on", 2, "add", "2", true);
  change_operand(Kind::operand_address, "swizzle bit of descriptor B", 2, "xor", "0x4000000000000000", true);
  change_operand(Kind::operand_address, "stride of descriptor B 16 bytes on", 2, "add", "0x100000000", true);
  if (has("sp")) change_operand(Kind::operand_address, "metadata two columns on", 3, "add", "2", false);
  instruction_descriptor(instruction);
  const bool masked = in_->operands[instruction + 1].kind == Operand::Kind::vector;
  const std::size_t flag = instruction + (has("block_scale") ? 3 : masked ? 2 : 1);
  const Operand& accumulate = in_->operands[flag];
  if (accumulate.kind == Operand::Kind::integer)
    add(Kind::product_changed, "accumulation flipped",
        statement_->with_operand(flag, accumulate.value != 0 ? "0" : "1"));
  else if (!accumulate.negated)
    add(Kind::product_changed, "accumulation flipped",
        statement_->with_operand(flag, "!" + std::string(statement_->operands[flag])));
  masks(instruction, flag);
  if (has("block_scale"))
    change_operand(Kind::product_changed, "scales of A one row on", instruction + 1, "add", "65536", false);
}

void Mutator::tcgen05() {
  if (has("mma")) return products();
  if (has("alloc")) {
    if (in_->operands[1].kind == Operand::Kind::integer && in_->operands[1].value > 32)
      add(Kind::tensor_memory, "half the columns",
          statement_->with_operand(1, std::to_string(in_->operands[1].value / 2)));
  } else if (has("commit")) {
    remove(Kind::commit_removed);
    if (has("multicast::cluster"))
      add(Kind::tensor_memory, "CTA 0 in the mask flipped",
          "{ .reg .b16 kiln_mutant; mov.b16 kiln_mutant, " + std::string(statement_->operands[1]) +
              "; xor.b16 kiln_mutant, kiln_mutant, 1; " + statement_->with_operand(1, "kiln_mutant") + " }");
  } else if (has("wait::st") || has("wait::ld")) {
    remove(Kind::wait_removed);
  } else if (has("dealloc") || has("cp") || has("shift")) {
    remove(Kind::tensor_memory);
  }
}

void Mutator::ordering() {
  for (const std::string_view strong : {"acq_rel", "release", "acquire"}) {
    if (!has(strong)) continue;
    std::string head(statement_->head());
    head.replace(head.find(strong), strong.size(), "relaxed");
    add(strong == "acquire" ? Kind::acquire_relaxed : Kind::release_relaxed,
        std::string(strong) + " made relaxed", statement_->with_head(head));
    return;
  }
}

void Mutator::fence() {
  remove(has("proxy") || has("mbarrier_init") ? Kind::proxy_fence_removed : Kind::fence_removed);
  add_if(Kind::fence_scope, "cta scope", narrow_scope(*statement_, *in_));
}

void Mutator::visit(const Instruction& in) {
  in_ = &in;
  const std::string_view o = in.opcode;
  static constexpr std::string_view kInteresting[] = {"bar",      "barrier",
                                                      "mbarrier", "fence",
                                                      "membar",   "griddepcontrol",
                                                      "cp",       "wgmma",
                                                      "tcgen05",  "ldmatrix",
                                                      "stmatrix", "atom",
                                                      "red",      "ld",
                                                      "st",       "shfl",
                                                      "vote",     "match",
                                                      "redux",    "elect",
                                                      "setp",     "clusterlaunchcontrol"};
  if (std::find(std::begin(kInteresting), std::end(kInteresting), o) == std::end(kInteresting)) return;
  const Statement statement(module_.text, in);
  statement_ = &statement;
  if (o == "bar" || o == "barrier") {
    barrier();
  } else if (o == "mbarrier") {
    mbarrier();
  } else if (o == "fence" || o == "membar") {
    fence();
  } else if (o == "griddepcontrol") {
    if (has("wait")) remove(Kind::wait_removed);
  } else if (o == "cp") {
    copy();
  } else if (o == "wgmma") {
    wgmma();
  } else if (o == "tcgen05") {
    tcgen05();
  } else if (o == "clusterlaunchcontrol") {
    if (has("try_cancel")) remove(Kind::arrival_removed);
  } else if (o == "ldmatrix") {
    addresses(1);
  } else if (o == "stmatrix") {
    addresses(0);
  } else if (o == "setp") {
    add_if(Kind::bound_off_by_one, "bound off by one", other_bound(statement, in));
  } else if (o == "atom" || o == "red" || o == "ld" || o == "st") {
    ordering();
    access();
  } else {
    membership();
  }
}

}  // namespace

std::vector<Mutation> mutations(std::string_view ptx, MutationSet set) {
  const ptx::Module module = ptx::parse(ptx);
  return Mutator(module, set).run();
}

std::string apply_mutation(std::string_view ptx, const Mutation& mutation) {
  std::string text(ptx.substr(0, mutation.begin));
  text += mutation.replacement;
  text += ptx.substr(mutation.end);
  return text;
}

std::string equivalent_reason(const Mutation& mutation,
                              const std::function<bool(const std::string& replacement)>& kills) {
  const auto is = [&](std::string_view opcode) { return mutation.ptx_text.starts_with(opcode); };
  if (!mutation.with_zeros.empty() && !kills(mutation.with_zeros)) return "the wgmma multiplies by zeros";
  // The emulated device reports every register that needs one.
  if (is("wgmma.fence"))
    return "an earlier wgmma.fence covers the registers; ptxas adds one where it wants it (C7519)";
  // A load is complete when one of its registers is used, which comes before every hand-over that needs it.
  if (mutation.ptx_text.find("tcgen05.wait::ld") != std::string::npos && kills("trap;"))
    return "the registers are used before anybody may write the columns again";
  // Registers and memory that a wgmma still owns are reported when touched, so where the statement is reached
  // a later wait does for all of them.
  if ((is("wgmma.wait_group") || is("wgmma.commit_group")) && kills("trap;"))
    return "a later wait covers it in PTX; it frees the operands' registers for ptxas to use again";
  return {};
}

}  // namespace kiln::emulator
