# tessera_standalone_headers(): every header of src/tessera as a translation unit of its own, so that a header
# that leans on what its includer included does not compile. Built with the tests; nothing runs.
function(tessera_standalone_headers)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/tessera/*.h)
  set(sources)
  foreach(header ${headers})
    set(source ${CMAKE_BINARY_DIR}/standalone_headers/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(standalone_headers OBJECT ${sources})
  target_include_directories(standalone_headers PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(standalone_headers PRIVATE tessera_train tessera_cli tessera_options)
  # Nothing is run, so nothing is worth optimising: the compiler only has to accept the text.
  target_compile_options(standalone_headers PRIVATE -O0)
endfunction()
