// The commands of the program, one file each. argv[0] is the command's own name; the result is the
// exit code. Errors are thrown; main prints them.
#pragma once

namespace tessera {

int train_command(int argc, const char* const* argv);
int plan_command(int argc, const char* const* argv);
int data_command(int argc, const char* const* argv);
int eval_command(int argc, const char* const* argv);
int generate_command(int argc, const char* const* argv);
int convert_command(int argc, const char* const* argv);
int selftest_command(int argc, const char* const* argv);
int tune_command(int argc, const char* const* argv);

}  // namespace tessera
