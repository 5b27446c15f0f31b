#include "generator/systems/cdna/q_tile.hpp"

#include <fmt/ranges.h>

namespace kiln::cdna {

void QTile::use(Prelude& prelude) const {
  prelude.use("buffer_resource");
  prelude.use("buffer_load");
  if (shape_.depth % shape_.mfma.vector_k() != 0) prelude.use("zero_past");
  for (const ColumnGroup& group : shape_.columns)
    prelude.use(group.width == 1 && !floats() ? "buffer_store_8" : "buffer_store_16");
}

void QTile::emit_construct(Writer& w, const std::string& first, const std::string& bytes,
                           const std::string& from) const {
  const int m = shape_.mfma.shape.m;
  w.line("u32x4 q_reg[{}];  // Q: {} x {} as the B operand of K Q'", num_vectors(), m, shape_.depth);
  w.line("const i32x4 q_rows = buffer_resource({}, {});", first, bytes);
  w.line("const u32 q_from = {} + lane / {} * 16;", from, m);
}

void QTile::emit_load(Writer& w) const {
  const int size = static_cast<int>(size_of(shape_.mfma.type));
  for (int v = 0; v < num_vectors(); ++v) {
    const int first = v * shape_.mfma.vector_k(), lanes = shape_.mfma.lanes_within(shape_.depth - first);
    if (lanes == 0) {
      w.line("q_reg[{}] = (u32x4)(0u);", v);
      continue;
    }
    w.line("q_reg[{}] = {}buffer_load_16(q_rows, q_from + {}){};", v, lanes < 64 ? "zero_past(" : "",
           first * size, lanes < 64 ? fmt::format(", lane < {})", lanes) : "");
  }
}

std::string QTile::stored(std::span<const std::string> values) const {
  if (floats()) return fmt::format("__builtin_bit_cast(u32x4, f32x4{{{}}})", fmt::join(values, ", "));
  std::vector<std::string> words;
  for (std::size_t i = 0; i < values.size(); i += 2)
    words.push_back(fmt::format("{}({}, {})", shape_.pack, values[i], values[i + 1]));
  return fmt::format("u32x{}{{{}}}", words.size(), fmt::join(words, ", "));
}

void QTile::emit_store(Writer& w, const std::string& first, const std::string& bytes,
                       const std::string& from) const {
  const int m = shape_.mfma.shape.m;
  w.line("const i32x4 o_rows = buffer_resource({}, {});", first, bytes);
  w.line("const u32 o_from = {};", from);
  for (const ColumnGroup& group : shape_.columns) {
    for (int e = 0; e < shape_.mfma.accum(); e += 4) {
      // Registers e .. e + 3 of `width` fragments: 4 * width neighbouring columns.
      std::vector<std::string> values;
      for (int r = 0; r < 4; ++r) {
        for (int f = 0; f < group.width; ++f)
          values.push_back(fmt::format("o_acc[{}][{}] * {}", group.mma + f, e + r, shape_.factor));
      }
      const std::size_t columns = floats() || group.width == 1 ? 4 : 8;  // of one store
      for (std::size_t i = 0; i < values.size(); i += columns) {
        // Columns of the first lane group; those of lanes past the last column are dropped.
        const int column = group.first + group.width * shape_.mfma.row(e) + static_cast<int>(i);
        const int apart = 4 * group.width, last = column + (shape_.mfma.groups() - 1) * apart;
        if (column >= shape_.ov_depth) continue;
        const std::string guard =
            !shape_.first_column.empty() ? fmt::format("{} + {} + lane / {} * {} < {} ? ",
                                                       shape_.first_column, column, m, apart, shape_.ov_depth)
            : last < shape_.ov_depth
                ? ""
                : fmt::format("lane / {} < {} ? ", m, (shape_.ov_depth - column + apart - 1) / apart);
        const int size = floats() ? 4 : 2;
        w.line("buffer_store_{}(o_rows, {}o_from + {} + lane / {} * {}{}, {});",
               size * static_cast<int>(columns), guard, size * column, m, size * apart,
               guard.empty() ? "" : " : 0x80000000u", stored(std::span(values).subspan(i, columns)));
      }
    }
  }
}

}  // namespace kiln::cdna
