# The installed package serves a project of its own: install, configure examples/attention against it, build, run.
#   cmake -DBUILD=build -DSOURCE=examples/attention -DOUT=folder -DCXX=compiler -P package.cmake
function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()
file(REMOVE_RECURSE ${OUT})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${OUT}/prefix)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${OUT}/build -DCMAKE_PREFIX_PATH=${OUT}/prefix -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Debug)
step(${CMAKE_COMMAND} --build ${OUT}/build)
step(${OUT}/build/kiln_attention emulated)
