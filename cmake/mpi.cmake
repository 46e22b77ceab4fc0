# TESSERA_MPI=AUTO|ON|OFF: whether comm/mpi is built. Sets TESSERA_HAS_MPI and, if so, the target MPI::MPI_CXX.
set(TESSERA_MPI "AUTO" CACHE STRING "ranks over MPI: AUTO (if MPI is found), ON (must be found), OFF")
set_property(CACHE TESSERA_MPI PROPERTY STRINGS AUTO ON OFF)
set(TESSERA_HAS_MPI OFF)
if(NOT TESSERA_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)  # the C interface is all we use
  if(TESSERA_MPI STREQUAL "ON")
    find_package(MPI REQUIRED COMPONENTS CXX)
  else()
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
  set(TESSERA_HAS_MPI ${MPI_CXX_FOUND})
endif()
if(TESSERA_HAS_MPI)
  message(STATUS "ranks over MPI: yes (${MPIEXEC_EXECUTABLE})")
else()
  message(STATUS "ranks over MPI: no; install libopenmpi-dev and openmpi-bin, or see TESSERA_MPI")
endif()

# For tests under mpiexec: more ranks than cores, as root too. Open MPI leaves memory behind and is not instrumented.
set(TESSERA_MPI_TEST_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1 ASAN_OPTIONS=detect_leaks=0
  TSAN_OPTIONS=ignore_noninstrumented_modules=1)
