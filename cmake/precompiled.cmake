# The headers of libraries that most sources read, compiled once each for programs, for
# code that is also part of the shared library, and for tests. Only in builds with batches: like these, they
# hide an include that a file lacks.
#
# dp_reuse_headers(NAME HEADERS)   lets the target NAME use HEADERS: dp_headers, dp_shareable_headers or
#                                  dp_test_headers

if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(DP_PRECOMPILES ON)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # for ccache
endif()

# Compiles the common headers and these as the target NAME.
function(dp_precompile name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;DEPS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/precompiled/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Nothing: ${name} is its headers.\n")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE dp_options ${ARG_DEPS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE
    <algorithm> <cstdint> <deque> <filesystem> <fstream> <functional> <map> <memory> <optional> <set>
    <string> <thread> <utility> <variant> <vector>
    <absl/algorithm/container.h> <absl/container/flat_hash_map.h> <absl/status/statusor.h>
    <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
    <absl/strings/str_split.h> <absl/time/time.h> <absl/types/span.h>
    ${ARG_UNPARSED_ARGUMENTS})
  if(DP_WITH_GRPC)
    target_precompile_headers(${name} PRIVATE <grpcpp/grpcpp.h>)
  endif()
endfunction()

if(DP_PRECOMPILES)
  dp_precompile(dp_headers)
  dp_precompile(dp_shareable_headers OPTIONS ${DP_SHAREABLE_OPTIONS})
  dp_precompile(dp_test_headers <gmock/gmock.h> <gtest/gtest.h>
    OPTIONS ${DP_TEST_OPTIMIZATION} DEPS GTest::gmock)
endif()

function(dp_reuse_headers name headers)
  if(DP_PRECOMPILES)
    target_precompile_headers(${name} REUSE_FROM ${headers})
  endif()
endfunction()
