#include "generator/systems/mha_operand.hpp"

#include <numeric>

#include "generator/emit/terms.hpp"
#include "generator/operands/operand_form.hpp"

namespace kiln {

MHAOperand::MHAOperand(OperandKind kind, int page_size, int tile_rows)
    : kind_(kind),
      page_size_(page_size),
      tile_rows_(tile_rows),
      chunk_rows_(operand_form(kind).pages() ? std::gcd(page_size, tile_rows) : tile_rows) {}

std::vector<KernelParam> MHAOperand::params() const {
  using Kind = KernelParam::Kind;
  std::vector<KernelParam> out;
  if (table()) {
    out.push_back({Kind::pointer, "page_table", {}});
    out.push_back({Kind::i32, "page_table_stride", {}});
    out.push_back({Kind::i32, "num_pages", {}});
  }
  const char* first = table() ? "page" : operand_form(kind_).batch_keys() ? "batch" : "";
  for (const char* tensor : {"k", "v"}) out.push_back({Kind::pointer, tensor, {}});
  for (const char* tensor : {"k", "v"}) {
    for (const char* axis : {first, "seq", "head"}) {
      if (*axis != '\0') out.push_back({Kind::i64, fmt::format("{}_stride_{}", tensor, axis), {}});
    }
  }
  return out;
}

std::string MHAOperand::base(const std::string& name, const std::string& batch, const std::string& k_start,
                             const std::string& kv_head, const std::string& column) const {
  std::string out = fmt::format("{0} + {1} * {0}_stride_head", name, kv_head);
  if (operand_form(kind_).batch_keys()) out += fmt::format(" + {} * {}_stride_batch", batch, name);
  if (operand_form(kind_).ragged_k()) out += fmt::format(" + {} * {}_stride_seq", k_start, name);
  return out + (column.empty() ? "" : " + " + column);
}

void MHAOperand::emit_functions(Writer& w) const {
  if (!table()) return;
  w.comment("Page of a row, -1 where the table names none of the pool: such rows read as zeros.");
  w.open(
      "__device__ __forceinline__ int page_of(const int* page_table, int page_table_stride, int num_pages, "
      "int batch, int row)");
  w.line("const int page = page_table[(long long)batch * page_table_stride{}];",
         paged() ? fmt::format(" + row / {}", page_size_) : "");
  w.line("return (unsigned)page < (unsigned)num_pages ? page : -1;");
  w.close();
  w.blank();
}

std::string MHAOperand::populate(const std::string& batch, const std::string& first_row,
                                 const std::string& chunk, const std::string& length) const {
  if (!table()) return "0";
  if (chunks() == 1) {
    return fmt::format("{0} < {1} ? page_of(page_table, page_table_stride, num_pages, {2}, {0}) : -1",
                       first_row, length, batch);
  }
  const std::string row = fmt::format("{} + {} * {}", first_row, chunk, chunk_rows_);
  return fmt::format(
      "{3} < {4} && {0} < {1} ? page_of(page_table, page_table_stride, num_pages, {2}, {0}) : -1", row,
      length, batch, chunk, chunks());
}

std::string MHAOperand::row_in_page(const std::string& row) const {
  if (!paged()) return row;
  return page_size_ == 1 ? "0" : fmt::format("{} % {}", factor(row), page_size_);
}

std::string MHAOperand::row_offset(const std::string& name, const std::string& page,
                                   const std::string& row) const {
  const std::string in_page = row_in_page(row);
  const std::string rows = in_page == "0" ? "" : fmt::format("{} * {}_stride_seq", factor(in_page), name);
  if (!table()) return rows;
  return fmt::format("{} * {}_stride_page{}", page, name, rows.empty() ? "" : " + " + rows);
}

nlohmann::ordered_json MHAOperand::constants(int BN, int element_bytes, int depth) const {
  const int P = paged() ? page_size_ : 0;
  nlohmann::ordered_json out = sub_tile_constants(BN, P, kv_sub_tile_rows(BN, P));
  out["chunk_rows"] = chunk_rows();
  out["num_chunks"] = chunks();
  out["chunk"] = 1;  // table entries of one load of a lane
  out["row_bytes"] = depth * element_bytes;
  return out;
}

}  // namespace kiln
