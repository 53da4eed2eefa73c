# Sets DP_WITH_CUDA if the CUDA device can be built: nvcc, cuBLASLt and cuDNN are all there. The sanitizers'
# instrumentation and nvcc's host compiler do not work together. DP_CUDA_HEADERS: at least the headers are
# there, which is enough to test kernels on the host.

set(DP_WITH_CUDA OFF)
set(DP_CUDA_HEADERS OFF)
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(CUDAToolkit_FOUND AND CUDNN_INCLUDE_DIR)
  set(DP_CUDA_HEADERS ON)
endif()
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})

if(NOT DP_SANITIZE AND TARGET CUDA::cublasLt AND CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  # A distribution (DP_STATIC) has machine code for each GPU generation, so that no driver compiles at a
  # program's start. For later generations it has the last one's PTX. Other builds have an A100's PTX, which
  # the driver compiles once, and an H100's machine code made from it: nvcc takes time for each architecture.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    if(NOT DP_STATIC)
      set(CMAKE_CUDA_ARCHITECTURES OFF)
      set(DP_CUDA_CODE --generate-code=arch=compute_80,code=[compute_80,sm_90])
    elseif(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 120)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(DP_WITH_CUDA ON)
  endif()
endif()

option(DP_REQUIRE_CUDA "Fail if the CUDA device cannot be built" OFF)
if(DP_REQUIRE_CUDA AND NOT DP_WITH_CUDA)
  message(FATAL_ERROR "no GPU trainer can be built: cuDNN's header is ${CUDNN_INCLUDE_DIR}, its library "
    "${CUDNN_LIBRARY}; install cuDNN for CUDA ${CUDAToolkit_VERSION_MAJOR}, or set CMAKE_PREFIX_PATH to its folder")
endif()

if(DP_WITH_CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # CMake 3.25 does not know nvcc's option for it.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()

  # The include folders and libraries of the device's host code.
  add_library(dp_cuda INTERFACE)
  target_include_directories(dp_cuda SYSTEM INTERFACE
    ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR})
  target_link_libraries(dp_cuda INTERFACE CUDA::cudart_static CUDA::cublasLt ${CUDNN_LIBRARY})
endif()
