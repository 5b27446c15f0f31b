#include "generator/schedules/common/prefill_work.hpp"

namespace kiln {

std::string PrefillWork::decode_call(const char* tile) const {
  const std::string sides = mask->function_arguments();
  if (ragged)
    return fmt::format("decode_work(place, rows, heads_q, heads_kv{}{})", part ? ", seqlens_k" : "", sides);
  return fmt::format("decode_work({}, heads_q, heads_kv, seqlen_q, seqlen_k, num_m_blocks{}{})", tile,
                     sections ? ", section_heads" : "", sides);
}

std::string PrefillWork::first_row() const {
  return cluster > 1 ? fmt::format("(work.m_start - (int)cluster_rank() * {})", BM) : "work.m_start";
}

// Place of a work item among sequences of one length: they have the same number of query tiles.
void PrefillWork::emit_decode_tile(Writer& w) const {
  w.open(
      "__device__ __forceinline__ Work decode_work(int tile, int heads_q, int heads_kv, int seqlen_q, int "
      "seqlen_k, int num_m_blocks{}{})",
      sections ? ", int section_heads" : "", mask->function_parameters());
  w.line("Work work;");
  if (sections) {
    w.comment("Longest first inside a section of heads whose K and V stay in L2 together.");
    w.line("const int section = tile / (section_heads * num_m_blocks);");
    w.line("const int in_section = tile - section * section_heads * num_m_blocks;");
    w.line("const int m_block = num_m_blocks - 1 - in_section / section_heads;");
    w.line("const int flat_head = section * section_heads + in_section % section_heads;");
  } else {
    w.line("const int flat_head = tile / num_m_blocks;");
    w.line("const int m_block = tile - flat_head * num_m_blocks;");
  }
  if (cluster > 1) {
    w.line("work.m_start = (m_block * {} + (int)cluster_rank()) * {};", cluster, BM);
  } else {
    w.line("work.m_start = m_block * {};", BM);
  }
  w.line("work.batch = flat_head / heads_q;");
  w.line("work.head = flat_head - work.batch * heads_q;");
  w.line("work.q_start = 0; work.seqlen_q = seqlen_q; work.k_start = 0; work.seqlen_k = seqlen_k;");
}

void PrefillWork::emit(Writer& w) const {
  w.comment("One work item: {} query rows of one head of one sequence, and the KV tiles they see.", BM);
  w.open("struct Work");
  w.line("int m_start;      // first query row of the tile");
  w.line("int head, batch;  // query head, sequence");
  w.line("int kv_head;");
  w.line(
      "int q_start, seqlen_q, k_start, seqlen_k;  // rows of the sequence: first one in its tensor, and how "
      "many");
  if (part) w.line("int aligned_rows;  // row i stands at key position i + seqlen_k - aligned_rows");
  const bool lower = mask->bounded_below();
  if (lower) w.line("int first_block;  // first KV tile that some row sees");
  w.line("int num_blocks;   // KV tiles are visited from num_blocks - 1 down to {}; 0: none",
         lower ? "first_block" : "0");
  w.close(";");
  w.blank();
  if (ragged) {
    w.open("__device__ __forceinline__ Work decode_work(int4 place, int4 rows, int heads_q, int heads_kv{})",
           (part ? ", const int* seqlens_k" : "") + mask->function_parameters());
    w.line("Work work;");
    w.line("work.m_start = place.x; work.head = place.y; work.batch = place.z;");
    w.line("work.q_start = rows.x; work.seqlen_q = rows.y; work.k_start = rows.z; work.seqlen_k = rows.w;");
    if (part) w.line("work.aligned_rows = work.seqlen_k + work.seqlen_q - seqlens_k[work.batch];");
  } else {
    emit_decode_tile(w);
  }
  w.line("work.kv_head = work.head / (heads_q / heads_kv);");
  if (mask->bounded_above()) {
    if (mask->by_place()) {
      w.comment("Key positions of the tile's first and last row, m + seqlen_k - {}, bound the keys it sees.",
                part ? "aligned_rows" : "seqlen_q");
      w.line("const int position = {} + work.seqlen_k - {};", first_row(), aligned_rows());
    }
    w.line("const int end_key = {};",
           mask->end_key(fmt::format("position + {}", BM * cluster - 1), "work.seqlen_k", "work.batch"));
    w.line("work.num_blocks = (max(end_key, 0) + {}) / {};", BN - 1, BN);
    if (lower) {
      w.line("work.first_block = {} / {};", mask->first_read("position", "work.seqlen_k", "work.batch"), BN);
      w.line("if (work.first_block >= work.num_blocks) work.num_blocks = 0;");
    }
  } else {
    w.line("work.num_blocks = (work.seqlen_k + {}) / {};", BN - 1, BN);
  }
  w.line("return work;");
  w.close();
  w.blank();
}

}  // namespace kiln
