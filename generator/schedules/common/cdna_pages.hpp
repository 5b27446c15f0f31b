// Pages of K and V as the CDNA planners ask about them.
#pragma once

#include <string_view>

#include "generator/schedules/schedule.hpp"

namespace kiln::cdna {

/// Refuses pages that do not hold whole direct copies to LDS, each of 256 bytes of rows of `row_bytes`: "NAME copies ...".
/// `user` is what the message quotes.
void refuse_pages(const Config& user, const Config& config, std::string_view name, int row_bytes,
                  Violations& out);

}  // namespace kiln::cdna
