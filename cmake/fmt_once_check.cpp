// Links when fmt_once.cpp defines what formatting needs with the installed version of fmt.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

int main() {
  const std::vector<int> values{1, 2};
  const std::string text =
      fmt::format("{} {:.3f} {:g} {:#x} {:>8} {} {}", 1, 2.5, 1e300, 255u, "x", 1.0f, fmt::join(values, ","));
  return text.empty() ? 1 : 0;
}
