// StreamK of many query rows: whole items, those of all sequences end to end, dealt to the blocks in turn.
#include "generator/systems/mask.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln {
namespace {

/// The range of the next item, from the one at hand on: `range.batch` becomes the sequence that holds it.
void emit_seek(Writer& w) {
  w.comment("the sequence that holds it: 32 lengths at a time");
  w.line("const int lane = threadIdx.x % 32;");
  w.line("#pragma unroll 1");
  w.open("for (;;)");
  w.line("const int mine = items_of(problem, range.batch + lane);");
  w.line("int sum = mine;");
  w.open("for (int step = 1; step < 32; step *= 2)");
  w.line("const int below = __shfl_up_sync(0xffffffffu, sum, step);");
  w.line("if (lane >= step) sum += below;");
  w.close();
  w.line("const unsigned past = __ballot_sync(0xffffffffu, number < range.batch_start + sum);");
  w.open("if (past != 0)");
  w.line("const int found = __ffs(past) - 1;");
  w.line("range.batch += found;");
  w.line("range.batch_start += __shfl_sync(0xffffffffu, sum - mine, found);");
  w.line("break;");
  w.close();
  w.line("range.batch += 32;");
  w.line("range.batch_start += __shfl_sync(0xffffffffu, sum, 31);");
  w.close();
}

}  // namespace

void StreamK::emit_items_by_rows(Writer& w) const {
  const bool ragged = ragged_q();
  w.comment("This block's place among the items of all sequences, end to end.");
  w.open("struct Range");
  w.line("int round, total;  // items taken, and how many there are");
  w.line("int batch;         // sequence of the last one");
  w.line("int batch_start;   // number of its first item");
  w.close(";");
  w.blank();
  w.open("__device__ __forceinline__ int items_of(const Problem& problem, int b)");
  if (ragged) w.line("if (b >= problem.batch) return 0;");
  w.line("const int seqlen_q = {};",
         ragged ? "problem.cu_seqlens_q[b + 1] - problem.cu_seqlens_q[b]" : "problem.seqlen_q");
  w.line("return (problem.heads_q / problem.heads_kv * seqlen_q + {}) / {} * problem.heads_kv;",
         shape_.BM - 1, shape_.BM);
  w.close();
  w.blank();
  w.open("__device__ __forceinline__ Range first_range(const Problem& problem)");
  w.line("Range range;");
  w.line("range.round = 0, range.batch = 0, range.batch_start = 0;");
  if (ragged) {
    emit_wait_for_lengths(w);
    w.line("int items = 0;");
    w.line("#pragma unroll 4");
    w.line("for (int b = threadIdx.x % 32; b < problem.batch; b += 32) items += items_of(problem, b);");
    w.line("for (int step = 16; step > 0; step /= 2) items += __shfl_xor_sync(0xffffffffu, items, step);");
    w.line("range.total = items;");
  } else {
    w.line("range.total = problem.batch * items_of(problem, 0);");
  }
  w.line("return range;");
  w.close();
  w.blank();

  const Mask mask(shape_.mask, {});
  w.open("__device__ __forceinline__ bool next_segment(const Problem& problem, Range& range, Segment& s)");
  w.comment("every other round backwards: items get shorter, and so no block has the longest of each round");
  w.line("const int turn = (int)(range.round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);");
  w.line("const int number = range.round * (int)gridDim.x + turn;");
  w.line("if (number >= range.total) return false;");
  w.line("++range.round;");
  if (ragged) {
    emit_seek(w);
  } else {
    w.line("range.batch = number / items_of(problem, 0);");
    w.line("range.batch_start = range.batch * items_of(problem, 0);");
  }
  w.line("s.sequence = sequence_of(problem, range.batch);");
  w.line("const int group = problem.heads_q / problem.heads_kv;");
  w.line("const int m_blocks = (group * s.sequence.seqlen_q + {}) / {};", shape_.BM - 1, shape_.BM);
  w.line("const int in_batch = number - range.batch_start;");
  w.line("s.batch = range.batch;");
  w.line("s.kv_head = in_batch / m_blocks;  // items of one head side by side: they read the same keys");
  w.line("s.m_block = m_blocks - 1 - in_batch % m_blocks;  // the longest first");
  w.line("s.whole = true;");
  const std::string first_row = fmt::format("s.m_block * {} / group", shape_.BM);
  if (mask.bounded_above())
    w.line("const int before = s.sequence.seqlen_k - s.sequence.seqlen_q;  // keys before the first query");
  if (mask.bounded_below()) {
    w.line("s.tile_begin = {} / {};", mask.first_key(fmt::format("(before + {})", first_row)), shape_.BN);
  } else {
    w.line("s.tile_begin = 0;");
  }
  w.comment("one tile at least, so that every row gets written");
  if (mask.bounded_above()) {
    w.line("const int last = min((s.m_block * {} + {}) / group, s.sequence.seqlen_q - 1);", shape_.BM,
           shape_.BM - 1);
    w.line("const int end_key = {};", mask.end_key("(before + last)", "s.sequence.seqlen_k"));
    w.line("s.tile_end = max((max(end_key, 0) + {}) / {}, s.tile_begin + 1);", shape_.BN - 1, shape_.BN);
  } else {
    w.line("s.tile_end = max((s.sequence.seqlen_k + {}) / {}, 1);", shape_.BN - 1, shape_.BN);
  }
  w.line("return true;");
  w.close();
  w.blank();
}

}  // namespace kiln
