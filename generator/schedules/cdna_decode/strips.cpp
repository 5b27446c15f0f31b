// The KV tiles of cdna_decode_streaming: one strip of K or V in LDS at a time, the next on its way to registers.
#include <algorithm>

#include "generator/schedules/cdna_decode/plan.hpp"

namespace kiln::cdna {
namespace {

/// One strip: it has landed; its fragments go to registers; `next` starts the next copy; the products.
template <class Next>
void emit_strip(Writer& w, const DecodeStreamingKVBuffer& buffer, int strip, const std::string& b,
                const std::string& c, bool first, Next next) {
  buffer.emit_load_from_shared(w, strip);
  buffer.emit_taken(w, strip);
  next();
  buffer.emit_mma(w, b, c, strip, first);
}

}  // namespace

void emit_decode_strips(Writer& w, const DecodePlan& p) {
  w.banner("KV tiles: at least one");
  p.k->emit_load_from_dram(w, 0);
  p.k->emit_segment_start(w);
  w.line("#pragma unroll 1");
  w.open("for (int n = tile_begin;;)");
  w.comment("S' = K(n) Q', strips of depth");
  for (int strip = 0; strip < p.k->num_strips(); ++strip) {
    w.open("");
    p.k->emit_landed(w, strip);
    if (strip == 0) emit_key_scales(w, p);
    emit_strip(w, *p.k, strip, "q_reg", p.row_scales.target(), p.row_scales.begins_sum(strip * p.BK), [&] {
      strip + 1 < p.k->num_strips() ? p.k->emit_load_from_dram(w, strip + 1) : p.v->emit_load_from_dram(w, 0);
    });
    p.row_scales.emit_columns_end(w, p.scores(), std::min((strip + 1) * p.BK, p.depth), p.depth);
    w.close();
  }
  emit_decode_softmax(w, p);
  w.comment("O' += V(n)' P', strips of keys");
  for (int strip = 0; strip < p.v->num_strips(); ++strip) {
    w.open("");
    p.v->emit_landed(w, strip);
    // P before V's fragments, which are what the next barrier is about.
    if (strip == 0) emit_read_p(w, p), w.line("SCHEDULE_FENCE();");
    emit_strip(w, *p.v, strip, "p", "o_acc", false, [&] {
      if (strip + 1 < p.v->num_strips()) {
        p.v->emit_load_from_dram(w, strip + 1);
      } else {
        w.open("if (n + 1 < tile_end)");
        p.k->emit_load_from_dram(w, 0);
        w.close();
      }
    });
    w.close();
  }
  w.line("if (++n == tile_end) break;");
  w.close();
}

}  // namespace kiln::cdna
