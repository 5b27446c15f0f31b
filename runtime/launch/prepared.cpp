#include "runtime/launch/prepared.hpp"

#include <algorithm>

#include "runtime/launch/geometry.hpp"

namespace kiln {
namespace {

/// Lengths and tables in the order of tables_of().
constexpr std::array<Operand, kLaunchTables> kTables{Operand::cu_seqlens_q, Operand::cu_seqlens_k,
                                                     Operand::seqlens_k,    Operand::page_table,
                                                     Operand::first_keys,   Operand::query_ends};

}  // namespace

FlatLaunch flatten(const AttentionArgs& args) {
  FlatLaunch flat;
  const auto add = [&](Operand operand, const Tensor& tensor) {
    flat.addresses[static_cast<std::size_t>(operand)] = tensor.address;
    flat.known =
        flat.known && tensor.strides.size() == tensor.shape.size() &&
        flat.key.add_tensor(operand, tensor.dtype, tensor.shape, tensor.strides.data(), tensor.address);
  };
  const auto add_optional = [&](Operand operand, const std::optional<Tensor>& tensor) {
    if (tensor) add(operand, *tensor);
  };
  add(Operand::q, args.q);
  add(Operand::k, args.k);
  add(Operand::v, args.v);
  add(Operand::o, args.o);
  add_optional(Operand::lse, args.lse);
  add_optional(Operand::cu_seqlens_q, args.cu_seqlens_q);
  add_optional(Operand::cu_seqlens_k, args.cu_seqlens_k);
  add_optional(Operand::page_table, args.page_table);
  add_optional(Operand::seqlens_k, args.seqlens_k);
  add_optional(Operand::q_scale, args.q_scale);
  add_optional(Operand::k_scale, args.k_scale);
  add_optional(Operand::v_scale, args.v_scale);
  add_optional(Operand::sink, args.sink);
  add_optional(Operand::mask_bits, args.mask_bits);
  add_optional(Operand::k_rope, args.k_rope);
  for (std::size_t i = 0; i < kCaptured; ++i) add_optional(captured_operand(i), args.captured[i]);
  add_optional(Operand::first_keys, args.first_keys);
  add_optional(Operand::kv_factors, args.kv_factors);
  add_optional(Operand::query_ends, args.query_ends);
  return flat;
}

PreparedLaunch::PreparedLaunch(const Manifest& manifest, const AttentionArgs& args,
                               const LaunchOptions& options, int num_sms) {
  Problem problem = make_problem(manifest, args);
  if (options.max_blocks < 0)
    throw Error(ErrorCode::bad_input, manifest.name + ": max_blocks is negative; 0 says no limit");
  empty = problem.empty();
  if (empty) return;
  problem.before = options.before;
  problem.max_blocks = options.max_blocks;
  settle_stages(manifest, num_sms, options.residency, problem);
  problem.team_heads = choose_team(manifest, problem, num_sms);
  items = problem.num_tiles + problem.team_heads;
  pack_params(manifest, args, problem, params);
  geometry = make_geometry(manifest, problem, num_sms);
  geometry.tables = tables_of(args);
  const std::optional<Tensor>* const given[] = {&args.cu_seqlens_q, &args.cu_seqlens_k, &args.seqlens_k,
                                                &args.page_table,   &args.first_keys,   &args.query_ends};
  for (std::size_t i = 0; i < kTables.size(); ++i) {
    if (*given[i]) tables[num_tables++] = kTables[i];
  }
}

LaunchGeometry PreparedLaunch::geometry_at(const std::array<std::uint64_t, kOperands>& addresses) const {
  LaunchGeometry result = geometry;
  for (std::size_t i = 0; i < num_tables; ++i)
    result.tables[i].address = addresses[static_cast<std::size_t>(tables[i])];
  return result;
}

std::shared_ptr<PreparedLaunch> PreparedLaunches::find(const LaunchKey& key) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!(*entries_[i].key == key)) continue;
    if (i > 0)
      std::rotate(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(i),
                  entries_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return entries_.front().launch;
  }
  return nullptr;
}

void PreparedLaunches::add(const LaunchKey& key, std::shared_ptr<PreparedLaunch> launch) {
  if (entries_.size() == kMost) entries_.pop_back();
  entries_.insert(entries_.begin(), {std::make_unique<LaunchKey>(key), std::move(launch)});
  ++added_;
}

}  // namespace kiln
