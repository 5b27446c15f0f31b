// O of sm100_decode on its way out of tensor memory, where a lane holds a column of a block of packed rows.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm100_decode/parts.hpp"

namespace kiln::sm100 {
namespace {

/// For each block of O: `x`, this lane's part of it, in a scope of its own.
void open_output_block(Writer& w, const DecodePlan& p, int block) {
  const TmemAccess access = p.output_access();
  w.open("");
  w.line("float x[{}];", access.registers());
  w.line("{}(x, tmem_lanes + {});", access.load(), p.tmem_o() + block * p.BM);
  w.line("const int column = {}{}, first_row = {};", block > 0 ? fmt::format("{} + ", block * p.MV()) : "",
         access.row(), access.first_column());
}

/// `store` for every row of the lane's part of O that exists, of columns that exist. `look`: of NaN or infinity in V,
/// which has reached its column of all rows, seen or not.
void emit_rows_of_output(Writer& w, const DecodePlan& p, const std::string& store, bool look) {
  for (int j = 0; j < p.out_blocks(); ++j) {
    open_output_block(w, p, j);
    const bool whole = (j + 1) * p.MV() <= p.ov_depth;
    if (look) w.line("odd = odd || !(x[0] * 0.0f == 0.0f);");
    w.line("#pragma unroll");
    w.open("for (int i = 0; i < {}; ++i)", p.output_access().registers());
    w.line("const int row = first_row + i;");
    w.line("if (row < rows{}) {}", whole ? "" : fmt::format(" && column < {}", p.ov_depth), store);
    w.close();
    w.close();
  }
}

}  // namespace

void emit_rescale(Writer& w, const DecodePlan& p) {
  const TmemAccess access = p.output_access();
  for (int j = 0; j < p.out_blocks(); ++j) {
    w.open("");
    w.line("float x[{}];", access.registers());
    w.line("{}(x, tmem_lanes + {});", access.load(), p.tmem_o() + j * p.BM);
    w.line("#pragma unroll");
    w.line("for (int i = 0; i < {}; ++i) x[i] *= row_alpha[{} + i];", access.registers(),
           access.first_column());
    w.line("{}(tmem_lanes + {}, x);", access.store(), p.tmem_o() + j * p.BM);
    w.close();
  }
}

void emit_whole(Writer& w, const DecodePlan& p) {
  const DType out = *p.config.out_dtype;
  emit_rows_of_output(
      w, p,
      out == DType::f32
          ? "output_row(row)[column] = x[i] * row_inverse[row];"
          : fmt::format("output_row(row)[column] = (u16){}(x[i] * row_inverse[row], 0.0f);", pack_name(out)),
      p.hidden.has_value());
}

void emit_store_part(Writer& w, const DecodePlan& p) {
  emit_rows_of_output(w, p, fmt::format("part[row * {} + column] = x[i];", p.ov_depth), false);
}

void emit_repair(Writer& w, const DecodePlan& p) {
  if (!p.hidden) return;
  const HiddenValues::Packed packed{fmt::format("s.m_block * {}", p.BM), 4, DecodePlan::BN};
  const HiddenValues::Place place = HiddenValues::place_of(p.config, HiddenValues::names_of_item(), packed);
  p.hidden->emit_block_repair(w, place, fmt::format("*(int*)(smem_bytes + {})", p.smem_odd),
                              "named_barrier_sync(1, 128);");
}

}  // namespace kiln::sm100
