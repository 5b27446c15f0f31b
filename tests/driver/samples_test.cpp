// Whole applications in the manner of the CUDA samples, built by plain nvcc and run as they are: right, and clean.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "tests/driver/compile.hpp"

TEST_CASE("sample programs are right and clean" * doctest::test_suite("breadth")) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const fs::directory_entry& file : fs::directory_iterator(KILN_SOURCE_DIR "/tests/driver/samples"))
    if (file.path().extension() == ".cu") names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  CHECK(names.size() >= 25);
  for (const std::string& name : names) {
    const bool driver = name == "driver_api" || name == "virtual_memory";
    const std::string program = kiln::test::compile(
        "samples/" + name,
        std::string(kiln::test::kPtx90) + (driver ? " -L/usr/local/cuda/lib64/stubs -lcuda -lnvrtc" : ""));
    if (program.empty()) return;
    const auto r = kiln::test::run_kiln("emulate --gpu H100 -- " + program);
    // 0: the program's own, and nothing found but notes. A failing assertion is what one of them is about.
    CHECK_MESSAGE(r.status == (name == "print_and_assert" ? 1 : 0), name, ": ", r.out, r.err);
    CHECK_MESSAGE(r.out.ends_with("right\n"), name, ": ", r.out);
  }
}

// Blocks count with an atomic, and the last one resets the counter by a plain store: right whichever host thread runs
// which block. More threads than cores change over in the middle of an access.
TEST_CASE("a counter that the last block resets is clean on any number of host threads" *
          doctest::test_suite("breadth")) {
  const std::string program = kiln::test::compile("samples/last_block");
  if (program.empty()) return;
  for (const int threads : {2, 8})
    for (int i = 0; i < 25; ++i) {
      const auto r =
          kiln::test::run_kiln("emulate --gpu H100 --threads " + std::to_string(threads) + " -- " + program);
      INFO(r.out << r.err);
      REQUIRE(r.status == 0);
    }
}
