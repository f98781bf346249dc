// What this machine could do at best: the bounds that the engine's speed is held against.
#pragma once

#include "micro.h"

namespace stentor {

// Operations (two per product) a second of `threads` threads, operands in the first-level cache.
double measure_operations_per_s(const MicroKernels& micro, int threads);

// Bytes a second that `threads` threads read from memory.
double measure_read_bytes_per_s(int threads);

}  // namespace stentor
