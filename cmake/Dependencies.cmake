# Debian packages, found as they are installed; compilers of kernels and drivers are opened at run time, never here.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)
find_path(KILN_DLPACK dlpack/dlpack.h REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED libxxhash)
pkg_check_modules(ZSTD REQUIRED libzstd)

# spdlog and fmt header-only and the two compressors from their archives: one self-contained binary.
find_package(spdlog REQUIRED)
find_library(KILN_XXHASH NAMES libxxhash.a xxhash REQUIRED)
find_library(KILN_ZSTD NAMES libzstd.a zstd REQUIRED)
add_library(kiln_xxhash INTERFACE)
target_link_libraries(kiln_xxhash INTERFACE ${KILN_XXHASH})
add_library(kiln_zstd INTERFACE)
target_link_libraries(kiln_zstd INTERFACE ${KILN_ZSTD})
