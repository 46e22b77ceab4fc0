// How blocks of a grid see each other's work: by words that one stores and another loads, atomically.
#pragma once

namespace emulated {

// What this thread has done before is known to whoever loads the value.
void store_release(unsigned* at, unsigned value);
unsigned load_acquire(const unsigned* at);
// Orders nothing.
int add_atomically(int* at, int value);

// Before the blocks of a grid.
void forget_releases();

}  // namespace emulated
