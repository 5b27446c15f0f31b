#include "generator/systems/stream_k.hpp"

#include <vector>

namespace kiln {

std::vector<StreamK::Member> StreamK::members() const {
  std::vector<Member> m;
  if (ragged_q()) m.push_back({"const int*", "cu_seqlens_q"});
  if (shape_.kind == OperandKind::ragged) m.push_back({"const int*", "cu_seqlens_k"});
  if (shape_.kind != OperandKind::ragged) m.push_back({"const int*", "seqlens_k"});
  for (const char* role : {"batch", "heads_q", "heads_kv", "seqlen_q"}) m.push_back({"int", role});
  if (shape_.kind == OperandKind::contiguous) m.push_back({"int", "seqlen_k"});
  m.push_back({"int", "team_heads"});
  return m;
}

void StreamK::emit_functions(Writer& w) const {
  w.comment("What the plan of the launch follows from.");
  w.open("struct Problem");
  for (const Member& m : members()) w.line("{} {};", m.type, m.role);
  w.close(";");
  w.blank();
  w.comment(
      "One sequence: its rows, and the KV tiles that some query sees (at least one, so that every row gets "
      "written).");
  w.open("struct Sequence");
  w.line("int q_start, seqlen_q, k_start, seqlen_k;");
  w.line("int first_tile, num_tiles;");
  w.close(";");
  w.blank();
  w.comment("A run of KV tiles of one item (head slot and packed rows of one sequence) for this block.");
  w.open("struct Segment");
  w.line("Sequence sequence;");
  w.line("int batch, kv_head, m_block;");
  w.line("int tile_begin, tile_end;    // of the sequence's keys");
  w.line("bool whole;                  // the item is this segment alone");
  w.line("int item;                    // number of the item among all");
  w.line("unsigned item_start;         // position of the item's first tile");
  w.line("bool second_slot;            // where this part goes in the block's workspace");
  w.close(";");
  w.blank();
  w.comment("How an item is split.");
  w.open("struct Split");
  w.line("int parts, first_team;  // how many, and the team of part 0");
  w.line("bool first_second;      // part 0 is in the second slot of its block; later ones are in the first");
  w.close(";");
  w.blank();
  w.comment("Position of a team in the tiles of all sequences, end to end.");
  w.open("struct Range");
  w.line(
      "unsigned position, end, total;  // in KV tiles of all head slots; 2^32 / teams of them are more than "
      "memory holds");
  w.line("int teams, team, slots;          // head slots of a team");
  w.line("int batch;                       // sequence at `position`");
  w.line("unsigned batch_start;           // position of its first tile");
  w.line("bool first;                      // no segment taken yet");
  w.close(";");
  w.blank();
  w.open("__device__ __forceinline__ Sequence sequence_of(const Problem& problem, int b)");
  w.line("Sequence s;");
  if (ragged_q()) {
    w.line("s.q_start = problem.cu_seqlens_q[b];");
    w.line("s.seqlen_q = problem.cu_seqlens_q[b + 1] - s.q_start;");
  } else {
    w.line("s.q_start = 0; s.seqlen_q = problem.seqlen_q;");
  }
  if (shape_.kind == OperandKind::ragged) {
    w.line("s.k_start = problem.cu_seqlens_k[b];");
    w.line("s.seqlen_k = problem.cu_seqlens_k[b + 1] - s.k_start;");
  } else {
    w.line("s.k_start = 0; s.seqlen_k = {};",
           shape_.kind == OperandKind::contiguous
               ? "problem.seqlens_k != nullptr ? problem.seqlens_k[b] : problem.seqlen_k"
               : "problem.seqlens_k[b]");
  }
  if (shape_.window > 0) {
    w.comment("the first query sees keys after its position less the window");
    w.line("s.first_tile = max(s.seqlen_k - s.seqlen_q - {}, 0) / {};", shape_.window - 1, shape_.BN);
  } else {
    w.line("s.first_tile = 0;");
  }
  w.line("s.num_tiles = max((s.seqlen_k + {}) / {} - s.first_tile, 1);", shape_.BN - 1, shape_.BN);
  w.line("return s;");
  w.close();
  w.blank();

  w.open("__device__ __forceinline__ int packed_blocks(const Problem& problem)");
  w.line("return (problem.heads_q / problem.heads_kv * problem.seqlen_q + {}) / {};", shape_.BM - 1,
         shape_.BM);
  w.close();
  w.blank();
  w.comment("Team that holds a position: ranges start at floor(team * total / teams).");
  w.open("__device__ __forceinline__ int team_of(const Range& range, unsigned position)");
  w.line("return (int)(((position + 1) * range.teams - 1) / range.total);");
  w.close();
  w.blank();
  w.open("__device__ __forceinline__ Range first_range(const Problem& problem)");
  w.line("Range range;");
  w.line("range.slots = problem.heads_kv * packed_blocks(problem) / problem.team_heads;");
  w.line("range.team = blockIdx.x / problem.team_heads;");
  w.line("range.first = true;");
  w.line("range.batch = 0; range.batch_start = 0;");
  if (shape_.split) {
    w.line("const int lane = threadIdx.x % 32;");
    w.line("int tiles = 0;");
    w.line("for (int b = lane; b < problem.batch; b += 32) tiles += sequence_of(problem, b).num_tiles;");
    w.line("for (int step = 16; step > 0; step /= 2) tiles += __shfl_xor_sync(0xffffffffu, tiles, step);");
    w.line("range.total = (unsigned)(tiles * range.slots);");
  } else {
    w.line("range.total = (unsigned)(problem.batch * range.slots);");
  }
  w.line("range.teams = (int)min(gridDim.x / problem.team_heads, range.total);");
  w.line("if (range.team >= range.teams) {{ range.position = range.end = 0; return range; }}");
  w.line("range.position = (unsigned)range.team * range.total / range.teams;");
  w.line("range.end = (range.team + 1u) * range.total / range.teams;");
  if (!shape_.split) {
    w.line("range.batch = (int)(range.position / range.slots);");
    w.line("range.batch_start = range.batch * range.slots;");
  } else {
    w.comment("the sequence that holds the position: 32 lengths at a time");
    w.line("unsigned start = 0;");
    w.open("for (int base = 0;; base += 32)");
    w.line("const int mine = base + lane < problem.batch ? sequence_of(problem, base + lane).num_tiles : 0;");
    w.line("int sum = mine;");
    w.open("for (int step = 1; step < 32; step *= 2)");
    w.line("const int below = __shfl_up_sync(0xffffffffu, sum, step);");
    w.line("if (lane >= step) sum += below;");
    w.close();
    w.line(
        "const unsigned past = __ballot_sync(0xffffffffu, range.position < start + sum * "
        "range.slots);");
    w.open("if (past != 0)");
    w.line("const int found = __ffs(past) - 1;");
    w.line("range.batch = base + found;");
    w.line("range.batch_start = start + __shfl_sync(0xffffffffu, sum - mine, found) * range.slots;");
    w.line("break;");
    w.close();
    w.line("start += __shfl_sync(0xffffffffu, sum, 31) * range.slots;");
    w.close();
  }
  w.line("return range;");
  w.close();
  w.blank();

  w.open("__device__ __forceinline__ bool next_segment(const Problem& problem, Range& range, Segment& s)");
  w.line("if (range.position >= range.end) return false;");
  w.line("s.sequence = sequence_of(problem, range.batch);");
  w.line("const int tiles = {};", shape_.split ? "s.sequence.num_tiles" : "1");
  w.line("const int in_batch = (int)(range.position - range.batch_start);");
  w.line("const int slot = in_batch / tiles;");
  w.line("const int head = slot * problem.team_heads + (int)blockIdx.x % problem.team_heads;");
  w.line("s.batch = range.batch;");
  w.line("s.kv_head = head % problem.heads_kv;");
  w.line("s.m_block = head / problem.heads_kv;");
  w.line("s.item = range.batch * problem.team_heads * range.slots + head;");
  if (shape_.split) {
    w.line("const unsigned item_start = range.batch_start + slot * tiles;");
    w.line("const int begin = in_batch - slot * tiles;");
    w.line("const int end = min(tiles, (int)(range.end - item_start));");
    w.line("s.tile_begin = s.sequence.first_tile + begin;");
    w.line("s.tile_end = s.sequence.first_tile + end;");
    w.line("s.whole = begin == 0 && end == tiles;");
    w.line("s.item_start = item_start;");
    w.line("s.second_slot = !range.first;");
    w.line("range.position += end - begin;");
  } else {
    w.line("s.tile_begin = s.sequence.first_tile;");
    w.line("s.tile_end = s.sequence.first_tile + s.sequence.num_tiles;");
    w.line("s.whole = true; s.second_slot = false; s.item_start = range.position;");
    w.line("range.position += 1;");
  }
  w.line("range.first = false;");
  w.open("if (range.position >= range.batch_start + (unsigned)(tiles * range.slots))");
  w.line("range.batch_start += (unsigned)(tiles * range.slots);");
  w.line("range.batch += 1;");
  w.close();
  w.line("return true;");
  w.close();
  w.blank();
  if (!shape_.split) return;
  w.open("__device__ __forceinline__ Split split_of(const Range& range, const Segment& s)");
  w.line("Split split;");
  w.line("split.first_team = team_of(range, s.item_start);");
  w.line("split.parts = team_of(range, s.item_start + s.sequence.num_tiles - 1) - split.first_team + 1;");
  w.line("split.first_second = (unsigned)split.first_team * range.total / range.teams < s.item_start;");
  w.line("return split;");
  w.close();
  w.blank();
}

void StreamK::emit_loop_open(Writer& w) const {
  w.line("Range range = first_range(problem);");
  w.line("Segment s;");
  w.line("#pragma unroll 1");
  w.open("while (next_segment(problem, range, s))");
}

}  // namespace kiln
