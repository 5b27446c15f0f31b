// Greedy covering: each step takes the combination with most tuples of values that nothing taken has. A
// tuple is a bit in one array; a combination's gain only falls, so a heap of gains as last counted gives the
// best one after a few counts (lazy greedy), not after one of every combination.
#include "cli/sweep/sweep_cover.hpp"

#include <algorithm>
#include <queue>
#include <utility>

namespace kiln::cli {
namespace {

// Some keys of a grid, and the numbers of their tuples: `first` plus a mixed-radix number of the values.
struct KeySet {
  std::size_t first = 0;
  struct Digit {
    std::size_t position, stride;  // in Combination::choice
  };
  std::vector<Digit> digits;

  std::size_t tuple_of(const Combination& c) const {
    std::size_t id = first;
    for (const Digit& digit : digits) id += c.choice[digit.position] * digit.stride;
    return id;
  }
};

struct Grid {
  std::vector<std::size_t> radix;  // of each position: its largest value's index, and one
  std::vector<KeySet> key_sets;
};

// Every choice of `count` of `positions`; keys of one value would add nothing and are not among them.
void add_key_sets(Grid& grid, const std::vector<std::size_t>& positions, std::size_t count,
                  std::size_t& tuples) {
  std::vector<bool> taken(positions.size());
  std::fill_n(taken.begin(), count, true);
  do {
    KeySet set{tuples, {}};
    std::size_t stride = 1;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (!taken[i]) continue;
      set.digits.push_back({positions[i], stride});
      stride *= grid.radix[positions[i]];
    }
    tuples += stride;
    grid.key_sets.push_back(std::move(set));
  } while (std::prev_permutation(taken.begin(), taken.end()));
}

}  // namespace

std::vector<std::size_t> covering_subset(const std::vector<const Combination*>& combinations,
                                         std::size_t strength) {
  std::vector<Grid> grids;
  for (const Combination* c : combinations) {
    if (grids.size() <= c->choice[0]) grids.resize(c->choice[0] + 1);
    std::vector<std::size_t>& radix = grids[c->choice[0]].radix;
    radix.resize(c->choice.size());
    for (std::size_t i = 1; i < radix.size(); ++i) radix[i] = std::max(radix[i], c->choice[i] + 1);
  }
  std::size_t tuples = 0;
  for (Grid& grid : grids) {
    std::vector<std::size_t> varying;
    for (std::size_t i = 1; i < grid.radix.size(); ++i) {
      if (grid.radix[i] > 1) varying.push_back(i);
    }
    add_key_sets(grid, varying, std::min(strength, varying.size()), tuples);
  }

  std::vector<bool> covered(tuples);
  const auto key_sets = [&](std::size_t i) -> const std::vector<KeySet>& {
    return grids[combinations[i]->choice[0]].key_sets;
  };
  // Gain as last counted, and the index so that the earlier of two equals is the greater.
  std::priority_queue<std::pair<std::size_t, std::ptrdiff_t>> gains;
  for (std::size_t i = 0; i < combinations.size(); ++i)
    gains.emplace(key_sets(i).size(), -static_cast<std::ptrdiff_t>(i));
  std::vector<std::size_t> chosen;
  while (!gains.empty()) {
    const auto [known, place] = gains.top();
    gains.pop();
    const std::size_t i = -place;
    const Combination& c = *combinations[i];
    const std::size_t gain = std::count_if(key_sets(i).begin(), key_sets(i).end(),
                                           [&](const KeySet& set) { return !covered[set.tuple_of(c)]; });
    if (gain == 0) continue;
    if (gain < known) {
      gains.emplace(gain, place);
      continue;
    }
    for (const KeySet& set : key_sets(i)) covered[set.tuple_of(c)] = true;
    chosen.push_back(i);
  }
  return chosen;
}

}  // namespace kiln::cli
