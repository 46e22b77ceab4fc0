// How much dynamic shared memory a kernel may ask for: a property of the kernel and the GPU, which the ranks
// of a process share.
#pragma once

#include <cstddef>

namespace tessera::cuda {

// At least so much on the current GPU. Never less than before: another rank may be about to launch the kernel
// with more.
void raise_shared_limit(const void* kernel, std::size_t bytes);

}  // namespace tessera::cuda
