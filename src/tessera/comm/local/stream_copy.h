// stream_copy: memcpy for what is written to many ranks' buffers and not read again soon.
#pragma once

#include <cstdint>

namespace tessera::local {

// Writes past the caches where the machine can, which saves reading each line that is about to be
// overwritten: a third of the traffic. Pays from a few MiB on, when the result would not stay in the cache
// anyway. Its writes are in order for whoever synchronises with this thread afterwards.
void stream_copy(void* to, const void* from, std::int64_t bytes);

}  // namespace tessera::local
