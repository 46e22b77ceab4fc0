// Hopper's barriers in shared memory and its copy engine, emulated: what backend/cuda/bulk_copy.cuh names.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace emulated {

// By the address of its word in shared memory. It is in phases 0, 1, 0, ...: one ends when so many have
// arrived and the bytes that were announced.
void init_barrier(const std::uint64_t* word, unsigned arrivals);
void arrive_at_barrier(const std::uint64_t* word, unsigned expected_bytes);
void wait_for_phase(const std::uint64_t* word, unsigned parity);

// Copies to shared memory, of a box of a tensor or of bytes as they lie.
void begin_box_copy(std::uint32_t shared, const CUtensorMap& map, int x, int y, int z,
                    const std::uint64_t* arrives);
void begin_byte_copy(std::uint32_t shared, const void* global, unsigned bytes, const std::uint64_t* arrives);
// From it, in groups of the asking thread: stored, or added as floats.
void begin_store(void* global, std::uint32_t shared, unsigned bytes, bool adds);

// Before a block.
void forget_barriers();

}  // namespace emulated
