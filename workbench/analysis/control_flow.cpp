#include "workbench/analysis/control_flow.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace kiln {
namespace {

using emulator::amdgcn::InstructionView;

struct Block {
  std::size_t first = 0, last = 0;  ///< instructions, inclusive
  int mfma = 0, copies = 0;         ///< matrix instructions; copies to LDS, loads, exponentials
  std::vector<std::size_t> next;    ///< blocks
};

std::vector<Block> make_blocks(const std::vector<InstructionView>& code) {
  std::map<std::uint64_t, std::size_t> by_address;
  for (std::size_t i = 0; i < code.size(); ++i) by_address[code[i].address] = i;
  const auto target_of = [&](const InstructionView& in) {
    const auto found = in.branch ? by_address.find(*in.branch) : by_address.end();
    return found == by_address.end() ? code.size() : found->second;
  };
  std::set<std::size_t> leaders{0};
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i].kind != "branch" && code[i].kind != "end") continue;
    leaders.insert(i + 1);
    leaders.insert(target_of(code[i]));
  }
  std::vector<Block> blocks;
  std::map<std::size_t, std::size_t> block_of;  // by first instruction
  for (auto it = leaders.begin(); it != leaders.end() && *it < code.size(); ++it) {
    const auto after = std::next(it);
    Block block;
    block.first = *it;
    block.last = std::min(after == leaders.end() ? code.size() : *after, code.size()) - 1;
    for (std::size_t i = block.first; i <= block.last; ++i) {
      block.mfma += code[i].kind == "mfma" ? 1 : 0;
      const std::string_view kind = code[i].kind;
      block.copies += kind == "dma" || kind == "vmem_load" || kind == "transcendental" ? 1 : 0;
    }
    block_of[block.first] = blocks.size();
    blocks.push_back(block);
  }
  for (Block& block : blocks) {
    const InstructionView& end = code[block.last];
    const bool ends =
        end.kind == "end" || end.text.starts_with("s_branch") || end.text.starts_with("s_setpc");
    if (!ends && block.last + 1 < code.size()) block.next.push_back(block_of.at(block.last + 1));
    if (const std::size_t target = target_of(end); target < code.size())
      block.next.push_back(block_of.at(target));
  }
  return blocks;
}

using Set = std::vector<bool>;

/// Blocks of `inside` that a walk from the successors of `start` reaches.
Set reachable(const std::vector<Block>& blocks, std::size_t start, const Set& inside) {
  Set seen(blocks.size());
  std::vector<std::size_t> open{start};
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (const std::size_t next : blocks[at].next) {
      if (inside[next] && !seen[next]) {
        seen[next] = true;
        open.push_back(next);
      }
    }
  }
  return seen;
}

/// The strongly connected part of `inside` with the most matrix instructions; empty when none with any is a
/// loop.
Set busiest_loop(const std::vector<Block>& blocks, const Set& inside) {
  std::vector<Set> reach(blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (inside[b]) reach[b] = reachable(blocks, b, inside);
  }
  Set best, done(blocks.size());
  int most = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (!inside[b] || done[b] || !reach[b][b]) continue;
    Set part(blocks.size());
    int mfma = 0;
    for (std::size_t o = 0; o < blocks.size(); ++o) {
      if (!inside[o] || !reach[b][o] || !reach[o][b]) continue;
      part[o] = done[o] = true;
      mfma += blocks[o].mfma;
    }
    if (mfma > most) {
      most = mfma;
      best = part;
    }
  }
  return best;
}

/// The block by which a loop is entered: the first that has a predecessor outside.
std::size_t header_of(const std::vector<Block>& blocks, const Set& loop) {
  std::size_t lowest = blocks.size();
  for (std::size_t b = blocks.size(); b-- > 0;) {
    if (loop[b]) lowest = b;
  }
  std::size_t header = blocks.size();
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (loop[b]) continue;
    for (const std::size_t next : blocks[b].next) {
      if (loop[next]) header = std::min(header, next);
    }
  }
  return header == blocks.size() ? lowest : header;
}

/// The best ways from blocks back to the header of a loop whose other blocks form no loop.
class Ways {
 public:
  Ways(const std::vector<Block>& blocks, const Set& loop, std::size_t header)
      : blocks_(blocks), loop_(loop), header_(header), ways_(blocks.size()) {}

  std::vector<std::size_t> from_header() {
    find(header_);
    std::vector<std::size_t> way{header_};
    while (ways_[way.back()].next != header_) way.push_back(ways_[way.back()].next);
    return way;
  }

 private:
  struct Way {
    bool known = false, returns = false;
    int mfma = 0, copies = 0;
    std::size_t length = 0, next = 0;
    bool better_than(const Way& other) const {
      if (mfma != other.mfma) return mfma > other.mfma;
      return copies != other.copies ? copies > other.copies : length < other.length;
    }
  };
  const Way& find(std::size_t at) {
    Way& way = ways_[at];
    if (way.known) return way;
    way.known = true;
    for (const std::size_t next : blocks_[at].next) {
      if (!loop_[next]) continue;
      static constexpr Way kBack{true, true, 0, 0, 0, 0};
      const Way rest = next == header_ ? kBack : find(next);
      if (!rest.returns) continue;
      if (!way.returns || rest.better_than(way))
        way = {true, true, rest.mfma, rest.copies, rest.length, next};
    }
    way.mfma += blocks_[at].mfma;
    way.copies += blocks_[at].copies;
    way.length += blocks_[at].last - blocks_[at].first + 1;
    return way;
  }

  const std::vector<Block>& blocks_;
  const Set& loop_;
  std::size_t header_;
  std::vector<Way> ways_;
};

}  // namespace

std::optional<AmdLoop> main_loop(const std::vector<InstructionView>& code) {
  if (code.empty()) return std::nullopt;
  const std::vector<Block> blocks = make_blocks(code);
  Set loop = busiest_loop(blocks, Set(blocks.size(), true));
  if (loop.empty()) return std::nullopt;
  std::size_t header = header_of(blocks, loop);
  // What still is a loop without the header is an inner one: the loop over keys in that over work items.
  for (;;) {
    Set rest = loop;
    rest[header] = false;
    Set inner = busiest_loop(blocks, rest);
    if (inner.empty()) break;
    loop = std::move(inner);
    header = header_of(blocks, loop);
  }
  AmdLoop result;
  for (const std::size_t b : Ways(blocks, loop, header).from_header()) {
    result.mfma += blocks[b].mfma;
    for (std::size_t i = blocks[b].first; i <= blocks[b].last; ++i) result.path.push_back(i);
  }
  return result;
}

}  // namespace kiln
