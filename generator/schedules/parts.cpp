// Kernels of a part of a sequence: the plans of ordinary ragged kernels, with positions from the launch.
#include <kiln/error.hpp>
#include <kiln/generator.hpp>
#include <kiln/part_kernels.hpp>

#include "generator/config/masks.hpp"
#include "generator/config/report.hpp"
#include "generator/emit/finish.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/cdna_prefill/plan.hpp"
#include "generator/schedules/sm80_prefill/plan.hpp"
#include "generator/schedules/sm90_prefill/plan.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::bad_input, "no kernel for parts: " + what);
}

/// The plan of one family, marked, and its text.
template <class Planner, class Emitter>
KernelSource emit_part(const std::string& name, Planner plan, Emitter emit) {
  Violations violations;
  auto planned = plan(violations);
  throw_if_any(name, violations);
  planned->part = true;
  KernelSource source = emit(*planned);
  finish_text(source);
  return source;
}

}  // namespace

KernelSource make_part_kernel(const Config& user) {
  Config named = user;
  named.name = config_name(user) + "_part";
  const Plan plan = make_plan(named);
  const Config& c = plan.resolved();
  if (c.operation != Operation::prefill)
    refuse("\"operation\" is prefill, " + std::string(to_string(c.operation)) +
           " kernels take whole sequences");
  if (!operand_form(c.operand->kind).ragged_k())
    refuse("\"operand\" is ragged, not " + std::string(to_string(c.operand->kind)));
  if (c.mask->kind == MaskConfig::Kind::custom)
    refuse("a custom mask says itself which keys of the part are seen");
  const ModifierKind& modifier = modifier_kind(*c.score_mod);
  if (modifier.is_expression()) refuse("a score expression counts rows and keys of the part");
  if (!is_bounded(*c.mask) && !modifier.by_place) return generate(plan);
  const std::string& schedule = *c.schedule;
  if (schedule.starts_with("sm90_prefill")) {
    const bool ping_pong = schedule.ends_with("pingpong");
    return emit_part(
        *named.name, [&](Violations& out) { return sm90::plan_prefill(c, ping_pong, out); },
        sm90::emit_prefill);
  }
  if (schedule == "sm80_prefill")
    return emit_part(
        *named.name, [&](Violations& out) { return sm80::plan_prefill(c, out); }, sm80::emit_prefill);
  if (schedule.starts_with("cdna_prefill"))
    return emit_part(
        *named.name, [&](Violations& out) { return cdna::plan_prefill(c, out); }, cdna::emit_prefill);
  refuse("schedule " + schedule + " has none; the prefill schedules of head rows up to 256 columns have");
}

}  // namespace kiln
