// The page allocator against a model under random operations: every sequence reads back its own tokens
// through its pages, whatever was shared, copied, cut and released; no page is lost or held twice.
#include <doctest/doctest.h>

#include <kiln/kv_cache.hpp>
#include <map>
#include <random>

#include "tests/emulated_options.hpp"

using namespace kiln;

namespace {

using Tokens = std::vector<int>;

// What a pool of pages holds, and what each sequence should.
struct Model {
  std::int64_t page_size;
  PageAllocator pages;
  std::vector<int> memory;
  std::map<PageAllocator::Sequence, Tokens> sequences;

  Model(std::int64_t num_pages, std::int64_t size)
      : page_size(size), pages(num_pages, size), memory(static_cast<std::size_t>(num_pages * size), -1) {}

  int& at(std::int32_t page, std::int64_t row) {
    return memory[static_cast<std::size_t>(page * page_size + row)];
  }
  bool append(PageAllocator::Sequence s, const Tokens& more) {
    const std::int64_t start = pages.length(s), free_before = pages.free_pages();
    const std::int64_t needed = pages.pages_needed(s, static_cast<std::int64_t>(more.size()));
    std::vector<PageCopy> copies;
    try {
      copies = pages.append(s, static_cast<std::int64_t>(more.size()));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::bad_input);
      CHECK(needed > free_before);
      CHECK(pages.free_pages() == free_before);
      CHECK(pages.length(s) == start);
      return false;
    }
    CHECK(pages.free_pages() == free_before - needed);
    for (const PageCopy& copy : copies) {
      for (std::int64_t row = 0; row < copy.rows; ++row) at(copy.to, row) = at(copy.from, row);
    }
    for (std::size_t i = 0; i < more.size(); ++i) {
      const std::int64_t token = start + static_cast<std::int64_t>(i);
      const std::int32_t page = pages.pages(s)[static_cast<std::size_t>(token / page_size)];
      // Nobody else may see what is written.
      CHECK(pages.references(page) == 1);
      at(page, token % page_size) = more[i];
    }
    sequences[s].insert(sequences[s].end(), more.begin(), more.end());
    return true;
  }
  void check() {
    std::map<std::int32_t, int> held;
    for (const auto& [s, tokens] : sequences) {
      REQUIRE(pages.length(s) == static_cast<std::int64_t>(tokens.size()));
      const auto table = pages.pages(s);
      REQUIRE(static_cast<std::int64_t>(table.size()) ==
              (static_cast<std::int64_t>(tokens.size()) + page_size - 1) / page_size);
      for (const std::int32_t page : table) ++held[page];
      bool same = true;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const auto token = static_cast<std::int64_t>(i);
        same = same && at(table[static_cast<std::size_t>(token / page_size)], token % page_size) == tokens[i];
      }
      REQUIRE(same);
    }
    for (std::int32_t page = 0; page < pages.num_pages(); ++page) {
      const auto found = held.find(page);
      REQUIRE(pages.references(page) == (found == held.end() ? 0 : found->second));
    }
    REQUIRE(pages.free_pages() == pages.num_pages() - static_cast<std::int64_t>(held.size()));
  }
};

// Hashes of the content up to the end of each block of `block` tokens.
std::vector<std::int64_t> hashes_of(const Tokens& tokens, std::size_t block) {
  std::vector<std::int64_t> hashes;
  std::uint64_t hash = 1469598103934665603u;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(tokens[i])) * 1099511628211u;
    if ((i + 1) % block == 0) hashes.push_back(static_cast<std::int64_t>(hash));
  }
  return hashes;
}

}  // namespace

