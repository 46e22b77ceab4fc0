#include "tessera/comm/failure_message.h"

#include <fmt/format.h>

#include <new>

#include "tessera/base/printable.h"

namespace tessera {

std::string failure_message(int rank, const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::bad_alloc&) {
    return fmt::format("rank {}: not enough memory", rank);
  } catch (const std::exception& e) {
    return fmt::format("rank {}: {}", rank, printable(e.what()));
  } catch (...) {
    return fmt::format("rank {}: an exception of an unknown kind", rank);
  }
}

}  // namespace tessera
