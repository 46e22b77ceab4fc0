#include "emulated_gpu/knowledge.h"

#include <algorithm>

namespace emulated {

void add_blocks(Knowledge& to, const Knowledge& from) {
  for (const auto& [first, known] : from.of_blocks) {
    Known& there = to.of_blocks[first];
    there = there == nullptr ? known : joined(there, known);
  }
}

namespace {

void add(Knowledge& to, const Knowledge& from) {
  to.floor = std::max(to.floor, from.floor);
  if (to.of_thread.size() < from.of_thread.size()) to.of_thread.resize(from.of_thread.size());
  for (std::size_t i = 0; i < from.of_thread.size(); ++i)
    to.of_thread[i] = std::max(to.of_thread[i], from.of_thread[i]);
  add_blocks(to, from);
}

void add(Knowledge& to, int thread, Label label) {
  const auto at = static_cast<std::size_t>(thread);
  if (to.of_thread.size() <= at) to.of_thread.resize(at + 1);
  to.of_thread[at] = std::max(to.of_thread[at], label);
}

}  // namespace

Known joined(std::span<const Moment> moments) {
  if (moments.empty() || moments.front().known == nullptr) return nullptr;  // or nothing is watched
  auto made = std::make_shared<Knowledge>(*moments.front().known);
  const Knowledge* last = moments.front().known.get();  // mostly that of all
  for (const Moment& moment : moments) {
    if (moment.known.get() != last) add(*made, *(last = moment.known.get()));
    add(*made, moment.thread, moment.label);
  }
  return made;
}

Known joined(const Known& a, const Known& b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  auto made = std::make_shared<Knowledge>(*a);
  add(*made, *b);
  return made;
}

Known with_block(const Known& known, const Known& of_block) {
  if (known->first == of_block->first) return joined(known, of_block);
  auto made = std::make_shared<Knowledge>(*known);
  add_blocks(*made, *of_block);
  Known& there = made->of_blocks[of_block->first];  // without what it knows of others: that is added here
  there = joined(there,
                 std::make_shared<Knowledge>(Knowledge{
                     .first = of_block->first, .floor = of_block->floor, .of_thread = of_block->of_thread}));
  made->of_blocks.erase(made->first);  // what others know of this block
  if (const auto own = of_block->of_blocks.find(known->first); own != of_block->of_blocks.end())
    add(*made, *own->second);
  return made;
}

}  // namespace emulated
