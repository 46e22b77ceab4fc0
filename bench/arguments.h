// The arguments of the benchmarks. One that is not what it should be ends the program with its usage and exit
// code 2, before anything is made or measured.
#pragma once

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tessera::bench {

[[noreturn]] inline void refuse_arguments(const char* usage) {
  std::fprintf(stderr, "usage: %s\n", usage);
  std::exit(2);
}

// argv[index], or `absent` where there are fewer.
inline int positive_argument(int argc, char** argv, int index, int absent, const char* usage) {
  if (argc <= index) return absent;
  const char* const end = argv[index] + std::strlen(argv[index]);
  int number = 0;
  const auto result = std::from_chars(argv[index], end, number);
  if (result.ec != std::errc() || result.ptr != end || number < 1) refuse_arguments(usage);
  return number;
}

// Of a program whose only argument, if there is one, is a number.
inline int only_argument(int argc, char** argv, int absent, const char* usage) {
  if (argc > 2) refuse_arguments(usage);
  return positive_argument(argc, argv, 1, absent, usage);
}

}  // namespace tessera::bench
