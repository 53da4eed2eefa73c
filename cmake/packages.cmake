# Finds every library that the project uses. Required libraries come from the distribution (scripts/deps
# installs them); optional ones switch a backend on.

include(archives)
option(DP_ARCHIVES "Link archives where the system has them" ON)
option(DP_STATIC "Build a distribution, which also brings the remaining libraries; the dist preset does" OFF)
if(DP_STATIC)
  dp_bundle_libraries()
endif()
if(DP_ARCHIVES OR DP_STATIC)
  dp_prefer_archives()
endif()

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
if(NOT DP_ENGINE_ONLY)
  find_package(spdlog REQUIRED)
endif()
find_package(GTest REQUIRED)
find_package(ZLIB REQUIRED)
# Images of data sets. The engine alone does without.
if(DP_ENGINE_ONLY)
  find_package(PNG QUIET)
  find_package(JPEG QUIET)
else()
  find_package(PNG REQUIRED)
  find_package(JPEG REQUIRED)
endif()

# Debian's package configuration of oneDNN asks for OpenCL's headers, which nothing here needs.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dp_dnnl INTERFACE)
target_include_directories(dp_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dp_dnnl INTERFACE ${DNNL_LIBRARY})

# The allocator of programs that handle very many small messages; the C library's if jemalloc is missing.
# Linked statically, so that hosts of the programs need no other package.
add_library(dp_allocator INTERFACE)
find_library(JEMALLOC_LIBRARY libjemalloc_pic.a)
if(JEMALLOC_LIBRARY AND NOT DP_SANITIZE)
  target_link_libraries(dp_allocator INTERFACE ${JEMALLOC_LIBRARY})
  target_sources(dp_allocator INTERFACE ${CMAKE_SOURCE_DIR}/base/program/allocator_settings.cc)
endif()

find_path(GLOO_INCLUDE_DIR gloo/context.h)
find_library(GLOO_LIBRARY gloo)
if(GLOO_INCLUDE_DIR AND GLOO_LIBRARY)
  add_library(dp_gloo INTERFACE)
  target_include_directories(dp_gloo SYSTEM INTERFACE ${GLOO_INCLUDE_DIR})
  target_link_libraries(dp_gloo INTERFACE ${GLOO_LIBRARY})
endif()

# A tarball serves hosts with another MPI, or none.
if(NOT DP_STATIC)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    add_library(dp_mpi INTERFACE)
    target_include_directories(dp_mpi SYSTEM INTERFACE ${MPI_CXX_INCLUDE_DIRS})
    list(FILTER MPI_CXX_LIBRARIES EXCLUDE REGEX mpi_cxx)  # the bindings for C++, which nobody uses
    target_link_libraries(dp_mpi INTERFACE ${MPI_CXX_LIBRARIES})
    target_compile_definitions(dp_mpi INTERFACE OMPI_SKIP_MPICXX)
  endif()
endif()

if(DP_WITH_GRPC)
  set(CMAKE_FIND_PACKAGE_PREFER_CONFIG OFF)
  # Since 22, Protocol Buffers need abseil, which only their own configuration names. Debian's 3.21 has none.
  find_package(Protobuf CONFIG QUIET)
  if(NOT Protobuf_FOUND)
    find_package(Protobuf REQUIRED)
  endif()
  find_package(gRPC REQUIRED CONFIG)
  # Later releases deprecate functions whose successors 1.51, of Debian 12, does not have.
  if(gRPC_VERSION VERSION_GREATER_EQUAL 1.52)
    target_compile_options(dp_options INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=deprecated-declarations>)
  endif()
  find_package(SQLite3 REQUIRED)
  find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
  find_package(yaml-cpp REQUIRED)
  find_package(CLI11 REQUIRED)
endif()

# The toolkit's compiler alone does not prove that its libraries exist.
find_package(CUDAToolkit QUIET)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
include(cuda)

if(DP_ARCHIVES OR DP_STATIC)
  dp_use_archives()
endif()
