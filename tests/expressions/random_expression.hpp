// Random text of the expression language.
#pragma once

#include <random>
#include <string>

namespace kiln::test {

/// Text of an expression of a real, operands nested about `depth` deep: every operator and function occurs,
/// constants from 0 to the least and largest float among them, also spellings such as "+ -x" and ".5e-3".
std::string random_expression(std::mt19937_64& random, int depth);

}  // namespace kiln::test
