# Installs the build in TESSERA_BUILD to PREFIX, fresh, then configures and builds SOURCE against it in BUILD.
function(run)
  execute_process(COMMAND ${CMAKE_COMMAND} ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
file(REMOVE_RECURSE ${PREFIX} ${BUILD})
run(--install ${TESSERA_BUILD} --prefix ${PREFIX})
run(-S ${SOURCE} -B ${BUILD} -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${PREFIX} -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_CXX_FLAGS=${FLAGS})
run(--build ${BUILD})
