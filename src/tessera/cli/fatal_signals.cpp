#include "tessera/cli/fatal_signals.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

namespace tessera {
namespace {

// On return the program ends as it would have: SA_RESETHAND has brought the default action back.
void on_bus_error(int signal, siginfo_t* info, void*) {
  constexpr std::string_view kText =
      "\ntessera: cannot read a file on: it has become shorter since it was opened, or its disk has failed\n";
  if (info->si_code == BUS_ADRERR && ::write(STDERR_FILENO, kText.data(), kText.size()) < 0) {
    // Nobody reads it.
  }
  ::raise(signal);
}

}  // namespace

void speak_of_fatal_signals() {
  ::signal(SIGXFSZ, SIG_IGN);
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace tessera
