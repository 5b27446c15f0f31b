# kiln_add_kernels(TARGET CONFIGS a.json b.json... [EMIT source|cubin|hsaco])
#
# Generates kernels while the project is built and puts them into the static library TARGET. Its header <TARGET.hpp> has
# `std::span<const kiln::EmbeddedKernel> TARGET::kernels()`; Runtime::load() takes each. With EMIT cubin (or hsaco) they
# are compiled too, and the program needs no kernel compiler where it runs.
set(KILN_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/EmbedKernels.cmake)

function(kiln_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EMIT" "CONFIGS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_CONFIGS)
    message(FATAL_ERROR "kiln_add_kernels(TARGET CONFIGS ... [EMIT source|cubin|hsaco])")
  endif()
  if(NOT arg_EMIT)
    set(arg_EMIT source)
  elseif(NOT arg_EMIT MATCHES "^(source|cubin|hsaco)$")
    message(FATAL_ERROR "kiln_add_kernels: EMIT is ${arg_EMIT}; use source, cubin or hsaco")
  endif()
  if(TARGET kiln)
    set(command $<TARGET_FILE:kiln>)
    set(tool kiln)
  else()
    set(command ${KILN_COMMAND})
    set(tool ${KILN_COMMAND})
  endif()

  set(root ${CMAKE_CURRENT_BINARY_DIR}/${target}.kernels)
  set(folders "")
  set(stamps "")
  foreach(config IN LISTS arg_CONFIGS)
    get_filename_component(config ${config} ABSOLUTE)
    get_filename_component(stem ${config} NAME_WE)
    list(LENGTH folders index)
    set(folder ${root}/${index}-${stem})
    set(compile "")
    if(NOT arg_EMIT STREQUAL "source")
      set(compile COMMAND ${command} compile ${config} --emit ${arg_EMIT} --out ${folder}/image)
    endif()
    add_custom_command(OUTPUT ${folder}/stamp
      COMMAND ${CMAKE_COMMAND} -E rm -rf ${folder}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${command} generate ${config} --out ${folder}
      ${compile}
      COMMAND ${CMAKE_COMMAND} -E touch ${folder}/stamp
      DEPENDS ${config} ${tool} COMMENT "kiln: ${stem} (${arg_EMIT})" VERBATIM)
    list(APPEND folders ${folder})
    list(APPEND stamps ${folder}/stamp)
  endforeach()

  list(JOIN folders "|" joined)
  add_custom_command(OUTPUT ${root}/${target}.cpp ${root}/include/${target}.hpp
    COMMAND ${CMAKE_COMMAND} -DTARGET=${target} -DROOT=${root} "-DFOLDERS=${joined}" -P ${KILN_EMBED_SCRIPT}
    DEPENDS ${stamps} ${KILN_EMBED_SCRIPT} COMMENT "kiln: embedding ${target}" VERBATIM)
  add_library(${target} STATIC ${root}/${target}.cpp ${root}/include/${target}.hpp)
  target_include_directories(${target} PUBLIC ${root}/include)
  target_link_libraries(${target} PUBLIC kiln::runtime)
  target_compile_features(${target} PUBLIC cxx_std_20)
endfunction()
