// The planner's front door: rules, choice of the schedule, and the schedule's own resolution.
#include "generator/config/keys.hpp"
#include "generator/config/report.hpp"
#include "generator/config/rules.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/emit/fold.hpp"
#include "generator/plan/choose.hpp"
#include "generator/plan/operand_report.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/targets/target.hpp"

namespace kiln {

const Config& Plan::resolved() const {
  return schedule_->resolved();
}
Resources Plan::resources() const {
  return schedule_->resources();
}

std::string Plan::to_json(int indent) const {
  const Resources r = resources();
  const nlohmann::ordered_json out{
      {"name", config_name(resolved())},
      {"resolved", config_to_dom(resolved())},
      {"systems", with_operand(resolved(), schedule_->systems())},
      {"resources",
       {{"smem_bytes", r.smem_bytes}, {"num_threads", r.num_threads}, {"max_registers", r.max_registers}}},
  };
  return out.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

namespace {

/// V15 over the schedule's exact bytes: the backstop behind the schedules' own checks.
void check_resources(const Config& user, const Schedule& schedule, Violations& out) {
  const int bytes = schedule.resources().smem_bytes, limit = target_info(user.target).smem_bytes;
  if (bytes <= limit) return;
  break_rule(
      user, "V15",
      {"/depth", "/ov_depth", "/BM", "/BN", "/num_kv_stages", "/num_smem_stages", "/smem_depth", "/full_kv"},
      "shared memory of " + std::to_string(bytes) + " bytes exceeds the " + std::to_string(limit) + " of " +
          std::string(to_string(user.target)),
      "", out);
}

/// Level L1 is a rule, too: memory that a reader takes for other elements than its writer gives wrong
/// results.
void check_layouts(const Config& user, const Schedule& schedule, Violations& out) {
  for (const layout::Proof& proof : schedule.layout_proofs()) {
    if (proof.holds) continue;
    break_rule(user, "layout",
               {"/depth", "/swizzle", "/swizzle_k", "/swizzle_v", "/mma_shape", "/BN", "/WN", "/BK",
                "/bk_smem", "/num_smem_stages", "/num_threads"},
               "this layout proof fails: " + proof.what, "", out);
  }
}

/// Every key does something: kernels of few registers have no strip to fold.
void check_style(const Config& config, const Schedule& schedule, Violations& out) {
  if (config.source_style != "compact") return;
  KernelSource source = schedule.emit();
  if (!fold_strips(source))
    refuse_value(config, "/source_style", "this kernel has no strips of like lines", "unrolled", out);
}

}  // namespace

Plan make_plan(const Config& config) {
  const std::string name = config_name(config);
  Violations violations;
  check_rules(config, violations);
  throw_if_any(name, violations);

  const ScheduleEntry* entry = choose_schedule(config, schedules(), violations);
  throw_if_any(name, violations);

  Config named = config;
  named.name = name;
  std::unique_ptr<Schedule> schedule = entry->make(std::move(named), violations);
  // The rules again, now over every filled value: a default that breaks one together with a set key is found
  // here.
  if (schedule && violations.empty()) {
    check_resolved_rules(config, schedule->resolved(), violations);
    check_resources(config, *schedule, violations);
    if (violations.empty()) check_layouts(config, *schedule, violations);
  }
  if (schedule && violations.empty()) check_style(config, *schedule, violations);
  throw_if_any(name, violations);
  if (!schedule)
    throw Error(ErrorCode::internal, "schedule " + std::string(entry->name) + " refused without a reason");
  return Plan(std::move(schedule));
}

KernelSource generate(const Plan& plan) {
  KernelSource source = plan.schedule().emit();
  if (plan.resolved().source_style == "compact") fold_strips(source);
  return source;
}

std::string_view version() {
  return KILN_VERSION;
}

}  // namespace kiln
