// The kernel that combines results of the same rows over different keys: four neighbouring columns a thread, as many
// rows a block as 256 threads hold.
#include <algorithm>

#include <kiln/error.hpp>
#include <kiln/part_kernels.hpp>
#include "generator/config/defaults.hpp"
#include "generator/emit/finish.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/part_merge.hpp"
#include "generator/emit/prelude.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/emit/writer.hpp"

namespace kiln {
namespace {

using Kind = KernelParam::Kind;
constexpr int kMostThreads = 256, kMostParts = 64;

struct MergeShape {
  int ov_depth = 0, lanes = 0, rows = 0, threads = 0;
};

MergeShape shape_of(const Config& c, int parts) {
  MergeShape shape;
  shape.ov_depth = *c.ov_depth;
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::bad_input, "no kernel that merges parts: " + what);
  };
  if (shape.ov_depth % 4 != 0 || shape.ov_depth < 4 || shape.ov_depth > 1024)
    refuse("ov_depth is a multiple of 4 up to 1024");
  if (parts < 1 || parts > kMostParts) refuse("1 to 64 parts");
  shape.lanes = shape.ov_depth / 4;
  shape.rows = std::max(1, kMostThreads / shape.lanes);
  shape.threads = (shape.rows * shape.lanes + 63) / 64 * 64;  // whole warps of both kinds
  return shape;
}

Manifest manifest(const Config& c, const std::string& name, const MergeShape& shape, int parts, DType out) {
  Manifest m =
      manifest_of_rows(c, "merge" + std::to_string(parts) + (out == DType::f32 ? "_floats_" : "_") + name,
                       shape.threads, shape.rows);
  m.params = {{Kind::pointer, "q", {}},
              {Kind::pointer, "o", {}},
              {Kind::pointer, "lse", {}},
              {Kind::i32, "seqlen_q", {}},
              {Kind::i32, "heads_q", {}}};
  m.dtype = m.kv_dtype = DType::f32;
  m.out_dtype = out;
  m.depth = m.ov_depth = shape.ov_depth;
  m.writes_lse = true;
  return m;
}

/// Parameters of parts with distances of their own, in the order of the template.
void take_places(Manifest& m) {
  m.params.insert(m.params.begin() + 1, {Kind::pointer, "k", {}});
  for (const char* role :
       {"q_stride_seq", "q_stride_head", "k_stride_seq", "k_stride_head", "k_stride_batch"})
    m.params.push_back({Kind::i64, role, {}});
}

enum class Variant { overwrite, accumulate, placed };

KernelSource make_merge(const Config& user, int parts, Variant variant) {
  const bool accumulate = variant == Variant::accumulate, placed = variant == Variant::placed;
  const Config c = with_shared_defaults(user);
  const MergeShape shape = shape_of(c, parts);
  const bool sink = *c.sink && !accumulate;
  const DType out = accumulate ? DType::f32 : *c.out_dtype;
  const bool floats = out == DType::f32, amd = is_amd(c.target);
  const char* pack = pack_name(out);
  KernelSource source;
  source.manifest = manifest(c, config_name(user) + (placed ? "_placed" : ""), shape, parts, out);
  std::vector<KernelParam>& params = source.manifest.params;
  if (sink) params.insert(params.begin() + 3, {KernelParam::Kind::pointer, "sink", {}});
  if (placed) take_places(source.manifest);

  Prelude prelude(amd ? "cdna.hip" : "sm80.cuh");
  for (const char* section : {"types", "exp2_approx", "log2_approx"}) prelude.use(section);
  if (!floats) prelude.use(pack);
  if (accumulate && amd) prelude.use("waits");
  Holes holes;
  holes.number("threads", shape.threads).number("rows", shape.rows).number("lanes", shape.lanes);
  holes.number("parts", parts).number("ov_depth", shape.ov_depth).number("unroll", std::min(parts, 8));
  holes.text("entry", source.manifest.entry).text("pack", pack).text("element", floats ? "float" : "u16");
  holes.when("amd", amd).when("accumulate", accumulate).when("floats", floats).when("placed", placed);
  holes.when("sink", sink).text("sink", sink ? "const float* sink, " : "");
  Writer text;
  text.line("#define kInfinity {}", amd ? "__builtin_inff()" : "__int_as_float(0x7f800000)");
  text.blank();
  text.raw(prelude.lines());
  text.raw(fill_template("part_merge.cuh", "kernel", holes));
  set_text(source, "Merges results of the same rows over different keys.", text.lines());
  finish_text(source);
  return source;
}

}  // namespace

KernelSource make_part_merge_kernel(const Config& config, int parts, bool accumulate) {
  return make_merge(config, parts, accumulate ? Variant::accumulate : Variant::overwrite);
}

KernelSource make_placed_merge_kernel(const Config& config, int parts) {
  return make_merge(config, parts, Variant::placed);
}

}  // namespace kiln
