#include "generator/systems/stream_k.hpp"

#include <vector>

namespace kiln {

std::string StreamK::times_parts() const {
  return fixed() ? fmt::format(" * {}", shape_.parts) : "";
}

std::vector<StreamK::Member> StreamK::members() const {
  std::vector<Member> m;
  if (ragged_q()) m.push_back({"const int*", "cu_seqlens_q"});
  if (shape_.kind == OperandKind::ragged) m.push_back({"const int*", "cu_seqlens_k"});
  if (shape_.kind != OperandKind::ragged) m.push_back({"const int*", "seqlens_k"});
  for (const char* role : {"batch", "heads_q", "heads_kv", "seqlen_q"}) m.push_back({"int", role});
  if (shape_.kind == OperandKind::contiguous) m.push_back({"int", "seqlen_k"});
  if (has_pages()) m.push_back({"int", "key_capacity"});
  if (!by_rows()) m.push_back({"int", "team_heads"});
  if (!shape_.before_lengths.empty()) m.push_back({"int", "launch_before"});
  return m;
}

void StreamK::emit_sequence_of(Writer& w) const {
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
    w.comment("a length that the operand cannot hold is one it can");
    w.line("s.k_start = 0; s.seqlen_k = {};",
           has_pages() ? "min(max(problem.seqlens_k[b], 0), problem.key_capacity)"
                       : "problem.seqlens_k != nullptr ? min(max(problem.seqlens_k[b], 0), problem.seqlen_k) "
                         ": problem.seqlen_k");
  }
  if (shape_.mask.kind == MaskConfig::Kind::sliding_window) {
    w.comment("the first query sees keys after its position less the window");
    w.line("s.first_tile = max(s.seqlen_k - s.seqlen_q - {}, 0) / {};", shape_.mask.size - 1, shape_.BN);
  } else if (shape_.mask.kind == MaskConfig::Kind::chunked) {
    w.comment("the first query sees keys from the start of its chunk on");
    w.line("s.first_tile = max(s.seqlen_k - s.seqlen_q, 0) / {0} * {0} / {1};", shape_.mask.size, shape_.BN);
  } else {
    w.line("s.first_tile = 0;");
  }
  w.line("s.num_tiles = max((s.seqlen_k + {}) / {} - s.first_tile, 1);", shape_.BN - 1, shape_.BN);
  w.line("return s;");
  w.close();
  w.blank();
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
  if (by_rows()) {
    w.close(";");
    w.blank();
    emit_sequence_of(w);
    return emit_items_by_rows(w);
  }
  w.line("int item;                    // number of the item among all");
  w.line("unsigned item_start;         // position of the item's first tile");
  if (fixed()) {
    w.line("int part;                    // which of the item's parts");
  } else {
    w.line("bool second_slot;            // where this part goes in the block's workspace");
  }
  w.close(";");
  w.blank();
  w.comment("How an item is split.");
  w.open("struct Split");
  if (fixed()) {
    w.line("int parts;");
  } else {
    w.line("int parts, first_cell;  // how many, and the cell of part 0");
    w.line(
        "bool first_second;      // part 0 is in the second slot of its block; later ones are in the first");
  }
  w.close(";");
  w.blank();
  w.comment("Position of a team in the tiles of all sequences, end to end.");
  w.open("struct Range");
  w.line(
      "unsigned position, end, total;  // in KV tiles of all head slots; 2^32 / teams of them are more than "
      "memory holds");
  if (shape_.dynamic)
    w.line(
        "unsigned fixed, chunk, cells;  // positions cut evenly for the teams; length of the cells after; "
        "how many in all");
  w.line("unsigned teams, cell;          // the range at hand");
  w.line("int slots;                     // head slots of a team");
  w.line("int m_blocks;                  // packed query tiles of a head");
  w.line("int batch;                       // sequence at `position`");
  w.line("unsigned batch_start;           // position of its first tile");
  w.line("bool first;                      // no segment taken yet");
  w.close(";");
  w.blank();
  emit_sequence_of(w);
  w.open("__device__ __forceinline__ int packed_blocks(const Problem& problem)");
  w.line("return (problem.heads_q / problem.heads_kv * problem.seqlen_q + {}) / {};", shape_.BM - 1,
         shape_.BM);
  w.close();
  w.blank();
  if (shape_.dynamic) {
    w.comment(
        "Cells: one a team, then shorter ones for whoever is done first. Those of teams start at floor(cell "
        "* fixed / teams).");
    w.open("__device__ __forceinline__ int cell_of(const Range& range, unsigned position)");
    w.line(
        "if (position >= range.fixed) return range.teams + (int)((position - range.fixed) / range.chunk);");
    w.line("return (int)(((position + 1) * range.teams - 1) / range.fixed);");
    w.close();
    w.open("__device__ __forceinline__ unsigned start_of(const Range& range, unsigned cell)");
    w.line(
        "return cell >= range.teams ? range.fixed + (cell - range.teams) * range.chunk : cell * range.fixed "
        "/ range.teams;");
    w.close();
  } else {
    w.comment("Cells: one a team; they start at floor(cell * total / teams).");
    w.open("__device__ __forceinline__ int cell_of(const Range& range, unsigned position)");
    w.line("return (int)(((position + 1) * range.teams - 1) / range.total);");
    w.close();
    w.open("__device__ __forceinline__ unsigned start_of(const Range& range, unsigned cell)");
    w.line("return cell * range.total / range.teams;");
    w.close();
  }
  w.blank();
  if (shape_.split) {
    w.comment("Finds the sequence that holds the position, from the one at hand on: 32 lengths at a time.");
    w.open("__device__ __forceinline__ void seek(const Problem& problem, Range& range)");
    w.line("const int lane = threadIdx.x % 32;");
    w.line("unsigned start = range.batch_start;");
    w.line("#pragma unroll 1");
    w.open("for (int base = range.batch;; base += 32)");
    w.line("const int mine = base + lane < problem.batch ? sequence_of(problem, base + lane).num_tiles : 0;");
    w.line("int sum = mine;");
    w.open("for (int step = 1; step < 32; step *= 2)");
    w.line("const int below = __shfl_up_sync(0xffffffffu, sum, step);");
    w.line("if (lane >= step) sum += below;");
    w.close();
    w.line("const unsigned past = __ballot_sync(0xffffffffu, range.position < start + sum * range.slots);");
    w.open("if (past != 0)");
    w.line("const int found = __ffs(past) - 1;");
    w.line("range.batch = base + found;");
    w.line("range.batch_start = start + __shfl_sync(0xffffffffu, sum - mine, found) * range.slots;");
    w.line("return;");
    w.close();
    w.line("start += __shfl_sync(0xffffffffu, sum, 31) * range.slots;");
    w.close();
    w.close();
    w.blank();
  }
  w.open("__device__ __forceinline__ Range first_range(const Problem& problem)");
  w.line("Range range;");
  w.line("range.m_blocks = packed_blocks(problem);");
  w.line("range.slots = problem.heads_kv * range.m_blocks / problem.team_heads;");
  w.line("range.teams = gridDim.x / problem.team_heads;");
  w.line("range.cell = blockIdx.x / problem.team_heads;");
  w.line("range.first = true;");
  w.line("range.batch = 0; range.batch_start = 0;");
  if (shape_.split) emit_wait_for_lengths(w);
  if (shape_.split) {
    w.line("const int lane = threadIdx.x % 32;");
    w.line("int tiles = 0;");
    w.line("#pragma unroll 4");
    w.line("for (int b = lane; b < problem.batch; b += 32) tiles += sequence_of(problem, b).num_tiles;");
    w.line("for (int step = 16; step > 0; step /= 2) tiles += __shfl_xor_sync(0xffffffffu, tiles, step);");
    w.line("range.total = (unsigned){}(tiles * range.slots);", shape_.uniform);
  } else {
    w.line("range.total = (unsigned)(problem.batch * range.slots{});", times_parts());
  }
  w.line("range.teams = min(range.teams, range.total);");
  if (shape_.dynamic) {
    w.comment(
        "Long ranges leave an eighth for the end, in two chunks a team: blocks do not get equal shares of "
        "the memory.");
    w.line("const unsigned each = range.total / range.teams;");
    w.line("range.fixed = each < {} ? range.total : range.total - each / 8 * range.teams;", kDynamicFrom);
    w.line("range.chunk = max(each / 16, 1u);");
    w.line("range.cells = range.teams + (range.total - range.fixed + range.chunk - 1) / range.chunk;");
  }
  w.line("if (range.cell >= range.teams) { range.position = range.end = 0; return range; }");
  w.line("range.position = start_of(range, range.cell);");
  w.line("range.end = start_of(range, range.cell + 1);");
  if (shape_.split) {
    w.line("seek(problem, range);");
  } else {
    w.line("range.batch = (int)(range.position / (unsigned)(range.slots{}));", times_parts());
    w.line("range.batch_start = range.batch * range.slots{};", times_parts());
  }
  w.line("return range;");
  w.close();
  w.blank();

