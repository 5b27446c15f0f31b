# Debian packages, found as they are installed; compilers of kernels and drivers are opened at run time, never here.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)
find_path(KILN_DLPACK dlpack/dlpack.h REQUIRED)

# fmt's functions compiled once where its version allows it, else header-only; the two compressors from their archives: one
# self-contained binary.
add_library(kiln_fmt INTERFACE)
try_compile(KILN_FMT_ONCE ${PROJECT_BINARY_DIR}/fmt_once
  SOURCES ${PROJECT_SOURCE_DIR}/cmake/fmt_once.cpp ${PROJECT_SOURCE_DIR}/cmake/fmt_once_check.cpp
  CMAKE_FLAGS -DCMAKE_CXX_STANDARD=20)
if(KILN_FMT_ONCE)
  get_target_property(fmt_headers fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(kiln_fmt SYSTEM INTERFACE ${fmt_headers})
else()
  target_link_libraries(kiln_fmt INTERFACE fmt::fmt-header-only)
endif()
find_library(KILN_XXHASH NAMES libxxhash.a xxhash REQUIRED)
find_library(KILN_ZSTD NAMES libzstd.a zstd REQUIRED)
find_path(KILN_XXHASH_HEADERS xxhash.h REQUIRED)
find_path(KILN_ZSTD_HEADERS zstd.h REQUIRED)
add_library(kiln_xxhash INTERFACE)
target_include_directories(kiln_xxhash SYSTEM INTERFACE ${KILN_XXHASH_HEADERS})
target_link_libraries(kiln_xxhash INTERFACE ${KILN_XXHASH})
add_library(kiln_zstd INTERFACE)
target_include_directories(kiln_zstd SYSTEM INTERFACE ${KILN_ZSTD_HEADERS})
target_link_libraries(kiln_zstd INTERFACE ${KILN_ZSTD})
