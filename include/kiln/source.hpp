// What the generator hands to the runtime: emitted text plus the manifest by which it is launched.
// The runtime knows nothing of tiles or swizzles: everything it needs to pack arguments and size the grid is
// here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/types.hpp>

namespace kiln {

/// One dimension of a tensor map, fastest first. `axis`: "depth", "panel" (the columns cut into panels of the first
/// box's), "seq", "head", "batch" or "page"; "row" and "eight": rows of a paged operand in eights, over all pages and
/// what lies between; "gathered": rows of a paged one by number, columns of all heads (GatheredRows); "tail" and "end":
/// rows of a box and the place behind its last. The "seq" of a ragged operand runs over all sequences, that of a paged
/// one over a page. An axis that the tensor has not has extent 1. Extents and strides come from the tensor at launch.
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
///   tensor_map  q k v o; of k and v the columns that are read, from head_dim_offset on; k_rope: rotary
///               columns of another type or of a tensor of their own, which k leaves out
///               k_scale v_scale, of scales by head and token: axes seq, head, page or batch
///   pointer     q k k_rope v o lse cu_seqlens_q cu_seqlens_k page_table q_scale k_scale v_scale sink
///               mask_bits first_keys kv_factors query_ends; seqlens_k: null for contiguous operands without it
///               tile_counter: one i32 that is 0 before a launch; the kernel leaves it 0, so it is cleared
///               once, but launches that may overlap (different streams) need one each
///               item_counters: the same, batch * heads_kv * num_m_blocks of them and team_heads more
///               workspace: 16-byte aligned, workspace_bytes_per_block for each block of the grid, any
///               content
///   i32         batch heads_q heads_kv seqlen_q seqlen_k (the longest, for ragged operands) num_m_blocks
///               num_tiles total_q total_k
///               team_heads: blocks of a stream_k grid that stand side by side on different KV heads; a
///               divisor of heads_kv that wastes few blocks of the grid
///               page_table_stride: entries from row to row; num_pages, page_size; {k,v}_page_eights: rows / 8
///               key_capacity: keys that a row of the table names; {k,v,k_rope}_{page_rows,token_rows,head_columns}
///               mask_stride_batch mask_stride_head mask_words: words from one batch, head, row of mask_bits
///               to the next; 0 where all share one
///               window_left window_right window_chunk: sides of the mask, 2^30 and 0 where there is no bound
///               section_heads: how many of the batch * heads_q heads are worked on together; a divisor of
///               it, the largest whose K and V (shared by heads_q / heads_kv heads each) fit in 32 MiB of
///               L2, at least 1
///   i64         {q,k,v,o}_stride_{batch,seq,head}, {k,v,k_rope,k_scale,v_scale}_stride_{page,batch},
///               k_rope_stride_{seq,head}, {k_scale,v_scale}_stride_head: strides in elements
///   f32         scale_log2 (softmax scale * log2 e), scale
///   captured    captured: a struct of all of Manifest::captured, one after another; of each the address, i64
///               strides in elements of all dimensions, i32 extents less one of all dimensions
struct KernelParam {
  enum class Kind { tensor_map, pointer, i32, i64, f32, captured };
  Kind kind = Kind::pointer;
  std::string role;
  TensorMapSpec map;  ///< for tensor_map
};

/// Grid of a launch, with num_m_blocks = ceil(longest seqlen_q / block_rows) and num_tiles = num_m_blocks *
/// heads_q * batch. `tiles`: (num_m_blocks, heads_q, batch). `persistent`: one work item is taken by a whole
/// cluster of C = cluster[0] blocks, so (min(num_tiles * C, SMs * ctas_per_sm rounded down to a multiple of
/// C), 1, 1). `items`: a cluster for each item, (num_tiles * C, 1, 1), of which running blocks cancel those that have not
/// started and take their items.
/// `stream_k`: the query heads of a KV head are rows of one tile, so num_m_blocks = ceil(longest seqlen_q *
/// heads_q / heads_kv / block_rows) and an item is one of num_m_blocks * heads_kv * batch; blocks share the
/// KV tiles of `block_keys` keys of all items evenly, so (min(items * max(1, ceil(longest seqlen_k /
/// block_keys)), SMs * ctas_per_sm), 1, 1).
struct GridRule {
  enum class Kind { tiles, persistent, items, stream_k };
  Kind kind = Kind::tiles;
  int block_rows = 0;
  int ctas_per_sm = 1;
  int block_keys = 0;  ///< stream_k only
};

/// How blocks of a kernel with Manifest::stages stand on the multiprocessors: alone with all stages of the
/// rings, or several with no more each. Short launches are faster with the former, others with the latter.
enum class Residency {
  by_work,  ///< alone up to Stages::alone_megabytes, unless max_blocks leaves room for another launch
  alone,
  shared,
};

struct Manifest {
  /// Stages of the rings of K and V where the launch chooses between one block a multiprocessor, with
  /// `alone`, and grid.ctas_per_sm blocks, with `shared` each. Where the numbers differ, the parameter
  /// num_kv_stages has the launch's.
  struct Stages {
    int alone = 0, shared = 0;
    int shared_smem_bytes = 0;  ///< dynamic shared memory of each of several; smem_bytes is that of one alone
    int alone_megabytes = 0;    ///< of keys and values a multiprocessor, counting each sequence as the
                                ///< longest, up to which one alone is faster
  };

