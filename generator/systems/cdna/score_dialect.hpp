// How HIP code spells what score modifiers need: there is no hardware tanh.
#pragma once

#include "generator/systems/score_mod.hpp"

namespace kiln::cdna {

inline ScoreDialect score_dialect() {
  ScoreDialect dialect;
  dialect.tanh = "";
  dialect.names.sqrt = "__builtin_sqrtf", dialect.names.floor = "__builtin_floorf";
  dialect.names.abs = "__builtin_fabsf", dialect.names.min = "__builtin_fminf";
  dialect.names.max = "__builtin_fmaxf";
  dialect.names.int_abs = "__builtin_abs", dialect.names.int_min = "min_of", dialect.names.int_max = "max_of";
  return dialect;
}

}  // namespace kiln::cdna
