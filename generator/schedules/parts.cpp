// Kernels of a part of a sequence: the plans of ordinary kernels, with positions from the launch.
#include <kiln/error.hpp>
#include <kiln/generator.hpp>
#include <kiln/part_kernels.hpp>

#include "generator/config/masks.hpp"
#include "generator/emit/finish.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/systems/score_mod.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::bad_input, "no kernel for parts: " + what);
}

}  // namespace

KernelSource make_part_kernel(const Config& user) {
  Config named = user;
  named.name = config_name(user) + "_part";
  const Plan plan = make_plan(named);
  const Config& c = plan.resolved();
  if (c.operation == Operation::prefill && !operand_form(c.operand->kind).ragged_k())
    refuse("\"operand\" of prefill is ragged, not " + std::string(to_string(c.operand->kind)));
  if (c.mask->kind == MaskConfig::Kind::custom)
    refuse("a custom mask says itself which keys of the part are seen");
  const ModifierKind& modifier = modifier_kind(*c.score_mod);
  if (modifier.is_expression()) refuse("a score expression counts rows and keys of the part");
  if (!is_bounded(*c.mask) && !modifier.by_place) return generate(plan);
  std::optional<KernelSource> source = plan.schedule().emit_part();
  if (!source)
    refuse("schedule " + *c.schedule +
           " has none; the prefill schedules of head rows up to 256 columns have");
  finish_text(*source);
  return *std::move(source);
}

}  // namespace kiln
