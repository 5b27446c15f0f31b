# The installed package serves projects of their own: install, then configure, build and run each against it.
#   cmake -DBUILD=build -DSOURCE=. -DOUT=folder -DGENERATOR=Ninja -DCXX=compiler -DRELEASE=1 -P package.cmake
function(run expected)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL expected)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nstatus ${status}, ${expected} expected\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
function(project name source)
  run(0 ${CMAKE_COMMAND} -G ${GENERATOR} -S ${source} -B ${OUT}/${name} -DCMAKE_PREFIX_PATH=${OUT}/prefix -DCMAKE_CXX_COMPILER=${CXX}
      -DCMAKE_BUILD_TYPE=Debug)
  run(0 ${CMAKE_COMMAND} --build ${OUT}/${name})
endfunction()
function(says text)
  if(NOT output MATCHES "${text}")
    message(FATAL_ERROR "'${text}' expected in: ${output}")
  endif()
endfunction()

# With the generator that kiln itself was built with: a minimal machine has no other.
file(REMOVE_RECURSE ${OUT})
run(0 ${CMAKE_COMMAND} --install ${BUILD} --prefix ${OUT}/prefix)
# The library folder's own files: the Python package in lib/python has a copy beside its module.
file(GLOB emulator ${OUT}/prefix/lib*/libkiln_emulator.so ${OUT}/prefix/lib/*-linux-gnu/libkiln_emulator.so)
file(GLOB kiln ${OUT}/prefix/lib*/libkiln.so ${OUT}/prefix/lib/*-linux-gnu/libkiln.so)

# libkiln.so is what a serving program loads: without the emulated device it stays small.
file(SIZE ${kiln} bytes)
if(RELEASE AND bytes GREATER 4000000)
  message(FATAL_ERROR "libkiln.so has ${bytes} bytes, 4000000 are the limit")
endif()

project(attention ${SOURCE}/examples/attention)
run(0 ${OUT}/attention/kiln_attention emulated)
project(emulator_alone ${SOURCE}/tests/consumer/emulator_alone)
run(0 ${OUT}/emulator_alone/emulator_alone)

# The emulated device's library: missing, named, wrong, beside the program, in the lib/ beside its folder.
project(runtime_alone ${SOURCE}/tests/consumer/runtime_alone)
set(program ${OUT}/runtime_alone/runtime_alone)
unset(ENV{KILN_EMULATOR})
run(3 ${program})
says("needs libkiln_emulator.so, which is not in ${OUT}/runtime_alone .*KILN_EMULATOR")
run(0 ${CMAKE_COMMAND} -E env KILN_EMULATOR=${emulator} ${program})
says("device emulated")
run(3 ${CMAKE_COMMAND} -E env KILN_EMULATOR=${OUT}/none.so ${program})
says("KILN_EMULATOR: ${OUT}/none.so")
run(3 ${CMAKE_COMMAND} -E env KILN_EMULATOR=${kiln} ${program})
says("not the emulated device's library")
file(COPY ${emulator} DESTINATION ${OUT}/runtime_alone)
run(0 ${program})
file(COPY ${program} DESTINATION ${OUT}/moved/bin)
file(COPY ${emulator} DESTINATION ${OUT}/moved/lib)
run(0 ${OUT}/moved/bin/runtime_alone)
