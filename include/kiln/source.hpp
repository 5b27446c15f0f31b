// What the generator hands to the runtime: emitted text plus the manifest by which it is launched.
// The runtime knows nothing of tiles or swizzles: everything it needs to pack arguments and size the grid is
// here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <kiln/types.hpp>

namespace kiln {

/// One dimension of a tensor map, fastest first. `axis` is "depth", "seq", "head" or "batch"; the "seq" of a
/// ragged operand runs over all rows of all sequences and its "batch" has extent 1. Extents and strides come
/// from the tensor at launch.
struct TensorMapDim {
  std::string axis;
  int box = 1;  ///< elements along this dimension moved by one copy, 1..256
};

/// Host-encoded tensor map (TMA descriptor) of one kernel parameter.
struct TensorMapSpec {
  std::vector<TensorMapDim> dims;
  int swizzle_bytes = 0;       ///< 0, 32, 64 or 128
  int l2_promotion_bytes = 0;  ///< 0, 64, 128 or 256
};

/// One kernel parameter, in order. `role` says what the runtime puts there:
///   tensor_map  q k v o
///   pointer     q k v o lse cu_seqlens_q cu_seqlens_k
///               tile_counter: one i32 that is 0 before a launch; the kernel leaves it 0, so it is cleared
///               once, but launches that may overlap (different streams) need one each
///   i32         batch heads_q heads_kv seqlen_q seqlen_k (the longest, for ragged operands) num_m_blocks
///   num_tiles
///               total_q total_k
///               section_heads: how many of the batch * heads_q heads are worked on together; a divisor of
///               it, the largest whose K and V (shared by heads_q / heads_kv heads each) fit in 32 MiB of L2,
///               at least 1
///   i64         {q,k,v,o}_stride_{batch,seq,head}: strides in elements
///   f32         scale_log2 (softmax scale * log2 e), scale
struct KernelParam {
  enum class Kind { tensor_map, pointer, i32, i64, f32 };
  Kind kind = Kind::pointer;
  std::string role;
  TensorMapSpec map;  ///< for tensor_map
};

/// Grid of a launch, with num_m_blocks = ceil(longest seqlen_q / block_rows) and num_tiles = num_m_blocks *
/// heads_q * batch. `tiles`: (num_m_blocks, heads_q, batch). `persistent`: one work item is taken by a whole
/// cluster of C = cluster[0] blocks, so (min(num_tiles * C, SMs * ctas_per_sm rounded down to a multiple of
/// C), 1, 1).
struct GridRule {
  enum class Kind { tiles, persistent };
  Kind kind = Kind::tiles;
  int block_rows = 0;
  int ctas_per_sm = 1;
};

struct Manifest {
  std::string name;         ///< config name; files are NAME.cu/NAME.hip and NAME.json
  std::string entry;        ///< extern "C" symbol of the kernel
  std::string target;       ///< "sm_90a", ...
  std::string config_json;  ///< the resolved config, one line
  int num_threads = 0;
  int smem_bytes = 0;  ///< dynamic shared memory
  std::array<int, 3> cluster{1, 1, 1};
  GridRule grid;
  std::vector<KernelParam> params;

  // What the kernel computes, for argument checking.
  Operation operation = Operation::prefill;
  OperandKind operand = OperandKind::contiguous;
  DType dtype = DType::bf16, kv_dtype = DType::bf16, out_dtype = DType::bf16;
  int depth = 0, ov_depth = 0;
  bool writes_lse = false;
  double scale = 0;  ///< default softmax scale

  // What a static check of the compiled program must find.
  struct Expectation {
    std::string instruction;  ///< PTX or ISA mnemonic prefix
    int count = 0;            ///< occurrences in the program text
  };
  std::vector<Expectation> expectations;
};

/// Emitted source. `text` is a pure function of the resolved config and the kiln version.
struct KernelSource {
  std::string text;
  /// Bytes of the head comment: the cache key hashes the text after it, so a new version alone does not void
  /// caches.
  std::size_t head_bytes = 0;
  Manifest manifest;
};

/// The manifest as JSON text, and back. from_json throws Error (bad_input) on malformed text.
std::string to_json(const Manifest& manifest, int indent = 2);
Manifest manifest_from_json(std::string_view text);

}  // namespace kiln
