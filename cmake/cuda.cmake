# TESSERA_CUDA=AUTO|ON|OFF: whether backend/cuda is built. Sets TESSERA_HAS_CUDA and, if so, enables the language.
#
# sm_90a is Hopper with its own instructions. Nothing of CUDA but the static runtime is linked.
set(TESSERA_CUDA "AUTO" CACHE STRING "NVIDIA GPUs: AUTO (if nvcc is found), ON (must be found), OFF")
set_property(CACHE TESSERA_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TESSERA_HAS_CUDA OFF)
# A sanitizer would find nothing in kernels, and its runtime does not suit the driver.
if(NOT TESSERA_CUDA STREQUAL "OFF" AND NOT TESSERA_SANITIZE)
  include(CheckLanguage)
  find_program(TESSERA_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(TESSERA_NVCC AND NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${TESSERA_NVCC})
  endif()
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
    find_package(CUDAToolkit REQUIRED)
    if(CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    # cuDNN's C++ interface is headers of its own, neither in the toolkit nor in Debian.
    set(TESSERA_CUDNN_FRONTEND ${CMAKE_SOURCE_DIR}/build/third_party/cudnn-frontend/include)
    if(NOT EXISTS ${TESSERA_CUDNN_FRONTEND}/cudnn_frontend.h)
      execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/fetch_cudnn_frontend.sh COMMAND_ERROR_IS_FATAL ANY)
    endif()
    set(TESSERA_HAS_CUDA ON)
  elseif(TESSERA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TESSERA_CUDA=ON, but no nvcc was found")
  endif()
endif()
if(TESSERA_HAS_CUDA)
  message(STATUS "NVIDIA GPUs: yes (${CMAKE_CUDA_COMPILER})")
else()
  message(STATUS "NVIDIA GPUs: no; see TESSERA_CUDA")
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
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${TESSERA_CUDNN_FRONTEND})
  target_link_libraries(${target} PUBLIC CUDA::cudart_static ${CMAKE_DL_LIBS})
endfunction()
