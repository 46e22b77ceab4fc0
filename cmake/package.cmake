# `cmake --install`: the programs, the headers, one static library per module and a package for
# find_package(tessera), whose target tessera::tessera is all of them. cli/ is the programs' own.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)

add_library(tessera_all INTERFACE)
set_target_properties(tessera_all PROPERTIES EXPORT_NAME tessera)
get_property(modules GLOBAL PROPERTY TESSERA_MODULES)
list(REMOVE_ITEM modules tessera_cli)
target_link_libraries(tessera_all INTERFACE ${modules})
target_compile_features(tessera_all INTERFACE cxx_std_20)

install(TARGETS tessera golden_check)
install(TARGETS tessera_all ${modules} EXPORT tessera INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY src/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN cli EXCLUDE)
install(EXPORT tessera NAMESPACE tessera:: FILE tesseraTargets.cmake DESTINATION ${package_dir})

configure_package_config_file(cmake/tesseraConfig.cmake.in ${CMAKE_BINARY_DIR}/tesseraConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tesseraConfig.cmake ${CMAKE_BINARY_DIR}/tesseraConfigVersion.cmake
  DESTINATION ${package_dir})
