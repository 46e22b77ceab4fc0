# TESSERA_CUDA=AUTO|ON|OFF: whether backend/cuda is built. Sets TESSERA_HAS_CUDA and, if so, enables the language.
# Where CUDA cannot be used, AUTO goes without and says why; ON stops there. EMULATED builds it for a GPU that is
# emulated, for tests (tests/emulated_gpu), where CUDA's toolkit is: that sets TESSERA_EMULATED_CUDA instead.
#
# sm_90a is Hopper with its own instructions. Nothing of CUDA but the static runtime is linked.
set(TESSERA_CUDA "AUTO" CACHE STRING "NVIDIA GPUs: AUTO (if CUDA can be used), ON (it must be), OFF, EMULATED")
set_property(CACHE TESSERA_CUDA PROPERTY STRINGS AUTO ON OFF EMULATED)
if(NOT TESSERA_CUDA MATCHES "^(AUTO|ON|OFF|EMULATED)$")
  message(FATAL_ERROR "TESSERA_CUDA: found ${TESSERA_CUDA}, expected AUTO, ON, OFF or EMULATED")
endif()
set(TESSERA_HAS_CUDA OFF)
set(TESSERA_EMULATED_CUDA OFF)
set(oldest_cuda 12.5)  # the first with cudaGetDriverEntryPointByVersion
# cuDNN's C++ interface is headers of its own, neither in the toolkit nor in Debian.
set(TESSERA_CUDNN_FRONTEND ${CMAKE_SOURCE_DIR}/build/third_party/cudnn-frontend/include)

set(obstacle "")
if(TESSERA_CUDA STREQUAL "OFF")
  set(obstacle "TESSERA_CUDA is OFF")
elseif(TESSERA_CUDA STREQUAL "EMULATED")
  find_package(CUDAToolkit QUIET)
  find_path(TESSERA_CUBLASLT cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT CUDAToolkit_FOUND OR NOT TESSERA_CUBLASLT)
    set(obstacle "none emulated, either, without CUDA's toolkit")
  elseif(CUDAToolkit_VERSION VERSION_LESS ${oldest_cuda})
    set(obstacle "none emulated, either, with CUDA ${CUDAToolkit_VERSION}, older than ${oldest_cuda}")
  elseif(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(obstacle "none emulated, either, on ${CMAKE_SYSTEM_PROCESSOR}")
  else()
    set(obstacle "but an emulated one")
    set(TESSERA_EMULATED_CUDA ON)
  endif()
elseif(TESSERA_SANITIZE)
  set(obstacle "a sanitizer would find nothing in kernels, and its runtime does not suit the driver")
else()
  include(CheckLanguage)
  find_program(TESSERA_NVCC nvcc PATHS /usr/local/cuda/bin)
  # By the environment: check_language tries no compiler that is set, and some CMake's own choice of an architecture is
  # one that nvcc 13 has no more.
  if(TESSERA_NVCC AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${TESSERA_NVCC})
  endif()
  set(ENV{CUDAARCHS} 90)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    set(CMAKE_CUDA_FLAGS_RELEASE -O3)  # as for C++: assertions stay
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows no C++20 of nvcc 13
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    if(CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    find_package(CUDAToolkit QUIET)
    find_path(TESSERA_CUBLASLT cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_path(TESSERA_CUDNN cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS ${oldest_cuda})
      set(obstacle "${CMAKE_CUDA_COMPILER} is of CUDA ${CMAKE_CUDA_COMPILER_VERSION}, older than ${oldest_cuda}")
    elseif(NOT CUDAToolkit_FOUND)
      set(obstacle "there is no whole toolkit around ${CMAKE_CUDA_COMPILER}")
    elseif(NOT TESSERA_CUBLASLT)
      set(obstacle "there is no cublasLt.h; -DTESSERA_CUBLASLT=FOLDER says where it is")
    elseif(NOT TESSERA_CUDNN)
      set(obstacle "there is no cudnn.h; -DTESSERA_CUDNN=FOLDER says where it is")
    elseif(NOT EXISTS ${TESSERA_CUDNN_FRONTEND}/cudnn_frontend.h)
      execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/fetch_cudnn_frontend.sh RESULT_VARIABLE failed)
      if(failed)
        set(obstacle "scripts/fetch_cudnn_frontend.sh got no headers of cuDNN's C++ interface")
      endif()
    endif()
  elseif(TESSERA_NVCC)
    set(obstacle "${TESSERA_NVCC} compiles nothing here; the logs in ${CMAKE_BINARY_DIR}/CMakeFiles say why")
  else()
    set(obstacle "no nvcc was found")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)  # another time there may be one
    unset(CMAKE_CUDA_COMPILER CACHE)
    unset(TESSERA_NVCC CACHE)
  endif()
  if(obstacle AND TESSERA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TESSERA_CUDA=ON, but ${obstacle}")
  endif()
endif()
if(obstacle)
  message(STATUS "NVIDIA GPUs: no: ${obstacle}")
else()
  set(TESSERA_HAS_CUDA ON)
  message(STATUS "NVIDIA GPUs: yes (${CMAKE_CUDA_COMPILER})")
endif()

# tessera_add_cuda(target): the .cu files of backend/cuda, which tessera_module does not see.
function(tessera_add_cuda target)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/backend/cuda/*.cu)
  target_sources(${target} PRIVATE ${sources})
  set(options -gencode=arch=compute_90a,code=sm_90a
    # philox() and friends are constexpr host functions that kernels call.
    --expt-relaxed-constexpr
    # fmt 9 takes nvcc for a compiler without constexpr and then contradicts itself.
    -DFMT_USE_CONSTEXPR=1
    -Werror=all-warnings -Xcompiler=-Wall,-Wextra)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${options}>")
  # cuDNN's headers take minutes to optimise, for code that only describes graphs.
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/backend/cuda/cudnn_attention.cpp PROPERTIES COMPILE_OPTIONS -O0)
  target_compile_definitions(${target} PRIVATE TESSERA_CUDA_LIBRARY_DIR="${CUDAToolkit_LIBRARY_DIR}")
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${TESSERA_CUBLASLT} ${TESSERA_CUDNN}
    ${TESSERA_CUDNN_FRONTEND})
  target_link_libraries(${target} PUBLIC CUDA::cudart_static ${CMAKE_DL_LIBS})
endfunction()
