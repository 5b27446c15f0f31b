// The stand-ins' declarations against NVIDIA's, member by member.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "driver/runtime/abi.hpp"

std::vector<std::pair<const char*, std::size_t>> cuda_layout();

TEST_CASE("structures have the layout of the headers") {
  const std::vector<std::pair<const char*, std::size_t>> ours = {
#define SIZE(type) {#type, sizeof(type)},
#define OFFSET(type, member) {#type "::" #member, offsetof(type, member)},
#include "tests/driver/layout.inc"
  };
  const auto theirs = cuda_layout();
  if (theirs.empty()) {
    MESSAGE("no headers of CUDA 13: layouts are not compared");
    return;
  }
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    CAPTURE(std::string(ours[i].first));
    CHECK(ours[i].second == theirs[i].second);
  }
}
