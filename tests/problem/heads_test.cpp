// Head counts that a problem has by default: one rule for the ladder and the command.
#include "workbench/problem/heads.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace kiln;

namespace {

using Count = std::optional<std::int64_t>;

std::string counts(const Config& config, Count q, Count kv, HeadCounts usual) {
  const HeadCounts heads = head_counts(config, q, kv, usual);
  return std::to_string(heads.q) + "/" + std::to_string(heads.kv);
}

}  // namespace

TEST_CASE("heads that nobody chose are the usual ones") {
  CHECK(counts({}, {}, {}, {2, 2}) == "2/2");
  CHECK(counts({}, {}, {}, {8, 2}) == "8/2");
}

TEST_CASE("one known head count gives the other by the usual queries a KV head") {
  CHECK(counts({}, 12, {}, {8, 2}) == "12/3");
  CHECK(counts({}, {}, 3, {8, 2}) == "12/3");
  CHECK(counts({}, 5, {}, {2, 2}) == "5/5");
  CHECK(counts({}, {}, 5, {2, 2}) == "5/5");
  // 6 heads make no groups of 4: a KV head each.
  CHECK(counts({}, 6, {}, {8, 2}) == "6/6");
}

TEST_CASE("a kernel made for head counts has them, but for those that are asked for") {
  Config made;
  made.num_q_heads = 8;
  CHECK(counts(made, {}, {}, {2, 1}) == "8/4");
  made.kv_num_heads = 2;
  CHECK(counts(made, {}, {}, {2, 1}) == "8/2");
  CHECK(counts(made, {}, 4, {2, 1}) == "8/4");
  CHECK(counts(made, 16, {}, {2, 1}) == "16/2");
  made.num_q_heads.reset();
  CHECK(counts(made, {}, {}, {8, 1}) == "16/2");
  CHECK(counts(made, 6, 3, {8, 1}) == "6/3");
}
