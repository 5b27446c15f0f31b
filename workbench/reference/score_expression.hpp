// A score expression's value by its definition, in double: the reference's own reading of the parsed tree,
// independent of the code that the generator emits for it.
#pragma once

#include <vector>

#include "generator/expression/expression.hpp"
#include "workbench/problem/workload.hpp"

namespace kiln {

/// Where a score stands: sequence, query head, query row and key of the sequence, and the sequence's lengths.
struct ScorePlace {
  std::int64_t b = 0, h = 0, q = 0, k = 0, seqlen_q = 0, seqlen_k = 0;
};

/// `captured`: one for each of Expression::tensors.
double evaluate(const expression::Expression& expression, double score, const ScorePlace& place,
                const std::vector<CapturedValues>& captured = {});

}  // namespace kiln
