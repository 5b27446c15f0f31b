# Warnings, sanitizers and ccache: what every target of kiln is compiled with.
find_program(KILN_CCACHE ccache)
if(KILN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths count from the source folder, so that worktrees and fresh clones share one cache. ccache wants
  # that sloppiness where headers are precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${KILN_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Programs run from the build folder on machines with other distributions: keep the C++ runtime inside.
if(NOT KILN_SANITIZE AND NOT KILN_SANITIZE_THREADS AND NOT KILN_FUZZ)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

add_library(kiln_options INTERFACE)
target_include_directories(kiln_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(kiln_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                              -Wnon-virtual-dtor -Woverloaded-virtual $<$<BOOL:${KILN_WERROR}>:-Werror>
                                              $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # g++ 12 sees overlaps in "literal" + std::string (GCC bug 105651)
if(KILN_SANITIZE)
  # A finding ends the program, or no test would fail. g++ 12 sees overflows in instrumented code that are none.
  target_compile_options(kiln_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                                -fno-omit-frame-pointer -g -Wno-error)
  target_link_options(kiln_options INTERFACE -fsanitize=address,undefined)
endif()
if(KILN_SANITIZE_THREADS)
  target_compile_options(kiln_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer -O1
                         $<IF:$<CXX_COMPILER_ID:GNU>,-g1,-gline-tables-only> -Wno-error)
  target_link_options(kiln_options INTERFACE -fsanitize=thread)
endif()
if(KILN_FUZZ)
  # Every library is instrumented: without that the fuzzers are blind. With clang they are libFuzzer's, with g++ those of
  # tests/fuzz/coverage.cpp.
  target_compile_options(kiln_options INTERFACE
    $<IF:$<CXX_COMPILER_ID:GNU>,-fsanitize-coverage=trace-pc,-fsanitize=fuzzer-no-link> -fsanitize=address,undefined
    -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 $<IF:$<CXX_COMPILER_ID:GNU>,-g1,-gline-tables-only> -Wno-error)
  target_link_options(kiln_options INTERFACE -fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_library(kiln_no_coverage STATIC ${PROJECT_SOURCE_DIR}/tests/fuzz/no_coverage.c)
    target_link_libraries(kiln_options INTERFACE kiln_no_coverage)
  endif()
endif()
if(KILN_COVERAGE)
  target_compile_options(kiln_options INTERFACE --coverage -O0 -g)
  target_link_options(kiln_options INTERFACE --coverage)
endif()

# kiln_add_shared(NAME LIBRARY MAP [FOLD]) makes a shared library of a static one; it exports what MAP says, has no symbols
# besides, and appears in the build folder. FOLD: functions with the same code become one where the linker can do that
# (gold, of binutils; those whose address is taken stay apart), which takes 3 % off libkiln.so.
find_program(KILN_LD_GOLD ld.gold)
function(kiln_add_shared name library map)
  add_library(${name} SHARED $<TARGET_OBJECTS:${library}>)
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${library} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} LINK_DEPENDS ${map})
  get_target_property(parts ${library} KILN_PARTS)
  if(parts)
    foreach(part IN LISTS parts)
      target_sources(${name} PRIVATE $<TARGET_OBJECTS:${part}>)
    endforeach()
  endif()
  if("FOLD" IN_LIST ARGN AND KILN_LD_GOLD)
    set(layout -fuse-ld=gold -Wl,--icf=safe)
  else()
    set(layout -Wl,-z,noseparate-code)
  endif()
  target_link_options(${name} PRIVATE -Wl,--version-script=${map} -Wl,--gc-sections ${layout} -Wl,--exclude-libs,ALL -Wl,-z,defs
                      $<$<CONFIG:Release,MinSizeRel>:-s>)
  target_link_libraries(${name} PRIVATE ${library})
endfunction()

# kiln_unity(TARGET [BATCH]) has the sources of each folder compiled together, at most BATCH (16) at a time, where
# KILN_UNITY says so: a cold build parses headers and instantiates templates once a batch. CMake leaves out sources with
# options of their own; those of a kiln_unity_group stay in it.
function(kiln_unity target)
  if(NOT KILN_UNITY)
    return()
  endif()
  set(batch 16)
  if(ARGC GREATER 1)
    set(batch ${ARGV1})
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "^\\$<")
  foreach(source IN LISTS sources)
    get_source_file_property(own ${source} UNITY_GROUP)
    if(own)
      continue()
    endif()
    get_filename_component(path ${source} ABSOLUTE)
    file(RELATIVE_PATH path ${CMAKE_CURRENT_SOURCE_DIR} ${path})
    get_filename_component(folder ${path} DIRECTORY)
    string(MAKE_C_IDENTIFIER "in_${folder}" group)
    list(APPEND groups ${group})
    list(APPEND members_${group} ${source})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    list(LENGTH members_${group} count)
    math(EXPR parts "(${count} + ${batch} - 1) / ${batch}")
    set(index 0)
    foreach(source IN LISTS members_${group})
      math(EXPR part "${index} * ${parts} / ${count}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${part})
      math(EXPR index "${index} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# kiln_unity_group(NAME SOURCE...) has these sources of the calling folder compiled together, whatever folders they are in.
function(kiln_unity_group name)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${name})
endfunction()

# kiln_add_part(PART LIBRARY SOURCE...) moves sources of LIBRARY to an object library, for options of their own; they stay
# part of LIBRARY and of what kiln_add_shared makes of it, and are precompiled for and compiled together among themselves.
function(kiln_add_part part library)
  get_target_property(sources ${library} SOURCES)
  list(REMOVE_ITEM sources ${ARGN})
  set_target_properties(${library} PROPERTIES SOURCES "${sources}")
  add_library(${part} OBJECT ${ARGN})
  kiln_unity(${part})
  target_link_libraries(${part} PRIVATE kiln_options)
  target_include_directories(${part} PRIVATE $<TARGET_PROPERTY:${library},INCLUDE_DIRECTORIES>)
  target_sources(${library} PRIVATE $<TARGET_OBJECTS:${part}>)
  set_property(TARGET ${library} APPEND PROPERTY KILN_PARTS ${part})
endfunction()

# kiln_add_library(NAME) builds every .cpp below the calling folder into a static library.
function(kiln_add_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(${name} STATIC ${sources})
  kiln_unity(${name})
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:kiln_options>)
  target_compile_features(${name} INTERFACE cxx_std_20)  # what the public headers want of who includes them
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
endfunction()

# nlohmann/json.hpp without its two literal operators, which nobody here uses, as <kiln_json.hpp>. They are inline functions
# that parse: g++ makes the parser anew in every source that loads them precompiled, a second each.
function(kiln_json_to_precompile target)
  get_target_property(folders nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
  find_file(KILN_JSON_HEADER nlohmann/json.hpp HINTS ${folders} REQUIRED)
  mark_as_advanced(KILN_JSON_HEADER)
  file(READ ${KILN_JSON_HEADER} text)
  string(REGEX REPLACE "JSON_HEDLEY_NON_NULL\\(1\\)[ \n]*inline nlohmann::json[a-z_:]* operator ?\"\" ?_json[^}]*}" "" text "${text}")
  set(folder ${PROJECT_BINARY_DIR}/precompiled)
  file(CONFIGURE OUTPUT ${folder}/kiln_json.hpp CONTENT "#define JSON_USE_GLOBAL_UDLS 0\n@text@" @ONLY)
  target_include_directories(${target} SYSTEM PRIVATE ${folder})
endfunction()

# kiln_precompile(TARGET HEADER...) precompiles system headers for the sources of TARGET, and kiln_precompile(TARGET FROM OWNER)
# takes those of a target with the same options: half the time of a cold build is spent in them. Only for g++ and Release:
# other builds instrument code, or are for tools that read each source by itself.
function(kiln_precompile target)
  if(NOT KILN_PRECOMPILE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR KILN_SANITIZE
     OR KILN_SANITIZE_THREADS OR KILN_FUZZ OR KILN_COVERAGE)
    return()
  endif()
  if("${ARGV1}" STREQUAL FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
    target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:${ARGV2},COMPILE_DEFINITIONS>)  # as they were precompiled
  else()
    list(TRANSFORM ARGN REPLACE "(.+)" "<\\1>" OUTPUT_VARIABLE headers)
    if("<nlohmann/json.hpp>" IN_LIST headers)
      kiln_json_to_precompile(${target})
      list(TRANSFORM headers REPLACE "nlohmann/json.hpp" kiln_json.hpp)
    endif()
    target_precompile_headers(${target} PRIVATE ${headers})
  endif()
  # g++ 12 forgets that these are the system's headers, and has false warnings about std::string. -fpch-preprocess is ccache's.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess> -Wno-array-bounds -Wno-stringop-overflow)
endfunction()
set(KILN_STANDARD_HEADERS algorithm array bit charconv cmath cstdint cstring functional initializer_list limits map memory mutex
    numeric optional set span string string_view tuple unordered_map utility vector)
