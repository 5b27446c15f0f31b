// What a bulk copy's instruction says: between decoding (bulk_decode.cpp) and execution (bulk.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/machine/program.hpp"
#include "emulator/tensor/tma.hpp"

namespace kiln::emulator {
struct Warp;
}

namespace kiln::emulator::ptx {

struct Bulk {
  bool tensor = false, to_shared = false, from_shared_cta = false, reduce = false, multicast = false,
       prefetch = false;
  bool rows4 = false;        ///< tile::gather4, tile::scatter4: a column and four rows
  bool pair = false;         ///< cta_group::2: the mbarrier may be that of the pair's other CTA
  bool dst_cluster = false;  ///< destination addresses may name another block
  TensorMapMode mode = TensorMapMode::tiled;
  ReduceOp reduce_op = ReduceOp::add;
  TensorType type = TensorType::u8;
  int rank = 0;
  struct Part {
    Ref ref = kNoRef;
    int size = 0;
    std::int64_t offset = 0;
  };
  Part dst, src, mbar;
  Ref bytes = kNoRef, mask = kNoRef;
  int mask_size = 2;
  std::vector<Ref> coordinates;
  std::vector<Ref> offsets;  ///< of im2col: along W, H, D, 16 bits each; of im2col::w: wHalo and wOffset
};

void run_bulk(Warp& w, const Op& op);

}  // namespace kiln::emulator::ptx
