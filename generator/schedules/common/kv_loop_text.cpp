#include "generator/schedules/common/kv_loop_text.hpp"

#include <fmt/format.h>

namespace kiln {

void open_if_visible(Writer& w, const Mask& mask, int BN) {
  if (mask.bounded_below()) {
    w.open("if (n * {0} < warp_end && (n + 1) * {0} > warp_begin)", BN);
  } else if (mask.bounded_above()) {
    w.open("if (n * {} < warp_end)", BN);
  } else {
    w.open("");
  }
}

void emit_clear_output(Writer& w, int registers) {
  for (int i = 0; i < registers; i += 8) {
    std::string text;
    for (int j = i; j < i + 8; ++j) text += fmt::format("o_acc[{}] = ", j);
    w.line("{}0.0f;", text);
  }
}

}  // namespace kiln
