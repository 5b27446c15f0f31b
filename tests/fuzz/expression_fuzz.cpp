// Any text is a score expression or an error at a place of it; an expression is emitted as text that does not grow
// faster than it, and has a value wherever a score may stand.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "generator/expression/emit.hpp"
#include "workbench/reference/score_expression.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace expression = kiln::expression;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<kiln::CapturedTensor> tensors{{"bias", kiln::DType::bf16}, {"of", kiln::DType::i32}};
  const bool captured = text.find('[') != std::string_view::npos;
  const auto parsed = expression::parse(text, captured ? tensors : std::vector<kiln::CapturedTensor>{});
  if (const auto* error = std::get_if<expression::ParseError>(&parsed)) {
    const std::string line = expression::describe(*error, text);
    if (error->position > size || line.empty()) std::abort();
    for (const char c : line)
      if (static_cast<unsigned char>(c) < 0x20) std::abort();
    return 0;
  }
  const auto& tree = std::get<expression::Expression>(parsed);
  const std::string code = expression::to_cpp(tree, {});
  if (code.empty() || code.size() > 2000 + 100 * size) std::abort();
  expression::needs_exp2(tree), expression::needs_log2(tree), expression::needs_rcp(tree);
  constexpr std::int64_t kLongest = (std::int64_t{1} << 24) - 1;
  for (const double score : {0.0, -1.5, 3e38, -std::numeric_limits<double>::infinity()}) {
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{7}, kLongest - 1}) {
      const kiln::ScorePlace place{at % 17, at % 130, at, kLongest - 1 - at, kLongest, kLongest};
      std::vector<kiln::CapturedValues> values;
      for (const auto& used : tree.tensors)
        values.push_back({std::vector<std::int64_t>(static_cast<std::size_t>(used.rank()), 1), {2.0F}});
      expression::Expression copy = tree;
      kiln::evaluate(copy, score, place, values);
    }
  }
  return 0;
}
