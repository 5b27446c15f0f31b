// Both trace forms, and what is not a trace.
#include <doctest/doctest.h>

#include <kiln/error.hpp>
#include <random>
#include <sstream>

#include "workbench/files/trace.hpp"

using namespace kiln;

namespace {

std::vector<std::int64_t> read(const std::string& text, std::size_t requests = 0,
                               std::int64_t max_length = 0) {
  std::istringstream in(text);
  return read_trace(in, "t", requests, max_length);
}

}  // namespace

TEST_CASE("CSV and JSON lines") {
  const std::vector<std::int64_t> wanted{374, 0, 2048};
  CHECK(read("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,374,44\nx,0,1\nx,2048,1\n") ==
        wanted);
  CHECK(read("\xef\xbb\xbf\"ContextTokens\",note\r\n374,\"a, \"\"b\"\"\"\r\n0,\r\n2048,y") == wanted);
  CHECK(read("{\"timestamp\": 0, \"input_length\": 374}\n\n{\"input_length\": 0}\n{\"hash_ids\": [1], "
             "\"input_length\": 2048}") == wanted);
}

TEST_CASE("the first requests only, and cut") {
  CHECK(read("ContextTokens\n5\n700\n3\nnonsense\n", 3, 100) == std::vector<std::int64_t>{5, 100, 3});
}

TEST_CASE("what is not a trace is refused with its line") {
  CHECK_THROWS_AS(read(""), Error);
  CHECK_THROWS_AS(read("ContextTokens\n"), Error);
  CHECK_THROWS_WITH_AS(read("a,b\n1,2\n"), doctest::Contains("t:1: neither"), Error);
  CHECK_THROWS_WITH_AS(read("a,ContextTokens\n1,2\n1\n"), doctest::Contains("t:3: no ContextTokens field"),
                       Error);
  CHECK_THROWS_WITH_AS(read("ContextTokens\n-1\n"), doctest::Contains("t:2: '-1'"), Error);
  CHECK_THROWS_WITH_AS(read("ContextTokens\n1e999\n"), doctest::Contains("t:2:"), Error);
  CHECK_THROWS_WITH_AS(read("ContextTokens\n1.5\n"), doctest::Contains("t:2:"), Error);
  CHECK_THROWS_WITH_AS(read("{\"input_length\": \"7\"}\n"), doctest::Contains("t:1:"), Error);
  CHECK_THROWS_WITH_AS(read("{\"input_length\": 7}\n{\"input\": 7}\n"),
                       doctest::Contains("t:2: no 'input_length'"), Error);
  CHECK_THROWS_WITH_AS(read("{\"input_length\": 7}\n{broken\n"), doctest::Contains("t:2: not a JSON object"),
                       Error);
  CHECK_THROWS_WITH_AS(read(std::string(std::size_t{17} << 20, 'x')), doctest::Contains("longer than 16 MiB"),
                       Error);
}

TEST_CASE("brackets without end are refused, not written into the message") {
  const std::string deep(300000, '['), end(300000, ']');
  CHECK_THROWS_WITH_AS(read("{\"input_length\": " + deep + end + "}\n"), doctest::Contains("t:1: nested"),
                       Error);
  CHECK(read("{\"note\": \"" + deep + "\\\"[\", \"input_length\": 3}\n") == std::vector<std::int64_t>{3});
}

TEST_CASE("random bytes never crash") {
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    std::string text = round % 2 == 0 ? "a,ContextTokens\n" : "{\"input_length\": 3}\n";
    for (unsigned i = 0; i < random() % 60; ++i)
      text += "0123456789,{}\"\n\r.e-xinput_length: "[random() % 35];
    try {
      for (const std::int64_t length : read(text)) REQUIRE(length >= 0);
    } catch (const Error&) {
    }
  }
}
