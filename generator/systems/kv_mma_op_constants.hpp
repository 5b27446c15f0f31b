// KVMmaOp's derived constants and validity matrix.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/types.hpp>
#include <nlohmann/json.hpp>

namespace kiln {

struct KVMmaOpParams {
  DType in_type = DType::bf16;
  std::array<int, 3> mma_shape{};
  int num_mmas = 0, num_k_mmas = 0, num_k_tiles = 0;
  int wave = 64;
};

struct KVMmaOpConstants {
  int MMA_M = 0, MMA_N = 0, MMA_K = 0, input_frag_size = 0, accum_frag_size = 0;
  int rows_per_k_tile = 0, total_rows = 0;
  int packs = 0;    ///< 16-byte loads per fragment; 0 where a fragment is smaller than a load
  int k_group = 1;  ///< K steps that one 16-byte load covers
};

KVMmaOpConstants kv_mma_op_constants(const KVMmaOpParams& params);
nlohmann::ordered_json to_json(const KVMmaOpConstants& constants);

/// Ways V reaches the registers for a config's instruction on AMD targets (`v_load`, 1.2): the first is the
/// default.
std::vector<std::string_view> v_loads_of(const Config& config);

/// 4.4 for AMD: why V with these tiles has no loader, or empty.
std::string v_loader_problem(DType dtype, const std::array<int, 3>& mma_shape, int BN, int BK);

}  // namespace kiln
