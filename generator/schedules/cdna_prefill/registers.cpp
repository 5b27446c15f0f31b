// Registers of a lane of a cdna_prefill kernel, counted, beside what compilers were seen to need.
#include <algorithm>

#include <fmt/format.h>

#include "generator/config/unsupported.hpp"
#include "generator/schedules/cdna_prefill/planning.hpp"

namespace kiln::cdna {
namespace {

/// Registers of a lane that hold O.
int output_registers(const PrefillPlan& p) {
  return p.ov_columns / p.mfma.shape.m * p.mfma.accum();
}

/// What lives through the loop: Q, O, scores, and tiles on their way.
int lasting_registers(const PrefillPlan& p) {
  return 4 * p.q->num_vectors() + output_registers(p) +
         p.BN / p.mfma.shape.m * p.mfma.accum() * p.row_scales.score_arrays() + p.k->staging_registers() +
         p.v->staging_registers() + (p.k_rope ? p.k_rope->staging_registers() : 0);
}

/// That, and the least around it: fragments of one step, addresses, the softmax.
bool check_loop_registers(const PrefillPlan& p, const Config& user, Violations& out) {
  const int lasting = lasting_registers(p);
  if (lasting + RegisterLimits::kLoop <= p.max_registers) return true;
  break_rule(
      user, "V32", {"/num_threads", "/BM", "/BN", "/depth", "/ov_depth"},
      fmt::format("Q, O and S{} take {} registers of a lane and the loop at least {} more; {} waves leave {}",
                  p.staged ? " and tiles on their way" : "", lasting, RegisterLimits::kLoop, p.num_warps,
                  p.max_registers),
      "", out);
  return false;
}

bool check_waves(const PrefillPlan& p, const Config& user, Violations& out) {
  constexpr int kLongest = RegisterLimits::kDeepest, kWaves = RegisterLimits::kWaves;
  const bool bytes = is_fp8(user.dtype) && p.loop != PrefillLoop::blocks;
  if (bytes || p.depth <= kLongest || p.num_warps <= kWaves) return true;
  break_rule(
      user, "V32", {"/BM", "/num_threads"},
      fmt::format("past depth {} at most {} waves have registers for Q, O and fragments", kLongest, kWaves),
      std::to_string(p.BM * kWaves / p.num_warps), out);
  return false;
}

/// Fragments of one chunk of a product beside those of the next (tiles.cpp).
int chunk_registers(const KVBuffer& buffer) {
  const KVMmaOp& op = buffer.kv_mma_op();
  const int strip = op.steps() * op.registers_per_step(), one = strip <= 32 ? strip : op.registers_per_step();
  return buffer.num_k_tiles() * strip > one ? 2 * one : one;
}

/// What a tile takes: what lasts, P and fragments besides.
int tile_registers(const PrefillPlan& p) {
  return lasting_registers(p) + p.BN / p.mfma.shape.k * p.mfma.frag_regs() +
         std::max(chunk_registers(*p.k), chunk_registers(*p.v));
}

/// In AGPRs O is rescaled by way of a copy, unless a mask cuts the loop in parts.
int copy_registers(const PrefillPlan& p) {
  return p.mask->bounded_above() ? 0 : output_registers(p);
}

/// Loops with one ring of stages keep below all registers.
bool check_tile_registers(const PrefillPlan& p, const Config& user, Violations& out) {
  const int copy = copy_registers(p), tile = tile_registers(p);
  const bool few = p.max_registers <= RegisterLimits::kFew;
  const int all = tile + (few ? 0 : copy);
  if (all <= (p.own_stages() ? RegisterLimits::usable(p.max_registers) : p.max_registers) &&
      (!p.own_stages() || !few || tile + copy <= RegisterLimits::with_copy(p.max_registers)))
    return true;
  break_rule(
      user, "V32", {"/BN", "/num_threads", "/BM", "/depth"},
      fmt::format("Q, O, S, P and fragments take about {} registers of a lane; {} waves leave {}, a sixth "
                  "of them for addresses and copies",
                  all, p.num_warps, p.max_registers),
      p.BN > 32 ? std::to_string(p.BN / 2) : "", out);
  return false;
}

/// Strips written as loops are compiled in another order, which was seen to spill where little is left (clang 22): of
/// bytes in one ring, of wide O, and beside a modifier where rows end within a strip.
bool check_compact(const PrefillPlan& p, const Config& user, Violations& out) {
  if (user.source_style != "compact") return true;
  const bool few = p.max_registers <= RegisterLimits::kFew;
  const int tile = tile_registers(p);
  const bool ring = few && !p.own_stages() && tile > RegisterLimits::usable(p.max_registers);
  const bool wide = p.mfma.shape.m == 32 && p.ov_columns > RegisterLimits::kWideColumnsTwice;
  const bool ends =
      few && !p.modifier->none() && p.depth % p.BK != 0 && tile + copy_registers(p) > p.max_registers;
  if (!ring && !wide && !ends) return true;
  break_rule(user, "V32", {"/source_style"},
             fmt::format("strips written as loops take more registers than the {} of a tile leave of {}",
                         tile, p.max_registers),
             "unrolled", out);
  return false;
}

}  // namespace

bool check_registers(const PrefillPlan& p, const Config& user, Violations& out) {
  return check_loop_registers(p, user, out) && check_tile_registers(p, user, out) &&
         check_waves(p, user, out) && check_compact(p, user, out);
}

}  // namespace kiln::cdna
