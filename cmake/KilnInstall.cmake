# Installation as the CMake package `kiln`: targets kiln::generator, kiln::runtime, kiln::emulator and
# kiln::code_object, the command, kiln_add_kernels().
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

foreach(part generator code_object emulator runtime parallel)
  set_target_properties(kiln_${part} PROPERTIES EXPORT_NAME ${part})
  add_library(kiln::${part} ALIAS kiln_${part})
endforeach()
# The same function for projects that take kiln with add_subdirectory.
include(${PROJECT_SOURCE_DIR}/cmake/KilnAddKernels.cmake)

if(NOT KILN_INSTALL)
  return()
endif()
install(TARGETS kiln_generator kiln_code_object kiln_emulator kiln_runtime kiln_parallel EXPORT kiln-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET kiln_shared)
  install(TARGETS kiln_shared kiln_parallel_shared kiln_emulator_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(KILN_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
install(EXPORT kiln-targets NAMESPACE kiln:: DESTINATION ${KILN_PACKAGE_DIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/kiln-config.cmake.in ${PROJECT_BINARY_DIR}/kiln-config.cmake
  INSTALL_DESTINATION ${KILN_PACKAGE_DIR} PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kiln-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kiln-config.cmake ${PROJECT_BINARY_DIR}/kiln-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/KilnAddKernels.cmake ${PROJECT_SOURCE_DIR}/cmake/EmbedKernels.cmake
  DESTINATION ${KILN_PACKAGE_DIR})

# Everything that `cmake --install` copies, without tests and benchmarks.
add_custom_target(kiln_installed DEPENDS kiln kiln_generator kiln_code_object kiln_emulator kiln_runtime kiln_parallel)
if(TARGET kiln_shared)
  add_dependencies(kiln_installed kiln_shared kiln_parallel_shared kiln_emulator_shared)
endif()
