#include "generator/systems/cdna/widening_copy.hpp"

#include <algorithm>

namespace kiln::cdna {

void WideningCopy::use(Prelude& prelude) const {
  prelude.use(shape_.type == DType::bf16 ? "widen_bf16" : "widen_fp16");
  prelude.use("lds_write_16");
}

void WideningCopy::emit_construct(Writer& w, int base, const std::string& first, const std::string& row_bytes,
                                  const std::string& rows, const std::string& first_row) const {
  const std::string& n = shape_.name;
  const int per_row = chunks_per_row(), apart = shape_.num_threads / per_row;
  w.comment("{}: {} rows of {} bytes a strip, 16 to a thread and load, {} in LDS", n == "k" ? "K" : "V",
            shape_.strip.rows, shape_.strip.cols, to_string(shape_.type));
  w.line("const u8* const {0}_bytes = (const u8*)({1}) + thread % {2} * 16;", n, first, per_row);
  w.line("const long long {}_row_bytes = {};", n, row_bytes);
  w.line("const int {0}_keys = {1}, {0}_own = thread / {2};", n, rows, per_row);
  w.line("int {}_row = {};  // first key of the next strip", n, first_row);
  for (int i = 0; i < per_thread(); ++i) {
    const std::string row = i == 0 ? n + "_own" : fmt::format("({}_own + {})", n, i * apart);
    w.line("const u32 {0}_vector_{1} = {2} * {3} + thread % {4} * 2;", n, i, row,
           shape_.strip.vectors_per_row(), per_row);
    w.line("const u32 {0}_put_{1} = {2} + {3} * 16;", n, i, base,
           swizzled_expression(shape_.strip.swizzle, fmt::format("{}_vector_{}", n, i)));
  }
  w.line("u32x4 {}_stored[{}];", n, per_thread());
}

void WideningCopy::emit_load(Writer& w, int strip) const {
  const std::string& n = shape_.name;
  const int apart = shape_.num_threads / chunks_per_row();
  w.open("");
  w.comment("load_{}{}", n, shape_.strips > 1 ? fmt::format(", strip {}", strip) : "");
  const std::string column = strip == 0 ? "" : fmt::format(" + {}", strip * shape_.strip.cols);
  for (int i = 0; i < per_thread(); ++i) {
    w.open("");
    w.line("const int row = {0}_row + {0}_own{1};", n, i == 0 ? "" : fmt::format(" + {}", i * apart));
    std::string in = fmt::format("row < {}_keys", n);
    if (guarded()) in += fmt::format(" && thread < {}", chunks() - i * shape_.num_threads);
    if (shape_.page_size > 0) {
      w.line("const int page = {} ? pages[(u32)row / {}u] : num_pages;", in, shape_.page_size);
      w.comment("rows past the sequence, and pages that do not exist, are zeros");
      w.line(
          "{0}_stored[{1}] = (u32)page < (u32)num_pages ? load_bytes_16({0}_bytes + page * {0}_stride_page + "
          "(u32)row "
          "% {2}u * {0}_row_bytes{3}) : (u32x4)(0u);",
          n, i, shape_.page_size, column);
    } else {
      w.line("{0}_stored[{1}] = {2} ? load_bytes_16({0}_bytes + row * {0}_row_bytes{3}) : (u32x4)(0u);", n, i,
             in, column);
    }
    w.close();
  }
  if (strip + 1 == shape_.strips) w.line("{}_row += {};", n, shape_.strip.rows);
  w.close();
}

void WideningCopy::emit_store(Writer& w) const {
  const std::string& n = shape_.name;
  const char* widen = shape_.type == DType::bf16 ? "widen_bf16" : "widen_fp16";
  for (int i = 0; i < per_thread(); ++i) {
    if (guarded()) w.open("if (thread < {})", chunks() - i * shape_.num_threads);
    for (int half = 0; half < 2; ++half) {
      w.line("lds_write_16(lds + {4}{0}_put_{1}{5}, {2}({0}_stored[{1}].{3}));", n, i, widen,
             half == 0 ? "lo" : "hi", half == 0 ? "" : "(", half == 0 ? "" : " ^ 16u)");
    }
    if (guarded()) w.close();
  }
}

layout::Proof WideningCopy::proof() const {
  const LdsTile& tile = shape_.strip;
  std::vector<std::uint32_t> written;
  bool holds = tile.blocks() == 1 && (guarded() || chunks() % chunks_per_row() == 0);
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    const int row = chunk / chunks_per_row(), col = chunk % chunks_per_row() * 16;
    const auto vector = static_cast<std::uint32_t>(row * tile.vectors_per_row() + col / 8);
    const std::uint32_t put = tile.swizzle(vector) * 16;
    holds = holds && put == tile.byte(row, col) && (put ^ 16U) == tile.byte(row, col + 8);
    written.push_back(put), written.push_back(put ^ 16U);
  }
  std::sort(written.begin(), written.end());
  holds = holds && std::adjacent_find(written.begin(), written.end()) == written.end();
  return {(shape_.name == "k" ? "K" : "V") + std::string(" strip: widening copy"), holds, 0};
}

}  // namespace kiln::cdna