  if (fixed()) return emit_next_of_fixed(w);
  w.open("__device__ __forceinline__ bool next_segment(const Problem& problem, Range& range, Segment& s)");
  w.line("if (range.position >= range.end) return false;");
  w.line("s.sequence = sequence_of(problem, range.batch);");
  w.line("const int tiles = {};", shape_.split ? "s.sequence.num_tiles" : "1");
  w.line("const int in_batch = (int)(range.position - range.batch_start);");
  w.line("const int slot = in_batch / tiles;");
  w.line("const int head = slot * problem.team_heads + (int)blockIdx.x % problem.team_heads;");
  w.line("s.batch = range.batch;");
  w.line(
      "s.kv_head = head / range.m_blocks;  // packed tiles of one head side by side: they read the same "
      "keys");
  w.line("s.m_block = head % range.m_blocks;");
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
  w.open("if (range.position >= range.batch_start + (unsigned){}(tiles * range.slots))", shape_.uniform);
  w.line("range.batch_start += (unsigned){}(tiles * range.slots);", shape_.uniform);
  w.line("range.batch += 1;");
  w.close();
  w.line("return true;");
  w.close();
  w.blank();
  if (!shape_.split) return;
  w.open("__device__ __forceinline__ Split split_of(const Range& range, const Segment& s)");
  w.line("Split split;");
  w.line("split.first_cell = cell_of(range, s.item_start);");
  w.line("split.parts = cell_of(range, s.item_start + s.sequence.num_tiles - 1) - split.first_cell + 1;");
  w.line("split.first_second = start_of(range, split.first_cell) < s.item_start;");
  w.line("return split;");
  w.close();
  w.blank();
}

