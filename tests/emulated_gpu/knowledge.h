// What a thread of a block knows to have happened before: the order that barriers make, by which
// access_watch.h finds accesses that nothing orders.
//
// What a thread does between two moments at which others may come to know of it has one label. Labels are
// taken from one counter of the multiprocessor, whose number is in their highest bits, so each belongs to one
// thread of one block, and a later label of a thread says that the earlier ones are known, too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace emulated {

using Label = std::uint32_t;  // 0: none
inline constexpr int kLabelBits = 30;
inline constexpr Label kLabelMask = (Label{1} << kLabelBits) - 1;
// What a label's highest bits say if they name no multiprocessor: of a cell's last write, that it was atomic
// and in which grid; of reads, that there were several.
inline constexpr unsigned kOther = 3;
inline unsigned top(Label label) {
  return label >> kLabelBits;
}

struct Knowledge;
using Known = std::shared_ptr<const Knowledge>;  // one for all threads that a barrier has let go on

struct Knowledge {
  Label first = 0;                   // of the block
  Label floor = 0;                   // every label of the block below it
  std::vector<Label> of_thread;      // and of each thread this one and those before it; may end early
  std::map<Label, Known> of_blocks;  // of other blocks of the grid, by their first labels
};

// All that a thread has done and known up to here.
struct Moment {
  Known known;
  int thread = 0;
  Label label = 0;
};

// What whoever waits for all these moments, of one block, knows afterwards. They may be none.
Known joined(std::span<const Moment> moments);
Known joined(const Known& a, const Known& b);
// With the moment of some block, maybe the same one.
Known with_block(const Known& known, const Known& of_block);
// Adds what is known of other blocks.
void add_blocks(Knowledge& to, const Knowledge& from);

}  // namespace emulated
