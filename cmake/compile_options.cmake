# Compiler flags shared by every target.
#
# The instruction set is named by level instead of -march=native: ccache keys on the flag's text,
# and "native" on two machines is the same text for different code.
set(TESSERA_ARCH "auto" CACHE STRING "auto, or a -march level such as x86-64-v3")
set(arch ${TESSERA_ARCH})
if(arch STREQUAL "auto")
  set(arch "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    file(STRINGS /proc/cpuinfo cpu_flags REGEX "^flags" LIMIT_COUNT 1)
    set(arch "x86-64-v2")
    if(cpu_flags MATCHES " avx512f " AND cpu_flags MATCHES " avx512vl " AND cpu_flags MATCHES " avx512bw "
       AND cpu_flags MATCHES " avx512dq " AND cpu_flags MATCHES " avx512cd ")
      set(arch "x86-64-v4")
    elseif(cpu_flags MATCHES " avx2 " AND cpu_flags MATCHES " fma " AND cpu_flags MATCHES " bmi2 ")
      set(arch "x86-64-v3")
    endif()
  endif()
endif()

set(options
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
  # g++ 12 warns falsely inside std::string's operator+ (GCC bug 105651), and takes a designated
  # initialiser that leaves a default alone for a mistake.
  -Wno-restrict -Wno-missing-field-initializers
  # Kernels are plain loops: no errno from sqrt, no traps, and `omp simd` reductions vectorise.
  # None of these changes a result from run to run; -ffast-math would, so it is absent.
  -fno-math-errno -fno-trapping-math -fopenmp-simd)
if(arch)
  list(APPEND options -march=${arch})
  if(arch STREQUAL "x86-64-v4")
    list(APPEND options -mprefer-vector-width=512)
  endif()
endif()
if(TESSERA_SANITIZE)
  list(APPEND options -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
endif()

add_library(tessera_options INTERFACE)
target_compile_options(tessera_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")  # nvcc has its own
if(TESSERA_SANITIZE)
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()
message(STATUS "instruction set: ${arch}")
