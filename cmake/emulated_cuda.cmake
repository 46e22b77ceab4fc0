# tessera_add_emulated_cuda(target): backend/cuda for an emulated GPU (tests/emulated_gpu), compiled by the C++ compiler
# alone. Its .cu and .cuh files are rewritten where they are not C++, and go to ${CMAKE_BINARY_DIR}/emulated; the four
# headers of instructions are the emulated ones.

# The GPU itself: CUDA's runtime, and how kernels run.
set(emulator ${PROJECT_SOURCE_DIR}/tests/emulated_gpu)
add_library(tessera_emulated_gpu STATIC ${emulator}/cuda_memory.cpp ${emulator}/cuda_streams.cpp ${emulator}/fiber.cpp
  ${emulator}/machine.cpp ${emulator}/tensor_map.cpp ${emulator}/thread_block.cpp)
target_include_directories(tessera_emulated_gpu PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/tests>)
target_include_directories(tessera_emulated_gpu SYSTEM PUBLIC
  "$<BUILD_INTERFACE:${CUDAToolkit_INCLUDE_DIRS};${TESSERA_CUBLASLT}>")
set_property(GLOBAL APPEND PROPERTY TESSERA_MODULES tessera_emulated_gpu)
target_link_libraries(tessera_emulated_gpu PUBLIC Threads::Threads PRIVATE $<BUILD_INTERFACE:tessera_options>)

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
  # As nvcc: its header comes by itself, and it does not warn of these.
  set(options -include cuda_runtime.h -Wno-unknown-pragmas -Wno-conversion -Wno-pedantic -Wno-shadow
    -Wno-maybe-uninitialized -Wno-psabi)
  if(TESSERA_SANITIZE MATCHES undefined)  # of it, what is an error on a GPU: the rest takes a third of the compiler's time
    list(APPEND options -fno-sanitize=undefined -fsanitize=alignment,bounds,shift)
  endif()
  set_source_files_properties(${rewritten} PROPERTIES COMPILE_OPTIONS "${options}")
  target_include_directories(${target} BEFORE PRIVATE ${emulator}/include ${CMAKE_BINARY_DIR}/emulated
    ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PUBLIC tessera_emulated_gpu)
endfunction()