  std::string name;         ///< config name; files are NAME.cu/NAME.hip and NAME.json
  std::string entry;        ///< extern "C" symbol of the kernel
  std::string target;       ///< "sm_90a", ...
  std::string config_json;  ///< the resolved config, one line
  int num_threads = 0;
  int smem_bytes = 0;  ///< dynamic shared memory
  std::array<int, 3> cluster{1, 1, 1};
  GridRule grid;
  std::optional<Stages> stages;
  std::vector<KernelParam> params;

  // What the kernel computes, for argument checking.
  Operation operation = Operation::prefill;
  OperandKind operand = OperandKind::contiguous;
  DType dtype = DType::bf16, kv_dtype = DType::bf16, out_dtype = DType::bf16;
  int depth = 0, ov_depth = 0;
  int num_q_heads = 0, kv_num_heads = 0;     ///< head counts that the kernel is made for; 0: any
  int cache_depth = 0, head_dim_offset = 0;  ///< of a head row of K; cache_depth 0: just the columns read
  /// Rotary columns of a type of their own, the last of `depth`: in each head row of K `padded_depth` bytes
  /// behind its first, and cache_depth counts their bytes, too; or `separate`, in a tensor of their own.
  struct Rope {
    int depth = 0, padded_depth = 0;
    DType dtype = DType::bf16;
    bool separate = false;
  };
  std::optional<Rope> rope;
  /// A tensor that the score expression names.
  struct Captured {
    std::string name;
    DType dtype = DType::f32;
    /// One a dimension: the index that the expression has there where it is one of b, h, q, k alone; else "".
    std::vector<std::string> indices;
  };
  std::vector<Captured> captured;  ///< at most 4
  bool writes_lse = false;
  double scale = 0;   ///< default softmax scale
  int page_size = 0;  ///< tokens of a page; 0: not paged, or (continuous) taken from the tensor
  std::optional<Quantization> quantization;                         ///< of K and V
  int workspace_bytes_per_block = 0, workspace_bytes_per_item = 0;  ///< of blocks of the grid, of its items

  // What a static check of the compiled program must find.
  struct Expectation {
    std::string instruction;  ///< PTX or ISA mnemonic prefix
    int count = 0;            ///< occurrences in the program text
  };
  std::vector<Expectation> expectations;

  /// Elements of a head row of K and of V in memory. V has the same columns around those that are read.
  int k_row() const { return k_numbers() / numbers_of(kv_dtype); }
  int v_row() const { return (k_numbers() - k_columns() + ov_depth) / numbers_of(kv_dtype); }
  int k_numbers() const { return cache_depth > 0 ? cache_depth : depth; }
  /// Columns of K in kv_dtype, those of its own tensor.
  int k_columns() const { return rope ? depth - rope->depth : depth; }
  bool own_rope() const { return rope && rope->separate; }
  /// Of the scales of K and V.
  DType scale_dtype() const { return quantization ? quantization->scale_dtype : DType::f32; }

  /// Whether the kernel has a parameter of this role, of any kind or of the given one.
  bool takes(std::string_view role, std::optional<KernelParam::Kind> kind = std::nullopt) const {
    for (const KernelParam& param : params) {
      if (param.role == role && (!kind || param.kind == *kind)) return true;
    }
    return false;
  }
};

/// What wrote a line of an emitted kernel: a file of kiln's sources ("generator/systems/mask.cpp") or of its templates
/// ("templates/stream_k.cuh"), and a line there. `file` lives as long as the program.
struct LineOrigin {
  std::string_view file;
  int line = 0;
};

/// Emitted source. `text` is a pure function of the resolved config and the kiln version.
struct KernelSource {
  std::string text;
  /// Bytes of the head comment: the cache key hashes the text after it, so a new version alone does not void
  /// caches.
  std::size_t head_bytes = 0;
  Manifest manifest;
  /// One for each line of `text`, or none where that is not known.
  std::vector<LineOrigin> origins;
  std::string file;  ///< where a person's edit of the text was read from; empty for what kiln emitted
};

/// The manifest as JSON text, and back. from_json throws Error (bad_input) on malformed text.
std::string to_json(const Manifest& manifest, int indent = 2);
Manifest manifest_from_json(std::string_view text);

}  // namespace kiln
