// What the processor can do, asked at run time, and how many of them we may use.
#pragma once

#include <string>

namespace stentor {

struct CpuFeatures {
  bool avx512 = false;       // F, BW, VL and DQ, and the system saves the registers
  bool avx512_bf16 = false;  // vdpbf16ps, and vpdpbusd with it
  bool amx_bf16 = false;     // tiles, and the system has granted them to this process
};

// Asks CPUID, XGETBV and, for the tiles, Linux (arch_prctl); cheap after the first call.
const CpuFeatures& cpu_features();

// Empty where some backend runs here; otherwise why none does, for people.
std::string unsupported_reason();

// Processors this process may use: its affinity mask, cut to the cgroup's CPU quota (v2 or v1), at least 1.
int usable_processors();

}  // namespace stentor
