// Copies of sm100_latent_pair: of a tile of 128 keys each block has 64 rows of K, and half of V's columns of all rows. The
// products of both blocks wait at the first block's barriers: K's bytes are counted there, V's here, since rows of V past
// a sequence are zeroed by the block that has them.
#include "generator/emit/terms.hpp"
#include "generator/schedules/sm100_latent_pair/parts.hpp"

namespace kiln::sm100 {
namespace {

using sm90::MHAOperand;

/// L2 policy of K and V: the pair reads them once.
constexpr const char* kEvictFirst = "0x12F0000000000000ull";

int piece_bytes(const PairPlan& p, const MHAOperand& operand) {
  return operand.eff_page() * p.span_bytes();
}

/// Bytes in front of the pieces of a round.
int of_round(const PairPlan& p, const MHAOperand& operand, int round) {
  return round * 32 * piece_bytes(p, operand);
}

}  // namespace

void emit_copy_k(Writer& w, const PairPlan& p) {
  const MHAOperand& operand = *p.operand;
  const TMAConsumerPipeline& k = *p.k;
  const std::string n = "(2 * n + rank)";
  operand.emit_populate(w, n);
  operand.emit_rows(w, "k");
  if (p.rope > 0) operand.emit_rows(w, "k_rope");
  for (int chunk = 0; chunk < k.num_qk_stages_effective(); ++chunk) {
    k.ring().emit_wait_empty_by_warp(w, chunk);
    w.line("if (rank == 0 && lane == 0) mbarrier_arrive_expect_tx({}, {});", k.ring().full(chunk),
           PairPlan::kBlocks * k.barrier_bytes());
    for (int round = 0; round < operand.rounds(); ++round) {
      std::vector<std::string> lines;
      for (int panel = k.panels_per_chunk() * chunk; panel < k.panels_per_chunk() * (chunk + 1); ++panel) {
        const bool rotary = p.rope > 0 && panel * 64 >= p.k_columns;
        const std::string to =
            plus(k.address(), panel * k.descriptor().tile().panel_bytes() + of_round(p, operand, round)) +
            operand.own_piece(piece_bytes(p, operand));
        lines.push_back(operand.copy(to, rotary ? "k_rope" : "k", k.ring().full(chunk),
                                     panel * 64 - (rotary ? p.k_columns : 0), n, round, kEvictFirst,
                                     MHAOperand::Counted::by_pair));
      }
      operand.emit_boxes(w, round, lines);
    }
  }
  k.ring().emit_step(w);
}

namespace {

/// Rows of V of part `part` of the tile before `n`. The first part finds the slot's chunks free.
void emit_copy_v_part(Writer& w, const PairPlan& p, int part) {
  const MHAOperand& operand = *p.v_operand;
  const TMAConsumerPipeline& v = *p.v;
  const int rows = PairPlan::kKeys / p.v_parts();
  const std::string n = p.v_parts() == 1 ? "(n - 1)" : fmt::format("(2 * n - {})", 2 - part);
  operand.emit_populate(w, n);
  operand.emit_rows(w, "k");
  int panel = 0;
  for (int block = 0; block < p.out_blocks(); ++block) {
    const int chunk = p.chunk_of(block), width = p.columns_of(block) / 2;
    if (part == 0 && (p.rings.v_chunks > 1 || block == 0)) {
      v.ring().emit_wait_empty_by_warp(w, chunk);
      w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", v.ring().full(chunk), v.barrier_bytes());
    }
    for (int round = 0; round < operand.rounds(); ++round) {
      std::vector<std::string> lines;
      for (int i = 0; i < width / 64; ++i) {
        const std::string to =
            plus(v.address(), (panel + i) * v.descriptor().tile().panel_bytes() +
                                  part * rows * p.span_bytes() + of_round(p, operand, round)) +
            operand.own_piece(piece_bytes(p, operand));
        lines.push_back(
            operand.copy(to, "k", v.ring().full(chunk),
                         plus(fmt::format("rank * {}", width), block * PairPlan::kColumns + 64 * i), n, round,
                         kEvictFirst));
      }
      operand.emit_boxes(w, round, lines);
    }
    panel += width / 64;
  }
}

}  // namespace

void emit_copy_v(Writer& w, const PairPlan& p) {
  for (int part = 0; part < p.v_parts(); ++part) {
    if (p.v_parts() > 1) w.open("");
    emit_copy_v_part(w, p, part);
    if (p.v_parts() > 1) w.close();
  }
  p.v->ring().emit_step(w);
}

}  // namespace kiln::sm100
