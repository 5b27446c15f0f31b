// Links relocatable PTX: what nvcc -rdc=true leaves to the driver, and cuLinkAddData.
#pragma once

#include <string>
#include <vector>

namespace kiln::driver {

/// One module of several: definitions take the place of what others declare, names that only their module knows are
/// made different, and modules without kernels come in if something refers to them. Empty `problem`: it worked.
std::string link_ptx(const std::vector<std::string>& texts, std::string& problem);

}  // namespace kiln::driver
