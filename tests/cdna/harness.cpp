// See harness.hpp.
#include "harness.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "generator/schedules/schedule.hpp"
#include "workbench/problem/rounding.hpp"

namespace cdna_test {

using namespace kiln;
namespace amd = emulator::amdgcn;
namespace fs = std::filesystem;

namespace {

std::string clang() {
  const char* named = std::getenv("KILN_CLANG");
  return named != nullptr ? named : "clang-22";
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace

std::string refusal(const std::string& config) {
  try {
    make_plan(parse_config(config, "test"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

amd::Module compile(const KernelSource& source) {
  const fs::path folder = fs::path(KILN_BINARY_DIR) / "cdna_kernels";
  fs::create_directories(folder);
  const std::string base = (folder / (source.manifest.name + "_" + std::to_string(getpid()))).string();
  std::ofstream(base + ".hip", std::ios::binary) << source.text;
  const std::string command = fmt::format(
      "{0} -x hip --cuda-device-only -nogpuinc -nogpulib --no-gpu-bundle-output -fuse-cuid=none "
      "-mcode-object-version=5 -O3 -Wno-undefined-internal -c --offload-arch={1} -o {2}.o {2}.hip > {2}.log "
      "2>&1",
      clang(), source.manifest.target, base);
  REQUIRE_MESSAGE(std::system(command.c_str()) == 0, command << "\n" << slurp(base + ".log"));
  const std::string text = slurp(base + ".o");
  for (const char* suffix : {".hip", ".o", ".log"}) fs::remove(base + suffix);
  return amd::Module::from_code_object(std::as_bytes(std::span(text)), source.manifest.name);
}

namespace {

template <class T>
std::uint64_t upload(emulator::GlobalMemory& memory, const std::vector<T>& values, const char* name) {
  const std::uint64_t at = memory.allocate(std::max<std::size_t>(values.size() * sizeof(T), 16), name);
  if (!values.empty()) memory.write(at, std::as_bytes(std::span(values)));
  return at;
}

/// Values of the integer and pointer roles of one launch.
struct Roles {
  std::map<std::string, std::uint64_t> pointers;
  std::map<std::string, std::int32_t> integers;
};

std::int64_t stride(const std::string& role, const ProblemShape& shape) {
  const bool query = role[0] == 'q' || role[0] == 'o';
  const std::int64_t depth = role[0] == 'v' || role[0] == 'o' ? shape.ov_depth : shape.depth;
  const std::int64_t row = depth * (query ? shape.heads_q : shape.heads_kv);
  if (role.ends_with("_head")) return depth;
  return role.ends_with("_seq") ? row : row * (query ? shape.lengths_q[0] : shape.lengths_k[0]);
}

amd::Launch launch_of(const Built& built, const ProblemShape& shape, const Roles& roles) {
  const Manifest& m = built.source.manifest;
  amd::Launch launch;
  const auto add = [&](const auto& value) {
    std::vector<std::byte> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    launch.args.push_back(std::move(bytes));
  };
  for (const KernelParam& param : m.params) {
    CAPTURE(param.role);
    switch (param.kind) {
      case KernelParam::Kind::pointer:
        REQUIRE(roles.pointers.contains(param.role));
        add(roles.pointers.at(param.role));
        break;
      case KernelParam::Kind::i32:
        REQUIRE(roles.integers.contains(param.role));
        add(roles.integers.at(param.role));
        break;
      case KernelParam::Kind::i64:
        add(stride(param.role, shape));
        break;
      case KernelParam::Kind::f32:
        add(static_cast<float>(m.scale * (param.role == "scale" ? 1 : 1.4426950408889634)));
        break;
      case KernelParam::Kind::captured:
      case KernelParam::Kind::tensor_map:
        FAIL("neither tensor maps nor captured tensors here");
    }
  }
  launch.grid = {static_cast<std::uint32_t>(roles.integers.at("num_m_blocks")),
                 static_cast<std::uint32_t>(shape.heads_q), static_cast<std::uint32_t>(shape.batch())};
  launch.block = {static_cast<std::uint32_t>(m.num_threads), 1, 1};
  launch.dynamic_lds_bytes = static_cast<std::uint32_t>(m.smem_bytes);
  return launch;
}

std::int32_t longest(const std::vector<std::int64_t>& lengths) {
  return static_cast<std::int32_t>(*std::max_element(lengths.begin(), lengths.end()));
}

/// Contiguous and ragged LSE are [batch, heads, rows] and [heads, total]; the check wants [total, heads].
std::vector<float> lse_by_row(const std::vector<float>& raw, const ProblemShape& shape, bool ragged) {
  std::vector<float> out;
  const auto offsets = shape.offsets_q();
  for (std::int64_t b = 0; b < shape.batch(); ++b) {
    const std::int64_t rows = shape.lengths_q[static_cast<std::size_t>(b)];
    const std::int64_t start = offsets[static_cast<std::size_t>(b)];
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t head = 0; head < shape.heads_q; ++head) {
        const std::int64_t at =
            ragged ? head * shape.total_q() + start + row : (b * shape.heads_q + head) * rows + row;
        out.push_back(raw[static_cast<std::size_t>(at)]);
      }
    }
  }
  return out;
}

void run_once(const Built& built, const Workload& work, const Reference& reference, emulator::Policy policy,
              std::uint64_t seed) {
  const Manifest& m = built.source.manifest;
  const ProblemShape& shape = work.shape;
  emulator::GlobalMemory memory;
  Roles roles;
  const std::size_t rows = static_cast<std::size_t>(shape.total_q() * shape.heads_q);
  std::vector<std::byte> o(rows * static_cast<std::size_t>(shape.ov_depth) * size_of(m.out_dtype), kPoison);
  std::vector<float> lse(rows);
  std::memset(lse.data(), 0xff, lse.size() * sizeof(float));
  const auto offsets = [](const std::vector<std::int64_t>& values) {
    return std::vector<std::int32_t>(values.begin(), values.end());
  };
  roles.pointers = {{"q", upload(memory, encode(m.dtype, work.q), "q")},
                    {"k", upload(memory, encode(m.kv_dtype, work.k), "k")},
                    {"v", upload(memory, encode(m.kv_dtype, work.v), "v")},
                    {"o", upload(memory, o, "o")},
                    {"lse", upload(memory, lse, "lse")},
                    {"cu_seqlens_q", upload(memory, offsets(shape.offsets_q()), "cu_q")},
                    {"cu_seqlens_k", upload(memory, offsets(shape.offsets_k()), "cu_k")}};
  const std::int32_t rows_q = longest(shape.lengths_q);
  roles.integers = {{"heads_q", static_cast<std::int32_t>(shape.heads_q)},
                    {"heads_kv", static_cast<std::int32_t>(shape.heads_kv)},
                    {"seqlen_q", rows_q},
                    {"seqlen_k", longest(shape.lengths_k)},
                    {"total_q", static_cast<std::int32_t>(shape.total_q())},
                    {"num_m_blocks", (rows_q + m.grid.block_rows - 1) / m.grid.block_rows}};
  amd::Launch launch = launch_of(built, shape, roles);
  launch.policy = policy;
  launch.seed = seed;
  const emulator::Report report = amd::launch(memory, built.module, launch);
  CHECK(report.completed);
  for (const auto& f : report.findings) FAIL_CHECK(f.kind << ": " << f.message << " at " << f.site.ptx_text);

  Output output;
  memory.read(roles.pointers["o"], o);
  output.unwritten = count_unwritten(o, size_of(m.out_dtype));
  output.o = decode(m.out_dtype, o);
  if (m.writes_lse) {
    memory.read(roles.pointers["lse"], std::as_writable_bytes(std::span(lse)));
    output.lse = lse_by_row(lse, shape, m.operand == OperandKind::ragged);
  }
  const CheckReport check = check_output(work, output, reference, tolerance_of(built.plan.resolved()));
  for (const std::string& failure : check.failures) FAIL_CHECK(failure);
}

}  // namespace

bool toolchain() {
  static const bool found = [] {
    const bool compiler = std::system((clang() + " --version > /dev/null 2>&1").c_str()) == 0;
    const auto llvm = kiln::code_object::disassembler_info();
    if (!compiler) MESSAGE("skipped: no " << clang() << " (package clang-22, or KILN_CLANG)");
    if (!llvm.found) MESSAGE("skipped: " << llvm.error);
    return compiler && llvm.found;
  }();
  return found;
}

std::string config_text(const std::string& target, const std::string& dtype, int depth,
                        const std::string& more, const std::string& operation) {
  return fmt::format(R"({{"target": "{}", "operation": "{}", "dtype": "{}", "depth": {}{}{}}})", target,
                     operation, dtype, depth, more.empty() ? "" : ", ", more);
}

const Built& build(const std::string& config) {
  static std::map<std::string, Built> built;
  const auto at = built.find(config);
  if (at != built.end()) return at->second;
  Plan plan = make_plan(parse_config(config, "test"));
  KernelSource source = generate(plan);
  amd::Module module = compile(source);
  return built.emplace(config, Built{plan, source, std::move(module)}).first->second;
}

void check_kernel(const std::string& config, const Lengths& lengths, bool all, int heads_q, int heads_kv) {
  const Built& kernel = build(config);
  const Config& resolved = kernel.plan.resolved();
  ProblemShape shape;
  shape.heads_q = heads_q, shape.heads_kv = heads_kv;
  shape.depth = resolved.depth, shape.ov_depth = *resolved.ov_depth;
  shape.ragged = resolved.operand->kind == OperandKind::ragged;
  for (const auto& [q, k] : lengths) shape.lengths_q.push_back(q), shape.lengths_k.push_back(k);
  CAPTURE(config);
  CAPTURE(shape.text());
  static std::uint64_t seed = 0;
  const Workload work = random_workload(shape, resolved, ++seed);
  const Semantics semantics = semantics_of(resolved, work);
  const Reference reference =
      reference_attention(work, semantics, choose_rows(shape, semantics.mask, 1e12, seed));
  run_once(kernel, work, reference, emulator::Policy::lazy, 0);
  if (!all) return;
  run_once(kernel, work, reference, emulator::Policy::eager, 0);
  run_once(kernel, work, reference, emulator::Policy::random, seed);
}

void check_ladder(const std::string& config, const std::vector<LadderCase>& cases, bool all) {
  static Runtime runtime = [] {
    RuntimeOptions options;
    options.device = "emulated";
    return Runtime(options);
  }();
  const Plan plan = make_plan(parse_config(config, "test"));
  const KernelSource source = generate(plan);
  for (const auto policy : {EmulatorOptions::Policy::lazy, EmulatorOptions::Policy::random}) {
    EmulatorOptions emulator;
    emulator.policy = policy;
    emulator.seed = 5;
    const LadderRun run = run_cases(runtime, plan, source, cases, emulator, 2);
    CAPTURE(source.manifest.name);
    for (const std::string& failure : run.check.failures) FAIL_CHECK(failure);
    for (const auto& finding : run.findings) FAIL_CHECK(finding.message);
    if (!all) return;
  }
}

void check_compiled(const std::string& config, bool conflict_free) {
  const Built& kernel = build(config);
  const Manifest& m = kernel.source.manifest;
  CAPTURE(m.name);
  const auto& info = kernel.module.kernel(m.entry);
  CHECK(info.scratch_bytes == 0);
  CHECK(info.vgpr_spills == 0);
  CHECK(info.vgprs <= kernel.plan.resources().max_registers);
  REQUIRE(m.expectations.size() == 1);
  CHECK(kernel.module.count(m.entry, m.expectations[0].instruction) ==
        static_cast<std::size_t>(m.expectations[0].count));
  for (const char* narrow : {"ds_read_u16", "ds_read_u8", "ds_write_b16", "buffer_load_ushort"})
    CHECK(kernel.module.count(m.entry, narrow) == 0);
  for (const layout::Proof& proof : kernel.plan.schedule().layout_proofs()) {
    CHECK_MESSAGE(proof.holds, proof.what);
    if (conflict_free) CHECK_MESSAGE(proof.bank_conflicts == 0, proof.what);
  }
}

}  // namespace cdna_test
