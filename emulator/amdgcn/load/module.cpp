// The instruction table, branch linking, and what Module tells about its kernels.
#include "emulator/amdgcn/load/module.hpp"

#include <algorithm>
#include <cstdio>

#include "emulator/amdgcn/ops/ops.hpp"

namespace kiln::emulator::amdgcn {
namespace {

OpTable make_table() {
  OpTable t;
  add_scalar_ops(t);
  add_control_ops(t);
  add_scalar_memory_ops(t);
  add_integer_ops(t);
  add_compare_ops(t);
  add_float_ops(t);
  add_half_ops(t);
  add_convert_ops(t);
  add_narrow_convert_ops(t);
  add_packed_ops(t);
  add_lane_ops(t);
  add_vector_memory_ops(t);
  add_lds_ops(t);
  add_matrix_ops(t);
  return t;
}
const OpTable& table() {
  static const OpTable t = make_table();
  return t;
}

}  // namespace

const OpInfo* find_op(std::string_view mnemonic) {
  const auto it = table().find(std::string(mnemonic));
  return it == table().end() ? nullptr : &it->second;
}

std::vector<std::string_view> known_mnemonics() {
  std::vector<std::string_view> names;
  for (const auto& [name, info] : table()) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

std::string_view class_name(Class c) {
  static constexpr std::string_view names[] = {
      "valu",       "transcendental", "mfma",        "salu",    "branch",   "smem",
      "vmem_load",  "vmem_store",     "vmem_atomic", "dma",     "lds_read", "lds_write",
      "lds_atomic", "lds_permute",    "wait",        "barrier", "other",    "end"};
  return names[static_cast<std::size_t>(c)];
}

void link_branches(Program& program, const std::vector<std::string>& labels,
                   const std::unordered_map<std::string, int>& label_index) {
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    Inst& in = program.code[i];
    if (in.cls != Class::branch || in.exec == nullptr) continue;
    if (!labels.empty() && !labels[i].empty()) {
      const auto it = label_index.find(labels[i]);
      if (it == label_index.end())
        throw Error("'" + in.text + "' branches to an unknown label", static_cast<int>(i) + 1);
      in.target = it->second;
      continue;
    }
    for (int o = 0; o < in.operands; ++o) {
      if (in.ops[static_cast<std::size_t>(o)].kind != Operand::Kind::literal) continue;
      const auto distance = static_cast<std::int16_t>(in.ops[static_cast<std::size_t>(o)].literal);
      in.target = program.find(in.address + in.size + static_cast<std::uint64_t>(std::int64_t{distance} * 4));
      // A target outside of the code can only be padding that no path reaches; executing it is an error
      // (run.cpp).
    }
  }
}

const KernelCode& Module::Impl::find(std::string_view kernel) const {
  if (kernel.empty() && kernels.size() == 1) return kernels.begin()->second;
  const auto it = kernels.find(kernel);
  if (it == kernels.end())
    throw Error("code object '" + name + "' has no kernel '" + std::string(kernel) + "'");
  return it->second;
}

const std::string& Module::name() const {
  return impl_->name;
}
std::string Module::target() const {
  return impl_->target_name;
}

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : impl_->kernels) names.push_back(name);
  return names;
}

const KernelInfo& Module::kernel(std::string_view name) const {
  return impl_->find(name).info;
}

namespace {
template <class F>
void each_instruction(const Module::Impl& impl, std::string_view kernel, F f) {
  const KernelCode& k = impl.find(kernel);
  for (const Inst& in : impl.program.code) {
    if (in.address >= k.entry && in.address < k.end) f(in);
  }
}
}  // namespace

std::string Module::disassembly(std::string_view kernel) const {
  std::string out;
  each_instruction(*impl_, kernel, [&](const Inst& in) {
    char address[32];
    std::snprintf(address, sizeof address, "%llx: ", static_cast<unsigned long long>(in.address));
    out += address + in.text + "\n";
  });
  return out;
}

std::vector<InstructionView> Module::instructions(std::string_view kernel) const {
  std::vector<InstructionView> all;
  each_instruction(*impl_, kernel, [&](const Inst& in) {
    InstructionView view{in.address, in.text, class_name(in.cls), std::nullopt};
    if (in.target >= 0) view.branch = impl_->program.code[static_cast<std::size_t>(in.target)].address;
    all.push_back(view);
  });
  return all;
}

std::size_t Module::count(std::string_view kernel, std::string_view mnemonic_prefix) const {
  std::size_t n = 0;
  each_instruction(*impl_, kernel, [&](const Inst& in) {
    n += in.text.compare(0, mnemonic_prefix.size(), mnemonic_prefix) == 0;
  });
  return n;
}

}  // namespace kiln::emulator::amdgcn
