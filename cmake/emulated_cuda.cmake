# tessera_add_emulated_cuda(target): backend/cuda for an emulated GPU (tests/emulated_gpu), compiled by the C++ compiler
# alone. Its .cu and .cuh files are rewritten where they are not C++, and go to ${CMAKE_BINARY_DIR}/emulated; the four
# headers of instructions are the emulated ones, and limits.h is one of smaller limits.

# The GPU itself: CUDA's runtime, and how kernels run.
set(emulator ${PROJECT_SOURCE_DIR}/tests/emulated_gpu)
set(inside_kernels access_report access_watch block_order knowledge matrix_products shared_barrier tensor_map thread_block
  watched_accesses)
set(sources cuda_memory cuda_streams device_memory fiber machine ${inside_kernels})
list(TRANSFORM sources PREPEND ${emulator}/ OUTPUT_VARIABLE sources)
list(TRANSFORM sources APPEND .cpp)
list(TRANSFORM inside_kernels PREPEND ${emulator}/)
list(TRANSFORM inside_kernels APPEND .cpp)
add_library(tessera_emulated_gpu STATIC ${sources})
target_include_directories(tessera_emulated_gpu PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/tests>)
target_include_directories(tessera_emulated_gpu SYSTEM PUBLIC
  "$<BUILD_INTERFACE:${CUDAToolkit_INCLUDE_DIRS};${TESSERA_CUBLASLT}>")
set_property(GLOBAL APPEND PROPERTY TESSERA_MODULES tessera_emulated_gpu)
target_link_libraries(tessera_emulated_gpu PUBLIC Threads::Threads PRIVATE $<BUILD_INTERFACE:tessera_options>)

# Beside the address sanitizer, which watches the host, kernels are watched by access_watch.h: compiled as if for the
# thread sanitizer, they call it at every access. What runs at each of them is optimised, and not watched itself.
set(TESSERA_WATCHED_KERNEL)
if(TESSERA_SANITIZE MATCHES address)
  target_compile_definitions(tessera_emulated_gpu PUBLIC EMULATED_GPU_WATCHES)
  set(TESSERA_WATCHED_KERNEL -fno-sanitize=address -fsanitize=thread --param tsan-instrument-func-entry-exit=0)
  set_source_files_properties(${inside_kernels} PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all;-O2")
endif()
set(TESSERA_WATCHED_KERNEL ${TESSERA_WATCHED_KERNEL} PARENT_SCOPE)

function(tessera_add_emulated_cuda target)
  set(rewrite ${PROJECT_SOURCE_DIR}/cmake/emulate_source.cmake)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/backend/cuda)
  set(out ${CMAKE_BINARY_DIR}/emulated/tessera/backend/cuda)
  file(GLOB kernels CONFIGURE_DEPENDS ${folder}/*.cu ${folder}/*.cuh)
  file(GLOB emulated CONFIGURE_DEPENDS RELATIVE ${emulator}/include/tessera/backend/cuda
    ${emulator}/include/tessera/backend/cuda/*.cuh)
  set(rewritten)
  foreach(file ${kernels})
    get_filename_component(name ${file} NAME)
    if(name IN_LIST emulated)
      continue()
    endif()
    string(REGEX REPLACE "\\.cu$" ".cpp" to ${out}/${name})
    add_custom_command(OUTPUT ${to} COMMAND ${CMAKE_COMMAND} -DFROM=${file} -DTO=${to} -P ${rewrite}
      DEPENDS ${file} ${rewrite} VERBATIM)
    list(APPEND rewritten ${to})
  endforeach()
  target_sources(${target} PRIVATE ${rewritten} ${emulator}/cublas_lt.cpp ${emulator}/cudnn_attention.cpp)
  set_source_files_properties(${rewritten} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_source_files_properties(${folder}/cublas_lt.cpp ${folder}/cudnn_attention.cpp PROPERTIES HEADER_FILE_ONLY ON)
  # As nvcc: its header comes by itself, packs are read through pointers to them, and it does not warn of these.
  set(options -include cuda_runtime.h -fno-strict-aliasing -Wno-unknown-pragmas -Wno-conversion -Wno-pedantic -Wno-shadow
    -Wno-uninitialized -Wno-maybe-uninitialized -Wno-psabi)
  if(TESSERA_SANITIZE MATCHES undefined)  # of it, what is an error on a GPU: the rest takes a third of the compiler's time
    list(APPEND options -fno-sanitize=undefined -fsanitize=alignment,bounds,shift)
  endif()
  list(APPEND options ${TESSERA_WATCHED_KERNEL})
  set_source_files_properties(${rewritten} PROPERTIES COMPILE_OPTIONS "${options}")
  target_include_directories(${target} BEFORE PRIVATE ${emulator}/include ${CMAKE_BINARY_DIR}/emulated
    ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PUBLIC tessera_emulated_gpu)
endfunction()
