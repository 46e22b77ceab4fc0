// Program: one of our programs run as a user runs it, in a process of its own: its exit code and what it
// printed. Used by every test that drives a program from outside.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/temporary_folder.h"

namespace tessera {

struct ProgramResult {
  int exit_code = -1;  // 128 + the signal that ended it, as a shell says it
  std::string out, err;
  std::int64_t peak_resident_bytes = 0;

  std::string text() const { return "exit code " + std::to_string(exit_code) + "\n" + out + err; }
};

// For `prepare` of a Program: what its process may have of something.
inline void limit(decltype(RLIMIT_AS) resource, rlim_t most) {
  rlimit limits{};
  ::getrlimit(resource, &limits);
  limits.rlim_cur = most;
  if (::setrlimit(resource, &limits) != 0) ::_exit(123);
}

// A program that is running; its output goes to files, so that nothing waits for a reader.
class Program {
 public:
  // `name` of a program of ours, or the path of another one, such as a launcher of ours.
  // `prepare` runs in the child just before the program starts: limits, permissions.
  Program(
      const std::string& name, std::vector<std::string> arguments, const std::filesystem::path& folder,
      const std::function<void()>& prepare = [] {}) {
    arguments.insert(arguments.begin(), (std::filesystem::path(TESSERA_BIN_DIR) / name).string());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    process_ = ::fork();
    TS_ASSERT(process_ >= 0);
    if (process_ > 0) return;
    redirect(STDOUT_FILENO, output_.path() / "out");
    redirect(STDERR_FILENO, output_.path() / "err");
    if (::chdir(folder.c_str()) != 0) ::_exit(126);
    prepare();
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Program() {
    if (process_ > 0) wait(SIGKILL);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t id() const { return process_; }
  void send(int signal) const { ::kill(process_, signal); }
  bool running() const {
    siginfo_t info{};
    TS_ASSERT(::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0);
    return info.si_pid == 0;
  }

  // Until it ends; signal 0 leaves it to end by itself.
  ProgramResult wait(int signal = 0) {
    if (signal != 0) send(signal);
    int status = 0;
    rusage usage{};
    TS_ASSERT(::wait4(process_, &status, 0, &usage) == process_);
    process_ = -1;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, bytes_of(output_.path() / "out"), bytes_of(output_.path() / "err"), usage.ru_maxrss * 1024};
  }

 private:
  static void redirect(int descriptor, const std::filesystem::path& file) {
    const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(125);
    ::close(opened);
  }

  TemporaryFolder output_;
  pid_t process_ = -1;
};

inline ProgramResult run_program(const std::string& name, std::vector<std::string> arguments,
                                 const std::filesystem::path& folder) {
  return Program(name, std::move(arguments), folder).wait();
}

// The paths below `folder` that a write left unfinished; empty when all is well.
inline std::vector<std::string> partial_files(const std::filesystem::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    const std::string name = entry.path().filename().string();
    if (name.find(".partial") != std::string::npos || name.ends_with(".replaced")) found.push_back(path);
  }
  return found;
}

}  // namespace tessera
