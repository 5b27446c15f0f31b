// create_gather4_tma_tile and its rotary form: rows of a paged operand by their numbers, four an instruction (sm_100a). A lane
// has keys 4 * lane to 4 * lane + 3 of every tile, and looks their pages up itself: one entry of the page table where a page
// holds whole fours, two where it holds pairs, else four.
#include "generator/systems/sm90/mha_operand.hpp"

namespace kiln::sm90 {

int MHAOperand::entries() const {
  return page_size_ % 4 == 0 ? 1 : page_size_ % 2 == 0 ? 2 : 4;
}

std::string MHAOperand::entry_names(const char* prefix) const {
  std::string names;
  for (int i = 0; i < entries(); ++i) names += fmt::format("{}{}{}", i > 0 ? ", " : "", prefix, i);
  return names;
}

std::string MHAOperand::entry_of(int i, const std::string& first_key) const {
  const int offset = i * kGathered / entries();
  const std::string key = offset > 0 ? fmt::format("{} + {}", first_key, offset) : first_key;
  const bool sum = key.find(' ') != std::string::npos;
  const std::string entry = page_size_ == 1 ? key : by_page(sum ? "(" + key + ")" : key, '/');
  return fmt::format("{} < {} ? page_table[(long long){} * page_table_stride + {}] : num_pages", key,
                     names_.seqlen_k, names_.batch, entry);
}

void MHAOperand::emit_first_key(Writer& w, const std::string& n) const {
  w.line("const int first_key = {} * {} + lane * {};  // of the four that this lane brings", n, BN_,
         kGathered);
}

/// Where on their pages the rows are.
void MHAOperand::emit_places(Writer& w) const {
  const int rows = kGathered / entries();
  if (page_size_ == rows) return;  // 0
  for (int i = 0; i < entries(); ++i)
    w.line("const int at_{} = {};", i,
           by_page(i > 0 ? fmt::format("(first_key + {})", i * rows) : "first_key", '%'));
}

void MHAOperand::emit_gathered_populate(Writer& w, const std::string& n) const {
  emit_first_key(w, n);
  for (int i = 0; i < entries(); ++i) w.line("const int page_{} = {};", i, entry_of(i, "first_key"));
  emit_places(w);
}

void MHAOperand::emit_gathered_first(Writer& w, const std::string& first) const {
  w.line("int {};  // pages of this lane's rows of the next tile", entry_names("next_page_"));
  w.open("");
  emit_first_key(w, first);
  for (int i = 0; i < entries(); ++i) w.line("next_page_{} = {};", i, entry_of(i, "first_key"));
  w.close();
}

void MHAOperand::emit_gathered_ahead(Writer& w, const std::string& n) const {
  emit_first_key(w, n);
  for (int i = 0; i < entries(); ++i) w.line("const int page_{0} = next_page_{0};", i);
  for (int i = 0; i < entries(); ++i)
    w.line("next_page_{} = {};", i, entry_of(i, fmt::format("first_key + {}", BN_)));
  emit_places(w);
}

void MHAOperand::use_copies(Prelude& prelude, Counted counted) const {
  const std::string copy = gathers() ? "tma_gather4" : "tma_load";
  prelude.use(counted == Counted::by_pair ? copy + "_pair" : copy);
  if (gathers() && page_size_ > 1) prelude.use("pool_row");
}

void MHAOperand::emit_rows(Writer& w, const std::string& tensor, int k_bytes, int tail_bytes) const {
  if (!gathers()) return;
  if (tail_bytes > 0) {
    w.line("const int {}_column = {};", tensor,
           k_bytes == tail_bytes ? "k_column" : fmt::format("k_column / {}", tail_bytes / k_bytes));
    w.line("const int4 {}_rows = k_rows;", tensor);
    return;
  }
  w.line("const int {0}_column = {1} * {0}_head_columns;", tensor, names_.kv_head);
  if (page_size_ == 1) return w.line("const int4 {}_rows = make_int4({});", tensor, entry_names("page_"));
  std::string rows;
  const int per_entry = kGathered / entries();
  for (int i = 0; i < kGathered; ++i) {
    const int next = i % per_entry;
    const std::string step = tensor + "_token_rows";
    std::string at = next == 0 ? "0" : next == 1 ? step : fmt::format("{} * {}", next, step);
    if (page_size_ != per_entry)
      at = next > 0 ? fmt::format("(at_{} + {}) * {}", i / per_entry, next, step)
                    : fmt::format("at_{} * {}", i / per_entry, step);
    rows += fmt::format("{}pool_row(page_{}, num_pages, {}_page_rows, {})", i > 0 ? ", " : "", i / per_entry,
                        tensor, at);
  }
  w.line("const int4 {}_rows = make_int4({});", tensor, rows);
}

nlohmann::ordered_json MHAOperand::gather_constants(int element_bytes, int swizzle_bytes, int columns,
                                                    int box_columns) const {
  const int width =
      swizzle_bytes == 0 ? box_columns : gather4_box_width(element_bytes, swizzle_bytes, columns);
  return {{"box_width", width}, {"issues", gather4_issues(BN_, columns, width)}};
}

/// The page of each lane's key of 32 from `first` on, which another lane has looked up.
void MHAOperand::emit_gathered_page(Writer& w, int first) const {
  for (int i = 0; i < entries(); ++i)
    w.line("const int of_{0} = __shfl_sync(0xffffffffu, page_{0}, ({1} + lane) / {2} % 32);", i, first,
           kGathered);
  std::string choice = fmt::format("of_{}", entries() - 1);
  for (int i = entries() - 2; i >= 0; --i)
    choice =
        fmt::format("lane % {} < {} ? of_{} : {}", kGathered, (i + 1) * kGathered / entries(), i, choice);
  w.line("const int key_page = {};", choice);
}

}  // namespace kiln::sm90
