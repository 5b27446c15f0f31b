// Many small kernels with one mistake each, under every policy of completion: found, and as what it is.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/driver/compile.hpp"

namespace {

struct Kernel {
  int number;
  std::string kind;  ///< empty: it is right
};

void check(const char* name, const std::vector<Kernel>& kernels) {
  const std::string program =
      kiln::test::compile(std::string("programs/") + name,
                          "-lineinfo -gencode arch=compute_90a,code=compute_90a -w -I" KILN_SOURCE_DIR);
  if (program.empty()) return;
  for (const Kernel& k : kernels)
    for (const char* policy : {"eager", "lazy", "random"}) {
      const auto r = kiln::test::run_kiln(fmt::format(
          "emulate --gpu H100 --max-instructions 3000000 --policy {} -- {} {}", policy, program, k.number));
      INFO(name << ' ' << k.number << ' ' << policy << ": " << r.err);
      CHECK((r.status == 0) == k.kind.empty());
      if (!k.kind.empty()) CHECK(("\n" + r.err).find("\n" + k.kind) != std::string::npos);
    }
}

}  // namespace

TEST_CASE("kernels with one mistake around copies, pipelines, clusters and flags" *
          doctest::test_suite("breadth")) {
  check("asynchronous_mistakes", {{1, "async-memory"},
                                  {2, ""},
                                  {3, "async-memory"},
                                  {4, "shared-race"},
                                  {5, "ended-block"},
                                  {6, "global-race"},
                                  {7, "global-race"},
                                  {8, "missing-proxy-fence"},
                                  {9, "missing-proxy-fence"},
                                  {10, "async-memory"},
                                  {11, "warp-race"},
                                  {12, "global-race (undefined)"},
                                  {13, "divergent-barrier (undefined)"},
                                  {14, "uninitialized-read"},
                                  {15, "warp-mask"},
                                  {16, "global-race"}});
}

TEST_CASE("kernels with one mistake around what threads, warps and blocks share" *
          doctest::test_suite("breadth")) {
  check("sharing_mistakes", {{1, "global-race"},
                             {2, "warp-race"},
                             {3, "warp-race"},
                             {4, "async-memory"},
                             {6, "warp-race"},
                             {7, "out-of-bounds"},
                             {8, "out-of-bounds"},
                             {9, "global-race"},
                             {10, ""},
                             {11, "global-race"},
                             {12, "shared-race"},
                             {13, "misaligned"},
                             {14, "out-of-bounds"},
                             {15, "shared-race"},
                             {16, "global-race"}});
}

TEST_CASE("pairs of kernels that differ in one step of synchronisation" * doctest::test_suite("breadth")) {
  const std::string program = kiln::test::compile(
      "programs/twins", "-lineinfo -gencode arch=compute_90a,code=compute_90a -w -I" KILN_SOURCE_DIR);
  if (program.empty()) return;
  const char* kinds[] = {"async-memory", "out-of-bounds", "async-memory", "async-memory", "shared-race",
                         "warp-race",    "warp-race",     "shared-race",  "global-race",  "global-race",
                         "global-race",  "shared-race",   "shared-race",  "global-race",  "shared-race",
                         "async-memory", "shared-race",   "shared-race",  "async-memory", "global-race"};
  for (std::size_t i = 0; i < std::size(kinds); ++i)
    for (const char* policy : {"eager", "lazy", "random"}) {
      const auto run = [&](const char* twin) {
        return kiln::test::run_kiln(
            fmt::format("emulate --gpu H100 --max-instructions 3000000 --policy {} -- {} {} {}", policy,
                        program, i + 1, twin));
      };
      const auto right = run("right"), wrong = run("");
      INFO("twin " << (i + 1) << ' ' << policy << ": " << wrong.err);
      CHECK_MESSAGE(right.status == 0, right.err);
      CHECK(wrong.status != 0);
      CHECK(("\n" + wrong.err).find(std::string("\n") + kinds[i]) != std::string::npos);
    }
}
