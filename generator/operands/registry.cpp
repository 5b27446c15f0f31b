// Every operand kind. A new one is one line here.
#include <algorithm>
#include <array>

#include "generator/operands/operand_form.hpp"

namespace kiln {

std::span<const OperandForm> operand_forms() {
  using Keys = OperandForm::Keys;
  static constexpr std::array forms{
      OperandForm{OperandKind::contiguous, "contiguous", false, Keys::by_batch},
      OperandForm{OperandKind::ragged, "ragged", true, Keys::by_start},
      OperandForm{OperandKind::paged, "paged", true, Keys::in_pages},
      OperandForm{OperandKind::continuous, "continuous", true, Keys::in_block},
  };
  return forms;
}

const OperandForm& operand_form(OperandKind kind) {
  const auto all = operand_forms();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const OperandForm& f) { return f.kind == kind; });
  return found == all.end() ? all.front() : *found;
}

int page_rows(const OperandConfig& operand) {
  return operand_form(operand.kind).pages() ? operand.page_size.value_or(0) : 0;
}

}  // namespace kiln
