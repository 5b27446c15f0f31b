#include "generator/systems/sm90/mha_operand.hpp"

namespace kiln::sm90 {

TensorMapSpec MHAOperand::map(int panel_columns, int span_bytes, int l2_promotion_bytes) const {
  TensorMapSpec map;
  map.dims = {{"depth", panel_columns}, {"seq", eff_page()}, {"head", 1}, {table() ? "page" : "batch", 1}};
  map.swizzle_bytes = span_bytes;
  map.l2_promotion_bytes = l2_promotion_bytes;
  return map;
}

std::vector<KernelParam> MHAOperand::params() const {
  if (!table()) return {};
  return {{KernelParam::Kind::pointer, "page_table", {}},
          {KernelParam::Kind::i32, "page_table_stride", {}},
          {KernelParam::Kind::i32, "num_pages", {}}};
}

void MHAOperand::emit_populate(Writer& w, const std::string& n) const {
  if (!table()) return;
  for (int round = 0; round < rounds(); ++round) {
    const std::string suffix = round == 0 ? "" : fmt::format("_{}", round);
    if (kind_ == OperandKind::continuous) {
      w.line(
          "const int page = {} * {} < s.sequence.seqlen_k ? page_table[s.batch * page_table_stride] : "
          "num_pages;",
          n, BN_);
      continue;
    }
    const std::string row = num_pages() == 1
                                ? fmt::format("{} * {}", n, BN_)
                                : fmt::format("{} * {} + (lane{}) * {}", n, BN_,
                                              round == 0 ? "" : fmt::format(" + {}", 32 * round), page_size_);
    w.line("const int row{} = {};", suffix, row);
    const std::string idle = num_pages() > 1 && num_pages() % 32 != 0 && round + 1 == rounds()
                                 ? fmt::format("{} && ", issues(round))
                                 : "";
    w.line(
        "const int page{0} = {3}row{0} < s.sequence.seqlen_k ? page_table[(long long)s.batch * "
        "page_table_stride + row{0} / {1}] : {2};",
        suffix, page_size_, "num_pages", idle);
  }
}

std::string MHAOperand::coordinates(const std::string& n, int round) const {
  const std::string suffix = round == 0 ? "" : fmt::format("_{}", round);
  switch (kind_) {
    case OperandKind::contiguous:
      return fmt::format("{} * {}, s.kv_head, s.batch", n, BN_);
    case OperandKind::ragged:
      return fmt::format("s.sequence.k_start + {} * {}, s.kv_head, 0", n, BN_);
    case OperandKind::continuous:
      return fmt::format("{} * {}, s.kv_head, page", n, BN_);
    case OperandKind::paged:
      if (num_pages() > 1) return fmt::format("0, s.kv_head, page{}", suffix);
      return page_size_ == BN_ ? "0, s.kv_head, page" : fmt::format("row % {}, s.kv_head, page", page_size_);
  }
  return {};
}

std::string MHAOperand::issues(int round) const {
  const int pieces = num_pages() - 32 * round;
  if (num_pages() == 1) return "lane == 0";
  return pieces >= 32 ? "" : fmt::format("lane < {}", pieces);
}

nlohmann::ordered_json MHAOperand::constants(int element_bytes, int swizzle_bytes, int depth) const {
  return {{"page_size", paged_rows()},
          {"eff_page", eff_page()},
          {"num_pages", num_pages()},
          {"kv_sub_tile_rows", eff_page()},
          {"kv_num_sub_tiles", num_pages()},
          {"swizzle_granularity", swizzle_granularity(element_bytes, swizzle_bytes)},
          {"padded_depth", padded_depth(element_bytes, swizzle_bytes, depth)}};
}

}  // namespace kiln::sm90
