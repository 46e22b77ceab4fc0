# Headers that nearly every file includes, compiled once and read back by every target: half of a small file's time.
#
# Tests always use them. The library does so under sanitizers alone: in the other builds a file that lacks an
# include still fails. g++ takes such headers only for the flags that they were compiled with, so each kind of
# target has its own copy.
set(TESSERA_COMMON_HEADERS <algorithm> <filesystem> <functional> <map> <memory> <optional> <span> <string> <vector>
    <fmt/format.h>)

function(tessera_precompiled name)
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled/nothing.cpp)
  target_link_libraries(${name} PRIVATE tessera_options fmt::fmt Threads::Threads)
  target_precompile_headers(${name} PRIVATE ${TESSERA_COMMON_HEADERS} ${ARGN})
endfunction()

function(tessera_use_precompiled target name)
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()
