#include "tessera/comm/mpi/mpi_call.h"

#include <string_view>

#include "tessera/base/error.h"

namespace tessera::mpi {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail("{}: {}", call, std::string_view(text, static_cast<std::size_t>(length)));
}

}  // namespace tessera::mpi
