// Scales of a byte for a block of columns of a row (MXFP8, NVFP4), in sm100_decode. The warps that convert load them:
// a lane those of one key, a tile ahead, page numbers two tiles ahead. A warp converts the rows of its own lanes' keys,
// so that a shuffle brings each row's scales; a product of a number and its scale is exact in the 16 bits that it
// becomes.
#include <numeric>

#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm100_decode/key_scales.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm100 {
namespace {

/// Scales that the converting warps load, whatever they are.
class BlockScales : public KeyScales {
 public:
  using KeyScales::KeyScales;
  void add_params(std::vector<KernelParam>& params) const override {
    add_scale_pointers(params);
    add_scale_strides(params, *p_.config.operand, true);
  }
  const char* convert_function() const override { return "convert_blocks"; }
  std::string convert_argument(const RawTensor& of) const override {
    return fmt::format(", {}_scales", of.name);
  }
  bool read_by_converters() const override { return true; }
  void emit_load_first(Writer& w) const override;
  void emit_load_ahead(Writer& w) const override;

 private:
  bool table() const { return operand_form(p_.config.operand->kind).table(); }
  std::string look_up(const std::string& n) const;
  std::string words(const char* prefix) const {
    return fmt::format("{0}k_scales[{1}], {0}v_scales[{2}]", prefix, ceil_div(p_.scale_bytes(true), 4),
                       ceil_div(p_.scale_bytes(false), 4));
  }
  void emit_load_row(Writer& w, const char* name, int bytes) const;
};

/// E4M3, a power of two for 32 columns: BF16.
class MxFp8Scales final : public BlockScales {
 public:
  using BlockScales::BlockScales;
  void use(Prelude& prelude) const override {
    for (const char* section : {"byte_type", "e4m3_to_bf16", "ue8m0_value"}) prelude.use(section);
  }
  void add_texts(Holes& holes) const override {
    holes.text("math", "BF16");
    holes.text("piece", "uint4 x = load_shared_16(from + 16 * (first * kChunks + i));");
    holes.text("no_piece", "make_uint4(0, 0, 0, 0)").text("scale_of_chunk", "c / 2");
    holes.text("scale", "const float scale = ue8m0_value(__byte_perm(word, 0, 0x4440 | c / 2 % 4));");
    holes.text("store_pieces",
               "store_shared_16(at + chunk, eight_to_bf16(x.x, x.y, scale));\n"
               "store_shared_16(at + (chunk ^ 16), eight_to_bf16(x.z, x.w, scale));");
  }
};

/// E2M1, an E4M3 for 16 columns, a factor for all of K and of V: FP16, the factors with scores and O.
class NvFp4Scales final : public BlockScales {
 public:
  using BlockScales::BlockScales;
  void add_params(std::vector<KernelParam>& params) const override {
    BlockScales::add_params(params);
    params.push_back({KernelParam::Kind::pointer, "kv_factors", {}});
  }
  void use(Prelude& prelude) const override {
    for (const char* section : {"byte_type", "e4m3_to_fp16", "e2m1_to_fp16"}) prelude.use(section);
  }
  void add_texts(Holes& holes) const override {
    holes.text("math", "FP16");
    holes.text("piece", "uint2 x = load_shared_8(from + 8 * (first * kChunks + i));");
    holes.text("no_piece", "make_uint2(0, 0)").text("scale_of_chunk", "c");
    holes.text("scale",
               "const u32 scale = narrow_to_fp16(__byte_perm(word, 0, 0x4400 | c % 4 * 0x11));  // twice");
    holes.text("store_pieces",
               "store_shared_16(at + chunk, eight_to_fp16(x.x, scale));\n"
               "store_shared_16(at + (chunk ^ 16), eight_to_fp16(x.y, scale));");
  }
  void emit_item(Writer& w) const override {
    w.line("const float key_scale = kv_factors[0], value_scale = kv_factors[1];");
  }
  const char* scores() const override { return "head_scores"; }
  const char* value_factor() const override { return "value_scale * "; }
  const char* value_scale() const override { return "value_scale"; }
};

/// The most bytes that a load of scales of a row may have, where rows follow one another.
int load_width(int bytes) {
  return std::gcd(bytes, 4);
}

/// Page of this thread's key of tile `n`.
std::string BlockScales::look_up(const std::string& n) const {
  const OperandConfig& operand = *p_.config.operand;
  const std::string key = fmt::format("{} * {} + thread", n, p_.BN);
  const std::string column =
      operand_form(operand.kind).block() ? "" : fmt::format(" + ({}) / {}", key, *operand.page_size);
  return fmt::format(
      "{} < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride{}] : num_pages", key,
      column);
}

void BlockScales::emit_load_row(Writer& w, const char* name, int bytes) const {
  w.line("load_scale_bytes<{}, {}>(next_{}_scales, {}, there);", bytes, load_width(bytes), name,
         scales_of_key(*p_.config.operand, name, {"s.batch", "s.kv_head", "s.sequence.k_start"}, bytes));
}

void BlockScales::emit_load_first(Writer& w) const {
  w.comment("scales of this thread's key of the next tile: on their way while one is converted");
  w.line("u32 {};", words("next_"));
  w.open("const auto load_scales = [&](int n{})", table() ? ", int page" : "");
  w.line("const int key = n * {} + thread;", p_.BN);
  w.line("const bool there = key < s.sequence.seqlen_k{};", table() ? " && (u32)page < (u32)num_pages" : "");
  emit_load_row(w, "k", p_.scale_bytes(true));
  emit_load_row(w, "v", p_.scale_bytes(false));
  w.close(";");
  if (!table()) return w.line("load_scales(s.tile_begin);");
  w.line("const auto look_up = [&](int n) {{ return {}; }};", look_up("n"));
  w.line("load_scales(s.tile_begin, look_up(s.tile_begin));");
  w.line("int next_page = look_up(s.tile_begin + 1);  // of its key of the tile after that");
}

void BlockScales::emit_load_ahead(Writer& w) const {
  w.line("u32 {};", words(""));
  for (const char* name : {"k", "v"}) {
    const int count = ceil_div(p_.scale_bytes(*name == 'k'), 4);
    for (int i = 0; i < count; ++i) w.line("{0}_scales[{1}] = next_{0}_scales[{1}];", name, i);
  }
  w.line("load_scales(n + 1{});", table() ? ", next_page" : "");
  if (table()) w.line("next_page = look_up(n + 2);");
}

}  // namespace

std::unique_ptr<const KeyScales> block_scales(const DecodePlan& p) {
  if (p.numbers > 1) return std::make_unique<NvFp4Scales>(p);
  return std::make_unique<MxFp8Scales>(p);
}

}  // namespace kiln::sm100
