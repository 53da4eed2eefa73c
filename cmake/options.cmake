# Language level, warnings, sanitizers and output folders. Every target inherits these.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()
# DP_CHECK works in release builds; assert() is not used. Presets add debug information.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

set(DP_SANITIZE "" CACHE STRING "address (with undefined), thread or fuzzer; empty for none")
if(DP_SANITIZE)
  # Instrumented code takes long to optimise, and runs once.
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")
endif()
option(DP_WITH_GRPC "Build what links gRPC; the thread sanitizer preset leaves it out" ON)
option(DP_ENGINE_ONLY "Build the engine with its tests alone: needs abseil, oneDNN, zlib and GoogleTest" OFF)
if(DP_ENGINE_ONLY)
  set(DP_WITH_GRPC OFF)
endif()

# Tests run once: optimising them takes longer than it saves, unless they compute for seconds.
set(DP_TEST_OPTIMIZATION $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O0>)
set(DP_COMPUTING_TEST_OPTIMIZATION $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)

# For code that is part of a shared library as well. Nothing may replace its functions, so calls can be inlined.
set(DP_SHAREABLE_OPTIONS -fPIC)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND DP_SHAREABLE_OPTIONS -fno-semantic-interposition)
endif()

add_library(dp_options INTERFACE)
target_include_directories(dp_options INTERFACE ${CMAKE_SOURCE_DIR})
# For the C++ compiler only; nvcc spells its options differently. gRPC's users get -pthread in any case; with it,
# all sources can share precompiled headers.
target_compile_options(dp_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-pthread;-Wall;-Wextra;-Werror;-Wno-missing-field-initializers>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(dp_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>)
endif()

if(DP_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The sanitizers' checks make this warning report paths that do not exist (see GCC's manual).
    target_compile_options(dp_options INTERFACE -Wno-maybe-uninitialized)
  endif()
elseif(DP_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=thread)
elseif(DP_SANITIZE STREQUAL "fuzzer")
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
elseif(DP_SANITIZE)
  message(FATAL_ERROR "DP_SANITIZE is '${DP_SANITIZE}'; use address, thread, fuzzer or nothing")
endif()

if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In a unity build every source is an included file, and this warning assumes that others include it too.
  target_compile_options(dp_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  # The memory, in KiB, up to which the compiler collects no garbage. A batch exceeds the default many times over.
  target_compile_options(dp_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=600000>)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
