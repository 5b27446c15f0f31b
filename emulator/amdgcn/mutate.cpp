#include "emulator/amdgcn/mutate.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/amdgcn/load/module.hpp"
#include "emulator/amdgcn/machine/wait_proofs.hpp"

namespace kiln::emulator::amdgcn {
namespace {

constexpr std::uint32_t kNop = 0xbf800000;  // s_nop 0
constexpr int kNoVm = 63, kNoLgkm = 15;

/// s_waitcnt for the counts given; what is not waited for has its largest value.
std::uint32_t waitcnt(int vm, int exp, int lgkm) {
  return 0xbf8c0000U | static_cast<std::uint32_t>((vm & 15) | exp << 4 | lgkm << 8 | vm >> 4 << 14);
}

bool writes_m0(const Inst& in) {
  return in.operands > 0 && in.ops[0].kind == Operand::Kind::sgpr && in.ops[0].reg == kM0;
}

class Collector {
 public:
  Collector(const Module::Impl& impl, const KernelCode& kernel, std::size_t first, std::size_t last)
      : impl_(impl), proofs_(impl.program, kernel, first, last) {}

  void visit(std::size_t at, int line) {
    const Inst& in = impl_.program.code[at];
    const std::uint32_t word = word_at(in.address);
    const auto add = [&](MutationKind kind, const char* change, std::uint32_t changed,
                         std::string equivalent = {}) {
      found.push_back({kind, change, line, in.text, in.source_line, offset_of(in.address), changed,
                       std::move(equivalent)});
    };
    if (in.cls == Class::barrier) {
      add(MutationKind::barrier_removed, "removed", kNop, proofs_.barrier_idle());
    } else if (in.cls == Class::wait && word >> 16 == 0xbf8c) {
      // Of a wait for all but the most that a counter counts, both mutants are the same.
      const int vm = in.mod.vmcnt, lgkm = in.mod.lgkmcnt, exp = static_cast<int>(word >> 4 & 7);
      if (vm < kNoVm) {
        add(MutationKind::wait_removed, "vmcnt not waited", waitcnt(kNoVm, exp, lgkm),
            proofs_.idle(at, true, vm + 1 == kNoVm));
        add(MutationKind::group_wait_count, "vmcnt + 1", waitcnt(vm + 1, exp, lgkm),
            proofs_.idle(at, true, true));
      }
      if (lgkm < kNoLgkm) {
        add(MutationKind::wait_removed, "lgkmcnt not waited", waitcnt(vm, exp, kNoLgkm),
            proofs_.idle(at, false, lgkm + 1 == kNoLgkm));
        add(MutationKind::group_wait_count, "lgkmcnt + 1", waitcnt(vm, exp, lgkm + 1),
            proofs_.idle(at, false, true));
      }
    } else if (writes_m0(in) && in.size == 8) {
      // The literal follows the instruction: where the next copy to LDS lands.
      found.push_back({MutationKind::operand_address, "M0 + 256", line, in.text, in.source_line,
                       offset_of(in.address) + 4, word_at(in.address + 4) + 256, ""});
    } else if ((in.cls == Class::lds_read || in.cls == Class::lds_write) && in.bytes >= 8) {
      const bool pair = in.text.starts_with("ds_read2") || in.text.starts_with("ds_write2");
      const bool rows = in.text.find("st64") != std::string::npos;
      // Of a pair, the first offset counts in units of 8 bytes, or of 512.
      if (!rows) add(MutationKind::operand_address, "offset ^ 16", word ^ (pair ? 2U : 16U));
    }
  }
  std::vector<Mutation> found;

 private:
  std::size_t offset_of(std::uint64_t address) const {
    for (const code_object::Segment& s : impl_.segments) {
      if (address >= s.address && address - s.address < s.size)
        return static_cast<std::size_t>(s.offset + address - s.address);
    }
    throw Error("mutants are made of code objects, not of assembly text");
  }
  std::uint32_t word_at(std::uint64_t address) const {
    offset_of(address);
    std::uint32_t word = 0;
    std::memcpy(&word, impl_.image->data() + address, sizeof word);
    return word;
  }

  const Module::Impl& impl_;
  WaitProofs proofs_;
};

}  // namespace

std::vector<Mutation> mutations(const Module& module, std::string_view kernel) {
  const Module::Impl& impl = module.impl();
  const KernelCode& code = impl.find(kernel);
  const auto& program = impl.program.code;
  const auto index_of = [&](std::uint64_t address) {
    return static_cast<std::size_t>(std::ranges::lower_bound(program, address, {}, &Inst::address) -
                                    program.begin());
  };
  const std::size_t first = index_of(code.entry), last = index_of(code.end);
  Collector collector(impl, code, first, last);
  for (std::size_t i = first; i < last; ++i) collector.visit(i, static_cast<int>(i - first) + 1);
  return std::move(collector.found);
}

std::string apply(std::string code_object, const Mutation& mutation) {
  if (mutation.offset > code_object.size() || code_object.size() - mutation.offset < sizeof mutation.word)
    throw Error("the mutation is of another code object");
  std::memcpy(code_object.data() + mutation.offset, &mutation.word, sizeof mutation.word);
  return code_object;
}

}  // namespace kiln::emulator::amdgcn
