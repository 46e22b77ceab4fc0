# tessera_join_sources(target): up to twelve sources as one, whose headers are read and whose templates are made once.
# Of the library only under sanitizers: elsewhere a file that lacks an include has to fail.
function(tessera_join_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # takes a joined source for a header
endfunction()

# tessera_module(folder DEPENDS a b LIBRARIES x y): one static library per folder of src/tessera.
#
# A folder links only what it may see, so including another folder's header compiles but does not
# link; tests/structure checks the includes themselves.
function(tessera_module folder)
  cmake_parse_arguments(M "" "" "DEPENDS;LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  if(NOT sources)
    message(FATAL_ERROR "no sources in ${folder}")
  endif()
  add_library(tessera_${name} STATIC ${sources})
  if(TESSERA_SANITIZE)
    tessera_join_sources(tessera_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY TESSERA_MODULES tessera_${name})  # for package.cmake
  set_target_properties(tessera_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(tessera_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  foreach(dep ${M_DEPENDS})
    string(REPLACE "/" "_" dep_name ${dep})
    target_link_libraries(tessera_${name} PUBLIC tessera_${dep_name})
  endforeach()
  target_link_libraries(tessera_${name} PUBLIC ${M_LIBRARIES}
    PRIVATE $<BUILD_INTERFACE:tessera_options>)  # our warnings and instruction set are not a user's
endfunction()

# tessera_tests(folder DEPENDS a b): tests/<folder>/*_test.cpp as one GoogleTest program and one ctest.
function(tessera_tests folder)
  cmake_parse_arguments(T "" "" "DEPENDS;LABELS" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp)
  if(NOT sources)
    message(FATAL_ERROR "no tests in tests/${folder}")
  endif()
  add_executable(${name}_tests ${sources})
  tessera_join_sources(${name}_tests)
  foreach(dep ${T_DEPENDS})
    string(REPLACE "/" "_" dep_name ${dep})
    target_link_libraries(${name}_tests PRIVATE tessera_${dep_name})
  endforeach()
  target_link_libraries(${name}_tests PRIVATE tessera_options fmt::fmt GTest::gtest_main)
  target_compile_options(${name}_tests PRIVATE ${TESSERA_TEST_LEVEL})
  target_precompile_headers(${name}_tests REUSE_FROM tessera_test_headers)
  target_include_directories(${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name}_tests PRIVATE TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    TESSERA_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  set_target_properties(${name}_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${folder} COMMAND ${name}_tests)
  set_tests_properties(${folder} PROPERTIES LABELS "${T_LABELS}")
endfunction()
