# A project that takes kiln with add_subdirectory() gets its libraries and no test, no benchmark and no -Werror.
#   cmake -DSOURCE=. -DOUT=folder -DGENERATOR=Ninja -DCXX=compiler -P subdirectory.cmake
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()
# With the generator that kiln itself was built with: a minimal machine has no other.
file(REMOVE_RECURSE ${OUT})
step(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer/subdirectory -B ${OUT} -G ${GENERATOR} -DKILN_SOURCE=${SOURCE} -DCMAKE_CXX_COMPILER=${CXX}
     -DCMAKE_BUILD_TYPE=Debug -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
file(READ ${OUT}/compile_commands.json commands)
if(NOT commands MATCHES "runtime/runtime.cpp")
  message(FATAL_ERROR "kiln's libraries are not part of the build")
endif()
foreach(unwanted "-Werror" "/tests/[a-z_]+/[a-z_]+_test.cpp" "/bench/" "/examples/")
  if(commands MATCHES "${unwanted}")
    message(FATAL_ERROR "add_subdirectory(kiln) builds with ${CMAKE_MATCH_0}")
  endif()
endforeach()
step(${CMAKE_COMMAND} --build ${OUT} --target subdirectory)
step(${OUT}/subdirectory)