void StreamK::emit_wait_for_lengths(Writer& w) const {
  if (shape_.before_lengths.empty()) return;
  w.comment("0: the launch before may yet write the lengths; 1: not them; 2: nothing that this one touches");
  w.line("if (problem.launch_before == 0{}) {}",
         shape_.kind == OperandKind::contiguous ? " && problem.seqlens_k != nullptr" : "",
         shape_.before_lengths);
}

void StreamK::emit_next_of_fixed(Writer& w) const {
  w.comment("Tiles of a part; the last ones of a short item have none.");
  w.open("__device__ __forceinline__ int tiles_of_part(const Sequence& sequence)");
  w.line("return (sequence.num_tiles + {}) / {};", shape_.parts - 1, shape_.parts);
  w.close();
  w.open("__device__ __forceinline__ bool next_segment(const Problem& problem, Range& range, Segment& s)");
  w.open("while (range.position < range.end)");
  w.line("s.sequence = sequence_of(problem, range.batch);");
  w.line("const int in_batch = (int)(range.position - range.batch_start);");
  w.line("const int head = in_batch / {} * problem.team_heads + (int)blockIdx.x % problem.team_heads;",
         shape_.parts);
  w.line("s.batch = range.batch;");
  w.line("s.kv_head = head / range.m_blocks;");
  w.line("s.m_block = head % range.m_blocks;");
  w.line("s.item = range.batch * problem.team_heads * range.slots + head;");
  w.line("s.item_start = range.position;");
  w.line("s.part = in_batch % {};", shape_.parts);
  w.line("const int tiles = s.sequence.num_tiles, each = tiles_of_part(s.sequence), begin = s.part * each;");
  w.line("s.tile_begin = s.sequence.first_tile + begin;");
  w.line("s.tile_end = s.sequence.first_tile + min(begin + each, tiles);");
  w.line("s.whole = {};", shape_.separate ? "true" : "each == tiles");
  w.line("range.position += 1;");
  w.open("if (range.position >= range.batch_start + (unsigned)(range.slots{}))", times_parts());
  w.line("range.batch_start += (unsigned)(range.slots{});", times_parts());
  w.line("range.batch += 1;");
  w.close();
  w.line(shape_.separate ? "return true;" : "if (begin < tiles) return true;");
  w.close();
  w.line("return false;");
  w.close();
  w.blank();
  if (shape_.separate) return;
  w.open("__device__ __forceinline__ Split split_of(const Range&, const Segment& s)");
  w.line("const int each = tiles_of_part(s.sequence);");
  w.line("return Split{(s.sequence.num_tiles + each - 1) / each};");
  w.close();
  w.blank();
}

