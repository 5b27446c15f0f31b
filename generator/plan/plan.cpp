// The planner's front door: rules, choice of the schedule, and the schedule's own resolution.
#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "generator/config/report.hpp"
#include "generator/config/rules.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/emit/finish.hpp"
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
  return write_json(out, indent);
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

/// A schedule with its kernel's strips as loops.
class CompactSchedule final : public Schedule {
 public:
  CompactSchedule(std::unique_ptr<Schedule> unrolled, KernelSource source)
      : unrolled_(std::move(unrolled)), source_(std::move(source)) {}
  const Config& resolved() const override { return unrolled_->resolved(); }
  nlohmann::ordered_json systems() const override { return unrolled_->systems(); }
  Resources resources() const override { return unrolled_->resources(); }
  KernelSource emit() const override { return source_; }
  std::optional<KernelSource> emit_part() const override { return unrolled_->emit_part(); }
  std::vector<layout::Proof> make_layout_proofs() const override { return unrolled_->layout_proofs(); }
  Timeline timeline() const override { return unrolled_->timeline(); }
  int dealt_from_tiles() const override { return unrolled_->dealt_from_tiles(); }
  bool guards_hidden_values() const override { return unrolled_->guards_hidden_values(); }

 private:
  std::unique_ptr<Schedule> unrolled_;
  KernelSource source_;
};

/// Every key does something: kernels of few registers have no strip to fold.
std::unique_ptr<Schedule> compact(const Config& config, std::unique_ptr<Schedule> schedule, Violations& out) {
  KernelSource source = schedule->emit();
  if (!fold_strips(source))
    refuse_value(config, "/source_style", "this kernel has no strips of like lines", "unrolled", out);
  return std::make_unique<CompactSchedule>(std::move(schedule), std::move(source));
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
  if (schedule && violations.empty() && config.source_style == "compact")
    schedule = compact(config, std::move(schedule), violations);
  throw_if_any(name, violations);
  if (!schedule)
    throw Error(ErrorCode::internal, "schedule " + std::string(entry->name) + " refused without a reason");
  return Plan(std::move(schedule));
}

KernelSource generate(const Plan& plan) {
  KernelSource source = plan.schedule().emit();
  finish_text(source);
  return source;
}

std::string_view version() {
  return KILN_VERSION;
}

}  // namespace kiln
