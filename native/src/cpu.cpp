#include "cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <thread>

namespace stentor {
namespace {

// CPUID bits. Source: Intel SDM volume 2A, CPUID leaves 1, 7.0 and 7.1.
constexpr unsigned kOsxsave = 1u << 27;                         // leaf 1, ECX
constexpr unsigned kAvx512F = 1u << 16, kAvx512Dq = 1u << 17;   // leaf 7.0, EBX
constexpr unsigned kAvx512Bw = 1u << 30, kAvx512Vl = 1u << 31;  // leaf 7.0, EBX
constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;    // leaf 7.0, EDX
constexpr unsigned kAvx512Vnni = 1u << 11;                      // leaf 7.0, ECX
constexpr unsigned kAvx512Bf16 = 1u << 5;                       // leaf 7.1, EAX

// XCR0: SSE, AVX, opmask, upper halves of zmm0-15, zmm16-31. Source: Intel SDM volume 1, 13.3.
constexpr std::uint64_t kZmmState = 0xe6;
constexpr std::uint64_t kTileState = std::uint64_t{3} << 17;

// Source: Linux, arch/x86/include/uapi/asm/prctl.h and fpu/types.h.
constexpr int kArchReqXcompPerm = 0x1023;
constexpr int kXfeatureTileData = 18;

std::uint64_t saved_state() {
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

CpuFeatures ask() {
  CpuFeatures found;
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & kOsxsave)) return found;
  const std::uint64_t state = saved_state();
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return found;
  const unsigned avx512 = kAvx512F | kAvx512Dq | kAvx512Bw | kAvx512Vl;
  found.avx512 = (ebx & avx512) == avx512 && (state & kZmmState) == kZmmState;
  const bool vnni = ecx & kAvx512Vnni;  // older than BF16, and in every processor that has it
  const bool tiles = (edx & kAmxBf16) && (edx & kAmxTile) && (state & kTileState) == kTileState;
  const bool more_leaves = eax >= 1;
  if (more_leaves && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx))
    found.avx512_bf16 = found.avx512 && vnni && (eax & kAvx512Bf16);
  // Everything above the tiles is written for AVX-512 BF16, which every processor with AMX has.
  if (tiles && found.avx512_bf16) found.amx_bf16 = syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
  return found;
}

// Processors' worth of time that a cgroup grants, or infinity. "max 100000" is version 2's way to say no limit.
double cgroup_quota() {
  double quota, period;
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  if (v2 >> quota >> period && quota > 0 && period > 0) return quota / period;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) return quota / period;
  return INFINITY;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = ask();
  return features;
}

std::string unsupported_reason() {
  if (cpu_features().avx512_bf16) return "";
  return cpu_features().avx512 ? "the processor has AVX-512 but neither AVX-512 BF16 nor AMX"
                               : "the processor has neither AVX-512 BF16 nor AMX";
}

int usable_processors() {
  cpu_set_t allowed;
  int count = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) count = CPU_COUNT(&allowed);
  // A fraction of a processor is not worth a thread: it would hold up all the others at each barrier.
  return std::max(1, static_cast<int>(std::min(static_cast<double>(count), std::floor(cgroup_quota()))));
}

}  // namespace stentor
