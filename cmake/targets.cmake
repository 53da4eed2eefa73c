include(precompiled)

# dp_library(NAME SOURCES... DEPS LIBS...)   a static library, one a folder; SHAREABLE: also part of
#                                            libdp_distributed
# dp_binary(NAME SOURCES... DEPS LIBS...)    a program in build/bin
# dp_tests(NAME SOURCES... DEPS LIBS...)     the tests of one folder: one program, one ctest entry; COMPUTES: it
#                                            computes for seconds
# dp_source_options(SOURCE OPTIONS...)       compiles one source with further options

function(dp_library name)
  cmake_parse_arguments(ARG "SHAREABLE" "" "DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC dp_options ${ARG_DEPS})
  if(ARG_SHAREABLE)
    target_compile_options(${name} PRIVATE ${DP_SHAREABLE_OPTIONS})
    dp_reuse_headers(${name} dp_shareable_headers)
  else()
    dp_reuse_headers(${name} dp_headers)
  endif()
endfunction()

function(dp_binary name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE dp_options ${ARG_DEPS})
  dp_reuse_headers(${name} dp_headers)
endfunction()

# gold links the many tests in half the time of the default linker.
find_program(GOLD ld.gold)

function(dp_tests name)
  cmake_parse_arguments(ARG "COMPUTES" "" "DEPS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE dp_options ${ARG_DEPS} dp_test_main GTest::gmock)
  if(ARG_COMPUTES)
    target_compile_options(${name} PRIVATE ${DP_COMPUTING_TEST_OPTIMIZATION})
  else()
    target_compile_options(${name} PRIVATE ${DP_TEST_OPTIMIZATION})
    dp_reuse_headers(${name} dp_test_headers)
  endif()
  if(GOLD)
    target_link_options(${name} PRIVATE $<$<LINK_LANGUAGE:CXX>:-fuse-ld=gold>)
  endif()
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# Precompiled headers serve only sources with their own options: with others, GCC ends by a segmentation fault.
function(dp_source_options source)
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
