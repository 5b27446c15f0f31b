// O of sm100_decode on its way out of tensor memory, where a lane holds a column of a block of packed rows.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm100_decode/parts.hpp"

namespace kiln::sm100 {
namespace {

/// For each block of O, in a scope of its own: `x`, this lane's part of it, from `o_block` on. Of several blocks one
/// after the other, since one fills the registers.
void open_output_block(Writer& w, const DecodePlan& p) {
  const TmemAccess access = p.output_access();
  if (p.out_blocks() > 1) w.line("#pragma unroll 1");
  w.open("{}",
         p.out_blocks() > 1 ? fmt::format("for (int block = 0; block < {}; ++block)", p.out_blocks()) : "");
  w.line("const u32 o_block = tmem_lanes + {}{};", p.tmem_o(),
         p.out_blocks() > 1 ? fmt::format(" + block * {}", p.BM) : "");
  w.line("float x[{}];", access.registers());
  w.line("{}(x, o_block);", access.load());
}

/// `store` for every row of the lane's part of O that exists, of columns that exist. `look`: of NaN or infinity in V,
/// which has reached its column of all rows, seen or not.
void emit_rows_of_output(Writer& w, const DecodePlan& p, const std::string& store, bool look) {
  const TmemAccess access = p.output_access();
  open_output_block(w, p);
  w.line("const int column = {}{}, first_row = {};",
         p.out_blocks() > 1 ? fmt::format("block * {} + ", p.MV()) : "", access.row(), access.first_column());
  if (look) w.line("odd = odd || !(x[0] * 0.0f == 0.0f);");
  w.line("#pragma unroll");
  w.open("for (int i = 0; i < {}; ++i)", access.registers());
  w.line("const int row = first_row + i;");
  w.line("if (row < rows{}) {}", p.ov_depth % p.MV() == 0 ? "" : fmt::format(" && column < {}", p.ov_depth),
         store);
  w.close();
  w.close();
}

/// Half of the packed rows at a time, beside P of all of them in registers.
void emit_rescale_by_halves(Writer& w, const DecodePlan& p) {
  const TmemAccess access = p.rescale_access();
  w.line("#pragma unroll 1");
  w.open("for (int half = 0; half < {}; ++half)", 2 * p.out_blocks());
  w.line("const u32 o_half = tmem_lanes + {} + half * {};", p.tmem_o(), p.BM / 2);
  w.line("float x[{}];", access.registers());
  w.line("{}(x, o_half);", access.load());
  w.line("#pragma unroll");
  w.line("for (int i = 0; i < {}; ++i) x[i] *= row_alpha[half % 2 * {} + i];", access.registers(), p.BM / 2);
  w.line("{}(o_half, x);", access.store());
  w.close();
}

}  // namespace

void emit_rescale(Writer& w, const DecodePlan& p) {
  if (p.rescales_by_halves()) return emit_rescale_by_halves(w, p);
  const TmemAccess access = p.output_access();
  open_output_block(w, p);
  w.line("#pragma unroll");
  w.line("for (int i = 0; i < {}; ++i) x[i] *= row_alpha[{} + i];", access.registers(),
         access.first_column());
  w.line("{}(o_block, x);", access.store());
  w.close();
}

void emit_whole(Writer& w, const DecodePlan& p) {
  const DType out = *p.config.out_dtype;
  emit_rows_of_output(
      w, p,
      out == DType::f32
          ? "output_row(row)[column] = x[i] * row_inverse[row];"
          : fmt::format("output_row(row)[column] = (u16){}(x[i] * row_inverse[row], 0.0f);", pack_name(out)),
      p.hidden.on());
}

void emit_store_part(Writer& w, const DecodePlan& p) {
  emit_rows_of_output(w, p, fmt::format("part[row * {} + column] = x[i];", p.ov_depth), false);
}

void emit_repair(Writer& w, const DecodePlan& p) {
  const HiddenValues::Packed packed{fmt::format("s.m_block * {}", p.BM), 4, p.BN};
  p.hidden.emit_block_repair(w, p.config, HiddenValues::names_of_item(p.stream->aligned_rows()), packed,
                             fmt::format("*(int*)(smem_bytes + {})", p.smem_odd),
                             "named_barrier_sync(1, 128);");
}

}  // namespace kiln::sm100
