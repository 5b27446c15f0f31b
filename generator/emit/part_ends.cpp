#include "generator/emit/part_ends.hpp"

#include "generator/config/defaults.hpp"
#include "generator/emit/finish.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/targets/target.hpp"

namespace kiln {
namespace {

using Kind = KernelParam::Kind;
constexpr int kEndThreads = 128;

Manifest manifest(const Config& c, const std::string& name) {
  Manifest m = manifest_of_rows(c, "part_ends_" + name, kEndThreads, kEndThreads);
  m.params = {{Kind::pointer, "q", {}},
              {Kind::pointer, "o", {}},
              {Kind::i32, "seqlen_q", {}},
              {Kind::i64, "q_stride_seq", {}},
              {Kind::i64, "k_stride_head", {}}};
  m.dtype = m.kv_dtype = m.out_dtype = DType::f32;
  m.depth = m.ov_depth = 4;
  return m;
}

}  // namespace

KernelSource make_part_ends_kernel(const Config& user) {
  const Config c = with_shared_defaults(user);
  const bool amd = is_amd(c.target), starts = operand_form(c.operand->kind).ragged_k();
  KernelSource source;
  source.manifest = manifest(c, config_name(user));
  Prelude prelude(amd ? "cdna.hip" : "sm80.cuh");
  prelude.use("warp_names");
  Writer w;
  w.raw(prelude.lines());
  w.line("extern \"C\" __global__ {}void",
         amd ? fmt::format("__attribute__((amdgpu_flat_work_group_size({0}, {0}))) ", kEndThreads) : "");
  w.comment("lengths: those of this rank's keys, `distance` numbers before those of the next rank's");
  w.open("{}(const int* lengths, int* ends, int batch, long long distance, long long ranks)",
         source.manifest.entry);
  w.line("const int b = (int)block_id() * {} + (int)thread_id();", kEndThreads);
  w.line("if (b >= batch) return;");
  w.line("int keys = 0;");
  w.line("for (int i = 0; i < ranks; ++i) keys += {};",
         starts ? "lengths[i * distance + b + 1] - lengths[i * distance + b]"
                : "max(lengths[i * distance + b], 0)");
  w.line("ends[b] = keys;");
  w.close();
  set_text(source, "Key positions behind the queries of a part.", w.lines());
  finish_text(source);
  return source;
}

}  // namespace kiln
