#include "generator/systems/sm90/mha_operand.hpp"

#include <bit>

#include "generator/emit/terms.hpp"
#include "generator/operands/operand_form.hpp"

namespace kiln::sm90 {

TensorMapSpec MHAOperand::map(int panel_columns, int span_bytes, int l2_promotion_bytes, int fold) const {
  TensorMapSpec map;
  if (gathers()) {
    map.dims = {{"depth", panel_columns}, {"gathered", 1}};
  } else if (inner(fold) > 1) {
    map.dims = {
        {"depth", panel_columns}, {"row", 8}, {"panel", fold}, {"eight", eff_page() / 8}, {"head", 1}};
  } else {
    map.dims = {{"depth", panel_columns}, {"seq", eff_page()}, {"head", 1}, {table() ? "page" : "batch", 1}};
    if (fold > 1) map.dims.insert(map.dims.begin() + 2, {"panel", fold});
  }
  map.swizzle_bytes = span_bytes;
  map.l2_promotion_bytes = l2_promotion_bytes;
  return map;
}

int MHAOperand::fold(const Config& config, int element_bytes, int span_bytes, int columns, int depth) const {
  if (chunk_inner_ ? num_pages() == 1 : config.tma_fold != "chunk_outer") return 1;
  return kv_tma_fold_chunks(element_bytes, span_bytes, columns, depth, eff_page(), BN_, paged_rows(),
                            chunk_inner_);
}

void resolve_fold(Config& config, int k_fold, int v_fold, const char* read_by_threads,
                  const Refusals& refuse) {
  if (config.tma_fold == "chunk_inner" && k_fold == 1 && v_fold == 1) {
    if (read_by_threads != nullptr) return refuse("V18", {"/tma_fold"}, read_by_threads, "none");
    refuse(
        "V18", {"/tma_fold", "/operand/page_size"},
        "a box holds whole rows of at least two swizzle panels, eight rows of each in turn, of a page shorter than "
        "the tile",
        "none, chunk_outer");
  } else if (config.tma_fold == "chunk_inner") {
    return;
  } else if (config.tma_fold == "chunk_outer" && k_fold == 1 && v_fold == 1) {
    refuse("V19", {"/tma_fold"},
           "a box holds whole rows of at least two swizzle panels, and all keys of a tile", "none");
  } else if (config.tma_fold != "chunk_outer") {
    config.tma_fold = "none";
  }
}

TensorMapSpec MHAOperand::scale_map() const {
  TensorMapSpec map;
  map.dims = {{"seq", eff_page()}, {"head", 1}, {table() ? "page" : "batch", 1}};
  map.l2_promotion_bytes = 128;
  return map;
}

void MHAOperand::emit_copy_scales(Writer& w, const std::string& n, const ScaleTile& to) const {
  // Pieces of 16 keys and more: no tile has more of them than a warp has lanes.
  const std::string piece = num_pages() > 1 ? fmt::format(" + lane * {}", scale_piece_bytes()) : "";
  w.line("tma_load({}{}, &{}_scale_map, {}, {}, {});", to.at, piece, to.name, to.barrier, coordinates(n, 0),
         to.policy);
}

std::vector<KernelParam> MHAOperand::params(int k_fold, int v_fold) const {
  if (!table()) return {};
  std::vector<KernelParam> params{{KernelParam::Kind::pointer, "page_table", {}},
                                  {KernelParam::Kind::i32, "page_table_stride", {}},
                                  {KernelParam::Kind::i32, "num_pages", {}}};
  if (inner(k_fold) > 1) params.push_back({KernelParam::Kind::i32, "k_page_eights", {}});
  if (inner(v_fold) > 1) params.push_back({KernelParam::Kind::i32, "v_page_eights", {}});
  for (const std::string& tensor : gathered_) {
    if (page_size_ > 1)
      for (const char* distance : {"_page_rows", "_token_rows"})
        params.push_back({KernelParam::Kind::i32, tensor + distance, {}});
    params.push_back({KernelParam::Kind::i32, tensor + "_head_columns", {}});
  }
  return params;
}

std::string MHAOperand::by_page(const std::string& row, char operation) const {
  // Rows are not below 0: without a sign it takes half the instructions, and registers that page sizes of 15 lacked.
  if (std::has_single_bit(static_cast<unsigned>(page_size_)))
    return fmt::format("{} {} {}", row, operation, page_size_);
  return fmt::format("(int)((u32){} {} {}u)", row, operation, page_size_);
}

void MHAOperand::emit_populate(Writer& w, const std::string& n) const {
  if (!table()) return;
  const std::string row_of_table = fmt::format("(long long){} * page_table_stride", names_.batch);
  if (operand_form(kind_).block()) {
    w.line("const int page = {} * {} < {} ? page_table[{}] : num_pages;", n, BN_, names_.seqlen_k,
           row_of_table);
    return;
  }
  if (gathers()) return emit_gathered_populate(w, n);
  for (int round = 0; round < rounds(); ++round) {
    const std::string suffix = round == 0 ? "" : fmt::format("_{}", round);
    const std::string lane = round == 0 ? "lane" : fmt::format("(lane + {})", 32 * round);
    const std::string piece = num_pages() == 1 ? "" : fmt::format(" + {} * {}", lane, eff_page());
    w.line("const int row{} = {} * {}{};", suffix, n, BN_, piece);
    const std::string issued = num_pages() > 1 && !issues(round).empty() ? issues(round) + " && " : "";
    w.line("const int page{0} = {1}row{0} < {2} ? page_table[{3} + {4}] : num_pages;", suffix, issued,
           names_.seqlen_k, row_of_table, by_page("row" + suffix, '/'));
  }
}

void MHAOperand::emit_look_up(Writer& w, const char* into, const std::string& n) const {
  w.line("const int key = {} * {} + lane * {};", n, BN_, BN_ / num_pages());
  w.line("{} = key < {} ? page_table[(long long){} * page_table_stride + {}] : num_pages;", into,
         names_.seqlen_k, names_.batch, by_page("key", '/'));
}

void MHAOperand::emit_populate_first(Writer& w, const std::string& n) const {
  if (!looks_ahead()) return emit_populate(w, n);
  w.line("int pages;  // of the first {} tiles, one a lane", 32 / num_pages());
  emit_look_up(w, "pages", n);
  emit_page_of(w, n, num_pages() == 1 ? "0" : "lane");
}

void MHAOperand::emit_lookup(Writer& w, const std::string& first) const {
  if (gathers()) return emit_gathered_first(w, first);
  if (!looks_ahead()) return;
  w.line("int pages, next_pages;  // of {} tiles, one a lane, and of as many after them", 32 / num_pages());
  w.open("");
  emit_look_up(w, "next_pages", first);
  w.close();
}

void MHAOperand::emit_populate_ahead(Writer& w, const std::string& n, const std::string& first) const {
  if (gathers()) return emit_gathered_ahead(w, n);
  if (!looks_ahead()) return emit_populate(w, n);
  const int tiles = 32 / num_pages();
  w.line("const int turn = ({} - {}) % {};", n, first, tiles);
  w.open("if (turn == 0)");
  w.line("pages = next_pages;");
  emit_look_up(w, "next_pages", fmt::format("({} + {})", n, tiles));
  w.close();
  emit_page_of(w, n, num_pages() == 1 ? "turn" : fmt::format("turn * {} + lane", num_pages()));
}

void MHAOperand::emit_page_of(Writer& w, const std::string& n, const std::string& from) const {
  if (eff_page() != page_size_)
    w.line("const int row = {} * {}{};", n, BN_,
           num_pages() == 1 ? "" : fmt::format(" + lane * {}", eff_page()));
  w.line("const int page = __shfl_sync(0xffffffffu, pages, {});", from);
}

std::string MHAOperand::coordinates(const std::string& n, int round) const {
  const std::string suffix = round == 0 ? "" : fmt::format("_{}", round);
  switch (operand_form(kind_).keys) {
    case OperandForm::Keys::by_batch:
      return fmt::format("{} * {}, {}, {}", n, BN_, names_.kv_head, names_.batch);
    case OperandForm::Keys::by_start:
      return fmt::format("{} + {} * {}, {}, 0", names_.k_start, n, BN_, names_.kv_head);
    case OperandForm::Keys::in_block:
      return fmt::format("{} * {}, {}, page", n, BN_, names_.kv_head);
    case OperandForm::Keys::in_pages:
      if (eff_page() == page_size_) return fmt::format("0, {}, page{}", names_.kv_head, suffix);
      return fmt::format("{}, {}, page{}", by_page("row" + suffix, '%'), names_.kv_head, suffix);
  }
  return {};
}

std::string MHAOperand::copy(const std::string& to, const std::string& tensor, const std::string& barrier,
                             const std::string& column, const std::string& n, int round, const char* policy,
                             Counted counted) const {
  const char* const pair = counted == Counted::by_pair ? "_pair" : "";
  if (gathers())
    return fmt::format("tma_gather4{}({}, &{}_map, {}, {}{}_column, {}_rows, {});", pair, to, tensor, barrier,
                       column == "0" ? "" : column + " + ", tensor, tensor, policy);
  return fmt::format("tma_load{}({}, &{}_map, {}, {}, {}, {});", pair, to, tensor, barrier, column,
                     coordinates(n, round), policy);
}

std::string MHAOperand::box_coordinates(const char* tensor, const std::string& n, int round, int panel,
                                        int panel_columns, int fold) const {
  if (inner(fold) > 1) {
    const std::string suffix = round == 0 ? "" : fmt::format("_{}", round);
    const std::string row =
        eff_page() == page_size_ ? "" : fmt::format(" + {} / 8", by_page("row" + suffix, '%'));
    // What is no page becomes the one after the last: the product would wrap and find another.
    return fmt::format("0, 0, {}, (int)min((u32)page{}, (u32)num_pages) * {}_page_eights{}, {}", panel,
                       suffix, tensor, row, names_.kv_head);
  }
  std::string rows = coordinates(n, round);
  if (fold == 1) return fmt::format("{}, {}", panel * panel_columns, rows);
  const std::size_t row_end = rows.find(',');
  return fmt::format("0, {}, {}{}", rows.substr(0, row_end), panel, rows.substr(row_end));
}

std::string MHAOperand::issues(int round) const {
  const int pieces = num_pages() - 32 * round;
  if (num_pages() == 1) return "lane == 0";
  return pieces >= 32 ? "" : fmt::format("lane < {}", pieces);
}

void MHAOperand::emit_boxes(Writer& w, int round, const std::vector<std::string>& lines) const {
  const std::string condition = issues(round);
  if (!condition.empty()) w.open("if ({})", condition);
  for (const std::string& line : lines) w.line("{}", line);
  if (!condition.empty()) w.close();
}

void MHAOperand::emit_load_scales(Writer& w, const std::string& n, const ScaleSlot& to) const {
  const std::string& name = to.tensor;
  for (int i = 0; i < BN_ / 32; ++i) {
    w.open("");
    w.line("const int key = {} * {} + {} + lane;", n, BN_, 32 * i);
    std::string at, page = "page";
    if (operand_form(kind_).ragged_k()) {
      at = fmt::format("(long long)({} + key)", names_.k_start);
    } else if (operand_form(kind_).pages()) {
      at = fmt::format("(long long)({})", by_page("key", '%'));
    } else {
      at = "(long long)key";
    }
    if (gathers()) {
      emit_gathered_page(w, 32 * i);
      page = "key_page";
    } else if (num_pages() > 1) {
      const int round = 32 * i / eff_page() / 32;
      w.line("const int key_page = __shfl_sync(0xffffffffu, page{}, ({} + lane) / {} % 32);",
             round == 0 ? "" : fmt::format("_{}", round), 32 * i, eff_page());
      page = "key_page";
    }
    at += to.by_head ? fmt::format(" + {} * {}_scale_stride_head", names_.kv_head, name)
                     : fmt::format(" * {} + {}", names_.heads_kv, names_.kv_head);
    if (to.groups > 1) at = fmt::format("{} * {}", factor(at), to.groups);
    if (operand_form(kind_).batch_keys())
      at += fmt::format(" + {} * {}_scale_stride_batch", names_.batch, name);
    std::string there = fmt::format("key < {}", names_.seqlen_k);
    if (table()) {
      at += fmt::format(" + {} * {}_scale_stride_page", page, name);
      // A page that does not exist has no scales, either.
      w.line("const bool there = {} && (u32){} < (u32)num_pages;", there, page);
      there = "there";
    }
    const int slot_bytes = to.slot_bytes > 0 ? to.slot_bytes : 4 * BN_ * to.groups;
    if (to.by_loop && to.groups > 1) {
      w.line("const float* const from = {}_scale + ({} ? {} : 0);", name, there, at);
      w.line("#pragma unroll 1");
      w.line(
          "for (int g = 0; g < {}; ++g) copy_async_4(smem + {} + {} * {} + {} * g + 4 * lane, from + g, {} ? 4 : 0);",
          to.groups, to.offset + 128 * i, to.stage, slot_bytes, 4 * BN_, there);
      w.close();
      continue;
    }
    for (int group = 0; group < to.groups; ++group) {
      w.line("copy_async_4(smem + {} + {} * {} + 4 * lane, {}_scale + ({} ? {}{} : 0), {} ? 4 : 0);",
             to.offset + 4 * BN_ * group + 128 * i, to.stage, slot_bytes, name, there, at,
             group > 0 ? fmt::format(" + {}", group) : "", there);
    }
    w.close();
  }
}

nlohmann::ordered_json MHAOperand::constants(int element_bytes, int swizzle_bytes, int depth,
                                             int fold_chunks) const {
  nlohmann::ordered_json out = sub_tile_constants(BN_, paged_rows(), eff_page());
  out["chunk"] = 1;  // table entries of one load of a lane
  out["swizzle_granularity"] = swizzle_granularity(element_bytes, swizzle_bytes);
  out["fold_chunks"] = fold_chunks;
  out["padded_depth"] = padded_depth(element_bytes, swizzle_bytes, depth);
  return out;
}

}  // namespace kiln::sm90
