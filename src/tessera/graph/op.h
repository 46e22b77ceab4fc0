// Op: the name of an operation, from op_list.def. What an op means is in ops/<op>.cpp.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

enum class Op : std::uint8_t {
#define TESSERA_OP(name) name,
#include "tessera/graph/op_list.def"
#undef TESSERA_OP
};

inline constexpr std::string_view kOpNames[] = {
#define TESSERA_OP(name) #name,
#include "tessera/graph/op_list.def"
#undef TESSERA_OP
};

inline constexpr int kNumOps = static_cast<int>(std::size(kOpNames));

constexpr std::string_view op_name(Op op) {
  return kOpNames[static_cast<int>(op)];
}

}  // namespace tessera
