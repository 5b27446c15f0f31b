// A kernel of Blackwell that is built without its target's own instructions, as for plain sm_100, traps.
#pragma once

#include <kiln/types.hpp>

#include "generator/emit/writer.hpp"

namespace kiln::sm100 {

/// Up to `#else`; the body and `#endif` follow.
void emit_plain_build(Writer& w, Target target);

}  // namespace kiln::sm100