std::string StreamK::part(int floats, SlotNumber number) const {
  if (fixed()) return fmt::format("workspace + (s.item * {}ll + s.part) * {}", shape_.parts, floats);
  constexpr const char* cell = "(range.cell * problem.team_heads + (int)blockIdx.x % problem.team_heads)";
  if (number == SlotNumber::bits_32)
    return fmt::format("workspace + (long long)({} * 2 + s.second_slot) * {}", cell, floats);
  return fmt::format("workspace + ({} * 2ll + s.second_slot) * {}", cell, floats);
}

void StreamK::emit_parts(Writer& w, int floats) const {
  if (fixed()) {
    w.line("constexpr int stride = {}, shift = 0;", floats);
    w.line("const float* const parts = workspace + s.item * {}ll;",
           static_cast<long long>(shape_.parts) * floats);
    return;
  }
  w.line("const long long stride = problem.team_heads * 2ll * {};", floats);
  w.line(
      "const float* const parts = workspace + (split.first_cell * problem.team_heads + (int)blockIdx.x % "
      "problem.team_heads) * 2ll * {};",
      floats);
  w.line("const int shift = split.first_second ? {} : 0;  // part 0 may be the second of its block", floats);
}

void StreamK::emit_loop_open(Writer& w) const {
  w.line("Segment s;");
  if (shape_.dynamic) {
    w.line("#pragma unroll 1");
    w.open("for (bool more = range.position < range.end; more;)");
  }
  w.line("#pragma unroll 1");
  w.open("while (next_segment(problem, range, s))");
}

void StreamK::emit_loop_close(Writer& w, const StagedPipeline& ring, bool fetches, bool slots_free) const {
  w.close();
  if (!shape_.dynamic) return;
  w.line("more = range.cells > range.teams;");
  w.open("if (more)");
  if (fetches) {
    w.comment("the next cell; the last fetch of the launch leaves the counter as it was found");
    w.line("int cell = 0;");
    w.open("if (lane == 0)");
    w.line(
        "int* const next = item_counters + problem.batch * problem.team_heads * range.slots + blockIdx.x % "
        "problem.team_heads;");
    w.line("cell = range.teams + atomicAdd(next, 1);");
    w.line("if (cell == range.cells + range.teams - 1) atomicExch(next, 0);");
    w.close();
    w.line("cell = __shfl_sync(0xffffffffu, cell, 0);");
    if (!slots_free) ring.emit_wait_empty(w, 0);
    w.open("if (lane == 0)");
    w.line("cell_slots[{}] = cell;", ring.stage());
    w.line("mbarrier_arrive({});", ring.full(0));
    w.close();
  } else {
    ring.emit_wait_full(w, 0);
    if (slots_free) {
      w.line("const int cell = __shfl_sync(0xffffffffu, lane == 0 ? cell_slots[{}] : 0, 0);", ring.stage());
    } else {
      w.line("const int cell = cell_slots[{}];", ring.stage());
      w.line("__syncwarp();");
      w.line("if (lane == 0) mbarrier_arrive({});", ring.empty(0));
    }
  }
  ring.emit_step(w);
  w.line("more = cell < range.cells;");
  w.open("if (more)");
  w.line("range.cell = cell;");
  w.line("range.position = start_of(range, cell);");
  w.line("range.end = min(range.position + range.chunk, range.total);");
  w.line("range.first = true;");
  w.line("seek(problem, range);");
  w.close();
  w.close();
  w.close();
}

}  // namespace kiln
