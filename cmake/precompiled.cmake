# tessera_test_headers: what nearly every test includes, compiled once and read back: half of a small test's time.
# The library does without, so that a file of it that lacks an include fails.
function(tessera_precompile_test_headers)
  add_library(tessera_test_headers OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled/nothing.cpp)
  target_link_libraries(tessera_test_headers PRIVATE tessera_options fmt::fmt GTest::gtest)
  target_compile_options(tessera_test_headers PRIVATE ${TESSERA_TEST_LEVEL})
  target_precompile_headers(tessera_test_headers PRIVATE <algorithm> <filesystem> <functional> <map> <memory>
    <optional> <span> <string> <vector> <fmt/format.h> <gtest/gtest.h>)
endfunction()
