// The tile instructions, as inline assembly: gcc 12's intrinsics do not tell the compiler that a tile load
// reads memory, and stores before it were dropped. Every access here clobbers memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stentor {
namespace {

// Source: Intel SDM volume 1, 18.2: palette 1, eight tiles of at most 16 rows x 64 bytes.
struct __attribute__((packed)) TileConfig {
  std::uint8_t palette;
  std::uint8_t start_row;
  std::uint8_t reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

inline void configure_full_tiles() {
  TileConfig config = {};
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
}

#define STENTOR_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile::: "memory")
#define STENTOR_TILE_LOAD(tile, address, stride_bytes)                              \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile::"r"((const void*)(address)), \
                   "r"((std::ptrdiff_t)(stride_bytes))                              \
                   : "memory")
#define STENTOR_TILE_STORE(tile, address, stride_bytes)                                                                \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"((void*)(address)), "r"((std::ptrdiff_t)(stride_bytes)) \
                   : "memory")
#define STENTOR_TILE_MULTIPLY(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum::: "memory")

}  // namespace
}  // namespace stentor
