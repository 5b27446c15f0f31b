#include "generator/schedules/common/cdna_pages.hpp"

#include <string>

#include <fmt/format.h>

#include "base/integers.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/operands/operand_form.hpp"

namespace kiln::cdna {

void refuse_pages(const Config& user, const Config& config, std::string_view name, int row_bytes,
                  Violations& out) {
  const int rows = 256 / row_bytes;
  refuse_value(user, "/operand/page_size", fmt::format("{} copies {} rows of a page at once", name, rows),
               std::to_string(align_up(page_rows(*config.operand), rows)), out);
}

}  // namespace kiln::cdna
