#include "generator/systems/cdna/reg_staged_copy.hpp"
#include "generator/emit/terms.hpp"

#include <algorithm>

namespace kiln::cdna {

int RegStagedCopy::piece_bytes() const {
  const LdsTile& stage = shape_.stage;
  const int pieces = stage.rows * stage.blocks() * stage.block_cols / 16;
  return shape_.widens && pieces <= shape_.num_threads - 64 ? 8 : 16;
}

void RegStagedCopy::use(Prelude& prelude) const {
  const bool half = piece_bytes() == 8;
  if (shape_.page_size > 0) {
    prelude.use(half ? "load_bytes_8" : "load_bytes");
  } else {
    prelude.use("buffer_resource");
    prelude.use(half ? "buffer_load_8" : "buffer_load");
  }
  if (shape_.widens) {
    const bool integer = shape_.stored == DType::int8;
    const bool at_once = integer && shape_.type == DType::fp16 && !scaled();
    if (!at_once) prelude.use(integer ? "unpack_int8" : shape_.by_hand ? "unpack_fp8_by_hand" : "unpack_fp8");
    prelude.use(fmt::format("widen_{}{}",
                            scaled()  ? "scaled_"
                            : at_once ? "int8_"
                                      : "",
                            shape_.type == DType::bf16 ? "bf16" : "fp16"));
  }
  prelude.use("lds_write_16");
}

void RegStagedCopy::emit_construct(Writer& w, int base, const std::string& first,
                                   const std::string& row_bytes, const std::string& rows,
                                   const std::string& first_row) const {
  const std::string& n = shape_.name;
  const LdsTile& stage = shape_.stage;
  w.comment("{}: {} x {} a load by way of registers, {} rows of {} threads, {} bytes to a thread",
            n == "k" ? "K" : "V", stage.rows, shape_.row_columns, tr(), tc(), piece_bytes() * passes());
  const bool idle = shape_.num_threads % tc() != 0;
  w.line("const int {0}_own = {1}thread / {2}{3}, {0}_piece = thread % {2};", n,
         idle ? fmt::format("thread < {} ? ", tr() * tc()) : "", tc(),
         idle ? fmt::format(" : {}", stage.rows) : "");
  if (shape_.page_size > 0) {
    w.line("const u8* const {0}_bytes = (const u8*)({1}) + {0}_piece * {2};", n, first, piece_bytes());
    w.line("const long long {}_row_bytes = {};", n, row_bytes);
    w.line("const int {0}_keys = {1};", n, rows);
    w.line("int {}_row = {};  // first key of the next tile", n, first_row);
  } else {
    w.line("const int {}_row_bytes = (int){};", n, factor(row_bytes));
    w.line("const u8* {0}_next = (const u8*)({1}) + {2} * (long long){0}_row_bytes;", n, first, first_row);
    w.line("int {0}_rows = {1} - {2};", n, rows, first_row);
    w.line("const u32 {0}_from = {0}_own * {0}_row_bytes + {0}_piece * {1};", n, piece_bytes());
  }
  const int per_block = pieces_per_block(), per_row = stage.vectors_per_row();
  for (int i = 0; i < passes(); ++i) {
    const std::string row = i == 0 ? n + "_own" : fmt::format("({}_own + {})", n, i * tr());
    w.line("const u32 {0}_vector_{1} = {2} * {3} + {0}_piece % {4} * {5};", n, i, row, per_row, per_block,
           vectors_per_piece());
    w.line("const u32 {0}_put_{1} = {2} + {3}{4} * 16;", n, i, base,
           stage.blocks() > 1 ? fmt::format("{}_piece / {} * {} + ", n, per_block, stage.block_bytes()) : "",
           swizzled_expression(stage.of_units(), fmt::format("{}_vector_{}", n, i)));
  }
  w.line("u32x{} {}_stored[{}];", piece_bytes() / 4, n, passes());
  if (!scaled()) return;
  w.line("float {}_unit[{}];  // of the pieces", n, passes());
  if (shape_.page_size == 0)
    w.line("const float* {0}_scale_next = {0}_scale_head + {1} * (long long){0}_scale_step;", n, first_row);
}

std::string RegStagedCopy::scale_group(int strip) const {
  const int first = strip * shape_.row_columns, covers = shape_.scale_columns;
  if (first / covers == (first + shape_.row_columns - 1) / covers) return std::to_string(first / covers);
  const std::string column = fmt::format("{}_piece * {}", shape_.name, piece_columns());
  if (first % covers == 0) return fmt::format("{} + {} / {}", first / covers, column, covers);
  return fmt::format("({} + {}) / {}", first, column, covers);
}

bool RegStagedCopy::loads_scales(int strip) const {
  if (!scaled() || strip == 0) return scaled();
  const std::string group = scale_group(strip);
  return group.find('_') != std::string::npos || group != scale_group(strip - 1);
}

/// The page of each row is looked up by the threads that load it.
void RegStagedCopy::emit_load_paged(Writer& w, int pass, int strip, const std::string& column) const {
  const std::string& n = shape_.name;
  std::string in = fmt::format("row < {}_keys", n);
  if (idles(pass)) in += fmt::format(" && {}_own + {} < {}", n, pass * tr(), shape_.stage.rows);
  if (pads(strip)) in += fmt::format(" && {}_piece < {}", n, columns_of(strip) / piece_columns());
  w.open("");
  w.line("const int row = {0}_row + {0}_own{1};", n, pass == 0 ? "" : fmt::format(" + {}", pass * tr()));
  w.line("const int page = {} ? pages[(u32)row / {}u] : num_pages;", in, shape_.page_size);
  w.comment("rows past the sequence, and pages that do not exist, are zeros");
  std::string from =
      "page * " + factor(times(n + "_stride_page", shape_.widens ? 1 : shape_.stage.element_bytes));
  if (shape_.page_size > 1) from += fmt::format(" + (u32)row % {}u * {}_row_bytes", shape_.page_size, n);
  w.line("{0}_stored[{1}] = (u32)page < (u32)num_pages ? load_bytes_{4}({0}_bytes + {2}{3}) : (u32x{5})(0u);",
         n, pass, from, column, piece_bytes(), piece_bytes() / 4);
  if (loads_scales(strip)) {
    const std::string row =
        shape_.page_size > 1 ? fmt::format("(u32)row % {}u * {}_scale_step + ", shape_.page_size, n) : "";
    w.line(
        "{0}_unit[{1}] = (u32)page < (u32)num_pages ? {0}_scale_head[page * {0}_scale_stride_page + {2}{3}] "
        ": 0.0f;",
        n, pass, row, scale_group(strip));
  }
  w.close();
}

void RegStagedCopy::emit_load(Writer& w, int strip) const {
  const std::string& n = shape_.name;
  const int size = shape_.widens ? 1 : shape_.stage.element_bytes, strip_bytes = shape_.row_columns * size;
  const std::string column = strip == 0 ? "" : fmt::format(" + {}", strip * strip_bytes);
  w.open("");
  w.comment("load_{}{}", n, shape_.strips > 1 ? fmt::format(", strip {}", strip) : "");
  if (shape_.page_size > 0) {
    for (int i = 0; i < passes(); ++i) emit_load_paged(w, i, strip, column);
    if (strip + 1 == shape_.strips) w.line("{}_row += {};", n, shape_.stage.rows);
    w.close();
    return;
  }
  w.comment("rows past the sequence read as zeros");
  w.line(
      "const i32x4 tile = buffer_resource({0}_next, {0}_rows > 0 ? (min_of({0}_rows, {1}) - 1) * "
      "{0}_row_bytes + {2} : "
      "0);",
      n, shape_.stage.rows, (shape_.strips - 1) * strip_bytes + columns_of(shape_.strips - 1) * size);
  for (int i = 0; i < passes(); ++i) {
    const std::string rows = i == 0 ? "" : fmt::format(" + {} * {}_row_bytes", i * tr(), n);
    std::string from = fmt::format("{}_from{}{}", n, rows, column);
    if (pads(strip))
      from = fmt::format("{}_piece < {} ? {} : 0x80000000u", n, columns_of(strip) / piece_columns(), from);
    w.line("{}_stored[{}] = buffer_load_{}(tile, {});", n, i, piece_bytes(), from);
    if (!loads_scales(strip)) continue;
    const std::string row = i == 0 ? n + "_own" : fmt::format("({}_own + {})", n, i * tr());
    w.line("{0}_unit[{1}] = {2} < {0}_rows ? {0}_scale_next[{2} * {0}_scale_step + {3}] : 0.0f;", n, i, row,
           scale_group(strip));
  }
  if (strip + 1 == shape_.strips)
    w.line("{0}_next += {1} * (long long){0}_row_bytes; {0}_rows -= {1};{2}", n, shape_.stage.rows,
           scaled() ? fmt::format(" {0}_scale_next += {1} * (long long){0}_scale_step;", n, shape_.stage.rows)
                    : "");
  w.close();
}

void RegStagedCopy::emit_store(Writer& w, int stage_offset) const {
  const std::string& n = shape_.name;
  const std::string stage = stage_offset == 0 ? "" : fmt::format(" + {}", stage_offset);
  const std::string widen = !shape_.widens ? "" : shape_.type == DType::bf16 ? "widen_bf16" : "widen_fp16";
  for (int i = 0; i < passes(); ++i) {
    const std::string unit = scaled() ? fmt::format(", {}_unit[{}]", n, i) : "";
    const auto value = [&](const char* part) {
      const std::string stored = fmt::format("{}_stored[{}]{}", n, i, part);
      return widen.empty() ? stored : fmt::format("{}({}{})", widen, stored, unit);
    };
    if (idles(i)) w.open("if ({}_own + {} < {})", n, i * tr(), shape_.stage.rows);
    const bool halves = vectors_per_piece() == 2;
    w.line("lds_write_16(lds + {}_put_{}{}, {});", n, i, stage, value(halves ? ".lo" : ""));
    if (halves) w.line("lds_write_16(lds + ({}_put_{} ^ 16u){}, {});", n, i, stage, value(".hi"));
    if (idles(i)) w.close();
  }
}

layout::Proof RegStagedCopy::proof() const {
  const LdsTile& stage = shape_.stage;
  std::vector<std::uint32_t> written;
  bool holds = tr() > 0 && stage.unit_bytes() == 16;
  for (int row = 0; holds && row < stage.rows; ++row) {
    for (int piece = 0; piece < tc(); ++piece) {
      const auto vector = static_cast<std::uint32_t>(row * stage.vectors_per_row() +
                                                     piece % pieces_per_block() * vectors_per_piece());
      for (int half = 0; half < vectors_per_piece(); ++half) {
        const std::uint32_t put =
            static_cast<std::uint32_t>(piece / pieces_per_block() * stage.block_bytes()) +
            (stage.of_units()(vector) * 16 ^ static_cast<std::uint32_t>(16 * half));
        holds = holds && put == stage.byte(row, piece * piece_columns() + half * stage.simd());
        written.push_back(put);
      }
    }
  }
  std::sort(written.begin(), written.end());
  holds = holds && std::adjacent_find(written.begin(), written.end()) == written.end();
  return {(shape_.name == "k" ? "K" : "V") + std::string(" stage: register-staged copy"), holds, 0};
}

}  // namespace kiln::cdna