TEST_CASE("random operations against a model") {
  for (const auto& [num_pages, page_size, seed] :
       {std::tuple{40, 4, 1}, {25, 1, 2}, {60, 16, 3}, {12, 8, 4}, {40, 4, 5}, {40, 2, 6}}) {
    CAPTURE(seed);
    Model model(num_pages, page_size);
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::size_t block = static_cast<std::size_t>(2 * page_size);
    int full = 0, shared = 0;
    for (int step = 0; step < 3000; ++step) {
      const std::size_t kind = below(7);
      auto some = model.sequences.begin();
      if (!model.sequences.empty()) std::advance(some, below(model.sequences.size()));
      if (model.sequences.empty() || kind == 0) {
        model.sequences[model.pages.create()];
      } else if (kind == 1) {
        const std::size_t tokens = below(some->second.size() + 1);
        const auto child = model.pages.fork(some->first, static_cast<std::int64_t>(tokens));
        const Tokens prefix(some->second.begin(), some->second.begin() + static_cast<std::ptrdiff_t>(tokens));
        model.sequences[child] = prefix;
      } else if (kind == 2 && model.sequences.size() > 3) {
        model.pages.release(some->first);
        model.sequences.erase(some);
      } else if (kind == 3) {
        const std::size_t tokens = below(some->second.size() + 1);
        model.pages.truncate(some->first, static_cast<std::int64_t>(tokens));
        some->second.resize(tokens);
      } else if (kind == 4) {
        model.pages.publish(some->first, hashes_of(some->second, block), static_cast<std::int64_t>(block));
      } else if (kind == 5) {
        // A newcomer with the same beginning finds what is still there.
        const auto child =
            model.pages.create_with_prefix(hashes_of(some->second, block), static_cast<std::int64_t>(block));
        const auto tokens = static_cast<std::size_t>(model.pages.length(child));
        REQUIRE(tokens <= some->second.size());
        shared += tokens > 0 ? 1 : 0;
        model.sequences[child] =
            Tokens(some->second.begin(), some->second.begin() + static_cast<std::ptrdiff_t>(tokens));
      } else {
        Tokens more(below(3 * static_cast<std::size_t>(page_size) + 2));
        for (int& token : more) token = static_cast<int>(below(3));
        if (!model.append(some->first, more)) {
          ++full;
          // Make room, so that the run goes on.
          auto victim = model.sequences.begin();
          model.pages.release(victim->first);
          model.sequences.erase(victim);
        }
      }
      model.check();
    }
    CHECK(full > 0);
    CHECK(shared > 0);
  }
}

TEST_CASE("misuse has one clear line") {
  const auto refusal = [](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::bad_input);
      return std::string(error.what());
    }
    return std::string();
  };
  PageAllocator pages(4, 16);
  const auto a = pages.create();
  pages.append(a, 40);
  CHECK(refusal([&] { pages.append(a, 30); }) ==
        "the page pool is full: 2 pages are needed, 1 of 4 are free");
  CHECK(refusal([&] { pages.fork(a, 41); }) == "cannot share 41 tokens of a sequence that has 40");
  CHECK(refusal([&] { pages.truncate(a, 41); }) == "cannot cut a sequence of 40 tokens to 41");
  CHECK(refusal([&] { pages.length(77); }) == "there is no sequence 77");
  CHECK(refusal([&] { pages.append(a, -1); }) == "cannot append -1 tokens");
  CHECK_FALSE(refusal([&] { pages.create_with_prefix({}, 24); }).empty());
  CHECK_FALSE(refusal([] { PageAllocator(0, 16); }).empty());
  CHECK_FALSE(refusal([] { PageAllocator(16, 0); }).empty());
  const auto b = pages.fork(a, 40);
  CHECK(pages.append(b, 1) == std::vector<PageCopy>{{2, 3, 8}});
  CHECK(pages.append(b, 0).empty());
}

TEST_CASE("page tables of a batch, on host and device") {
  Runtime runtime(test::emulated_options());
  PageAllocator pages(10, 16);
  const auto a = pages.create(), b = pages.create();
  pages.append(a, 33);
  pages.append(b, 1);
  PagedBatch batch(runtime, 4, 5);
  const PageAllocator::Sequence sequences[] = {a, b};
  const std::int64_t queries[] = {3, 1};
  batch.update(pages, sequences, queries);
  CHECK(batch.table() == std::vector<std::int32_t>{0, 1, 2, 10, 10, 3, 10, 10, 10, 10});
  CHECK(batch.lengths() == std::vector<std::int32_t>{33, 1});
  CHECK(batch.offsets() == std::vector<std::int32_t>{0, 3, 4});
  AttentionArgs args;
  batch.apply(args);
  REQUIRE(args.page_table);
  CHECK(args.page_table->shape == std::vector<std::int64_t>{2, 5});
  CHECK(args.max_seqlen_q == 3);
  CHECK(args.max_seqlen_k == 33);
  pages.append(b, 80);
  CHECK_THROWS_AS(batch.update(pages, sequences, queries), Error);
  CHECK(batch.lengths() == std::vector<std::int32_t>{33, 1});
}
