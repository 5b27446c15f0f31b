// The emulated AMD CDNA device (gfx90a, gfx942, gfx950): runs a compiled code object, as the runtime would
// load it, on the CPU, with waves of 64 lanes, s_waitcnt counters and MFMA, and reports what it did wrong.
// Shares memory, policies, findings and reports with the PTX front end. Knows nothing of kiln.
//
// Instructions are decoded from the text of LLVM's disassembler, which is opened at run time (libLLVM with
// the AMDGPU target; see <kiln/code_object.hpp>), or from the assembly text a compiler prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/code_object.hpp>
#include <kiln/emulator/emulator.hpp>

namespace kiln::emulator::amdgcn {

using code_object::Argument;
using code_object::KernelInfo;

/// One instruction of a kernel, for those who study programs.
struct InstructionView {
  std::uint64_t address = 0;
  std::string_view text;  ///< "v_add_f32_e32 v0, v1, v2"; as long as the module lives
  std::string_view kind;  ///< "valu", "mfma", "lds_read", ...: what the counters of a run call it
  std::optional<std::uint64_t> branch;  ///< where a branch leads
};

/// A decoded code object. Immutable and cheap to copy, except for its device variables, which launches share.
class Module {
 public:
  /// An ELF64 code object for amdgcn-amd-amdhsa, version 4 or newer. Throws Error when it is malformed, is
  /// for another target, or no LLVM that knows the target can be opened.
  static Module from_code_object(std::span<const std::byte> bytes, std::string name = "module");
  /// Assembly text of clang -S. Needs no LLVM; knows kernels and their constants only where they need no
  /// relocation.
  static Module from_assembly(std::string_view text, std::string name = "module");

  const std::string& name() const;
  std::string target() const;  ///< "gfx90a", "gfx942" or "gfx950"
  std::vector<std::string> kernels() const;
  const KernelInfo& kernel(std::string_view name) const;
  /// The kernel's instructions as text, one a line, each after its address ("1658: v_add_f32_e32 v0, v1,
  /// v2").
  std::string disassembly(std::string_view kernel) const;
  std::vector<InstructionView> instructions(std::string_view kernel) const;
  /// How often a mnemonic (without its encoding suffix) occurs in the kernel's code.
  std::size_t count(std::string_view kernel, std::string_view mnemonic_prefix) const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

struct Launch {
  std::string kernel;  ///< may be empty when the module has only one
  Dim3 grid, block;    ///< workgroups, and lanes of one
  std::uint32_t dynamic_lds_bytes = 0;
  /// One entry per visible argument, in order, each exactly as long as the argument.
  std::vector<std::vector<std::byte>> args;
  /// Instead of `args`: the packed arguments, at the offsets of KernelInfo::args.
  std::vector<std::byte> kernarg;
  Policy policy = Policy::eager;
  std::uint64_t seed = 0;
  bool findings = true;
  std::uint64_t instruction_budget = std::uint64_t{1} << 34;  ///< wave-instructions of the whole grid
  int host_threads = 0;
  int max_findings = 100;
};

/// Runs one grid to its end. Throws Error for an illegal launch and for code that the device does not know;
/// what the kernel does wrong is in the report. Of a site, `ptx_text` is the ISA text and `ptx_line` its
/// number in Module::disassembly().
Report launch(GlobalMemory& memory, const Module& module, const Launch& launch);

/// Every value of Finding::kind that this device can report.
std::span<const std::string_view> finding_kinds();

/// Extra service cycles that the LDS of `target` needs for one access of a wave, by the phases that are
/// documented for it: `offsets` are the lanes' byte offsets, `bytes` those each lane reads or writes, `mask`
/// the active lanes.
int lds_conflicts(std::string_view target, std::span<const std::uint32_t> offsets, int bytes, bool write,
                  bool transposed = false, std::uint64_t mask = ~std::uint64_t{0});

}  // namespace kiln::emulator::amdgcn
