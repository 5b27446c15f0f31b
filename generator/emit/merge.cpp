// The kernel that ends a cascade: a row of O over a sequence's own keys takes in the rows over the parts of
// the keys it shares. One warp a row; four neighbouring elements a lane and step.
#include <kiln/cascade_kernels.hpp>
#include <kiln/error.hpp>
#include "generator/config/defaults.hpp"
#include "generator/emit/finish.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/prelude.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/emit/writer.hpp"

namespace kiln {
namespace {

using Kind = KernelParam::Kind;
constexpr int kMergedRows = 4, kMergeThreads = 32 * kMergedRows;

/// With the end of the launch before.
bool overlaps(const Config& c) {
  return c.target == Target::sm_90a;
}

void refuse_what_is_missing(const Config& c, int parts) {
  const int ov = *c.ov_depth;
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::bad_input, "no merge kernel: " + what);
  };
  if (is_amd(c.target))
    refuse(std::string(to_string(c.target)) + " is not supported yet, NVIDIA targets are");
  if (*c.out_dtype != DType::bf16 && *c.out_dtype != DType::fp16) refuse("rows of O are bf16 or fp16");
  if (ov % 16 != 0 || ov < 16 || ov > 1024) refuse("ov_depth is a multiple of 16 up to 1024");
  if (parts < 1 || parts > 32) refuse("prefixes have 1 to 32 parts");
}

Manifest manifest(const Config& c) {
  Manifest m = manifest_of_rows(c, "merge_" + config_name(c), kMergeThreads, kMergedRows);
  m.params = {
      {Kind::pointer, "q", {}},         {Kind::pointer, "o", {}},        {Kind::pointer, "lse", {}},
      {Kind::i32, "seqlen_q", {}},      {Kind::i32, "heads_q", {}},      {Kind::i64, "q_stride_seq", {}},
      {Kind::i64, "q_stride_head", {}}, {Kind::i64, "o_stride_seq", {}}, {Kind::i64, "o_stride_head", {}}};
  m.dtype = m.kv_dtype = m.out_dtype = *c.out_dtype;
  m.depth = m.ov_depth = *c.ov_depth;
  m.writes_lse = true;
  if (overlaps(c)) m.expectations.push_back({"griddepcontrol.wait", 1});
  return m;
}

}  // namespace

KernelSource make_merge_kernel(const Config& user, int parts) {
  const Config c = with_shared_defaults(user);
  refuse_what_is_missing(c, parts);
  const bool bf16 = *c.out_dtype == DType::bf16;
  const char* pack = pack_name(*c.out_dtype);
  KernelSource source;
  const Manifest& m = source.manifest = manifest(c);

  Prelude prelude(overlaps(c) ? "sm90.cuh" : "sm80.cuh");
  if (overlaps(c)) prelude.use("dependent_launch");
  for (const char* section : {"types", "exp2_approx", "log2_approx", pack}) prelude.use(section);
  Holes holes;
  holes.number("threads", kMergeThreads)
      .number("rows", kMergedRows)
      .number("parts", parts)
      .number("ov_depth", *c.ov_depth);
  holes.text("entry", m.entry).text("pack", pack).when("bf16", bf16).when("overlaps", overlaps(c));
  Writer text;
  text.line("#define kInfinity __int_as_float(0x7f800000)");
  text.blank();
  text.raw(prelude.lines());
  text.raw(fill_template("merge.cuh", "kernel", holes));
  set_text(source, "Merges attention over shared keys into attention over a sequence's own.", text.lines());
  finish_text(source);
  return source;
}

}  // namespace kiln
