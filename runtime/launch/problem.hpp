// One launch's numbers: read off the tensors, checked against the manifest, in the terms that roles and grids
// use.
#pragma once

#include <cstdint>

#include <kiln/runtime.hpp>

#include "generator/operands/operand_form.hpp"

namespace kiln {

/// A paged tensor as rows that a kernel names by number (axis "gathered" of a map): from page to page and from token to
/// token in rows, from head to head in columns. A row lies `stride` elements after the one before, which both steps are
/// whole numbers of.
struct GatheredRows {
  std::int64_t page_rows = 0, token_rows = 0, head_columns = 0;
  std::int64_t rows = 0, stride = 0;
};

struct Problem {
  std::int64_t batch = 0, heads_q = 0, heads_kv = 0;
  std::int64_t seqlen_q = 0, seqlen_k = 0;  ///< the longest, for ragged operands
  std::int64_t total_q = 0, total_k = 0;    ///< rows of all sequences; total_k of pages: of all pages
  std::int64_t num_m_blocks = 0;
  std::int64_t num_tiles = 0;  ///< work items: num_m_blocks * heads (stream_k: KV heads) * batch
  std::int64_t team_heads = 1;
  std::int64_t kv_tiles = 0;       ///< stream_k: most KV tiles of one item
  std::int64_t section_heads = 1;  ///< query heads whose K and V fit the L2 cache together
  float scale = 0, scale_log2 = 0;
  OperandKind kind = OperandKind::contiguous;
  bool ragged = false;  ///< Q, O and LSE have the ragged form
  std::int64_t num_pages = 0, page_size = 0, page_table_stride = 0;
  std::int64_t k_page_eights = 0, v_page_eights = 0;  ///< of kernels that ask, from a page to the next
  GatheredRows k_rows, v_rows, rope_rows;             ///< of kernels that ask
  std::int64_t key_capacity = 0;                      ///< keys that a sequence's pages (and mask bits) hold
  std::int64_t mask_stride_batch = 0, mask_stride_head = 0, mask_words = 0;
  std::int64_t window_left = 0, window_right = 0, window_chunk = 0;  ///< sides that the launch gives
  std::int64_t rotary_half = 0,
               rotary_positions = 0;  ///< pairs of columns and positions of the tables of an append
  LaunchBefore before = LaunchBefore::any;
  std::int64_t max_blocks = 0;     ///< LaunchOptions; 0: no limit
  bool alone = false;              ///< of kernels with Manifest::stages, what settle_stages() chose:
  std::int64_t num_kv_stages = 0;  ///< one block a multiprocessor, and the stages of its rings
  bool has_pages() const { return operand_form(kind).table(); }
  bool empty() const { return num_tiles == 0; }
};

/// Throws Error (bad_input) with one line per rule that `args` breaks.
Problem make_problem(const Manifest& manifest, const AttentionArgs& args);

}  // namespace kiln
