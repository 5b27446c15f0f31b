// Options that pose a problem and choose a device: shared by run, bench and verify.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <kiln/runtime.hpp>
#include <optional>
#include <string>
#include <vector>

#include "workbench/problem/workload.hpp"

namespace kiln::cli {

struct ProblemOptions {
  std::optional<std::int64_t> batch, heads_q, heads_kv, seqlen_q, seqlen_k;
  std::string lengths_q, lengths_k, trace;
  std::optional<std::int64_t> requests, max_length;
  std::string q, k, v, page_table, sink, mask_bits;  ///< .npy files
  std::string q_scale, k_scale, v_scale;             ///< numbers or .npy files
  std::vector<std::string> captured;                 ///< NAME=FILE.npy
  std::uint64_t seed = 0;

  void declare(CLI::App& command, bool tensors);
  /// The problem for a resolved config. Throws Error (bad_input): options that contradict each other or the
  /// files.
  Workload workload(const Config& resolved) const;

 private:
  ProblemShape shape_from_options(const Config& resolved) const;
  Workload workload_from_files(const Config& resolved) const;
  void apply_scales(const Config& resolved, Workload& work) const;
  void apply_page_table(const Config& resolved, Workload& work) const;
  void read_extras(const Config& resolved, Workload& work) const;
  void read_captured(const Config& resolved, Workload& work) const;
  void refuse_conflicts() const;
};

struct DeviceOptions {
  std::string device, policy;

  void declare(CLI::App& command);
  /// `seed` drives the emulated device's random completion.
  RuntimeOptions runtime_options(std::uint64_t seed) const;
};

/// "3,17,0" as numbers. Throws Error (bad_input) naming `option`.
std::vector<std::int64_t> parse_lengths(const std::string& text, const std::string& option);

std::optional<EmulatorOptions::Policy> policy_from(const std::string& text);

}  // namespace kiln::cli
