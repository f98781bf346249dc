// The tile instructions in plain C++, so that the tile kernels can be tested where no processor has tiles.
// Same names as tiles_amx.h. Source of the semantics: Intel SDM volume 2, TILELOADD, TILESTORED, TDPBF16PS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bf16.h"

namespace stentor {
namespace {

constexpr int kTileRows = 16, kTileRowBytes = 64;

struct Tile {
  alignas(64) unsigned char bytes[kTileRows][kTileRowBytes];
};
thread_local Tile tile_registers[8];
thread_local bool tiles_configured = false;

inline void configure_full_tiles() {
  tiles_configured = true;
  std::memset(tile_registers, 0, sizeof tile_registers);
}

inline void require_configured() {
  if (!tiles_configured) __builtin_trap();  // what the processor does
}

inline void tile_zero(int tile) {
  require_configured();
  std::memset(&tile_registers[tile], 0, sizeof(Tile));
}

inline void tile_load(int tile, const void* address, std::ptrdiff_t stride_bytes) {
  require_configured();
  for (int row = 0; row < kTileRows; ++row)
    std::memcpy(tile_registers[tile].bytes[row], static_cast<const char*>(address) + row * stride_bytes, kTileRowBytes);
}

inline void tile_store(int tile, void* address, std::ptrdiff_t stride_bytes) {
  require_configured();
  for (int row = 0; row < kTileRows; ++row)
    std::memcpy(static_cast<char*>(address) + row * stride_bytes, tile_registers[tile].bytes[row], kTileRowBytes);
}

inline void tile_multiply(int sum, int a, int b) {
  require_configured();
  for (int row = 0; row < kTileRows; ++row) {
    float sums[16];
    bf16 left[32];
    std::memcpy(sums, tile_registers[sum].bytes[row], sizeof sums);
    std::memcpy(left, tile_registers[a].bytes[row], sizeof left);
    for (int k = 0; k < 16; ++k) {
      bf16 right[32];
      std::memcpy(right, tile_registers[b].bytes[k], sizeof right);
      for (int n = 0; n < 16; ++n) {
        sums[n] += to_float(left[2 * k]) * to_float(right[2 * n]);
        sums[n] += to_float(left[2 * k + 1]) * to_float(right[2 * n + 1]);
      }
    }
    std::memcpy(tile_registers[sum].bytes[row], sums, sizeof sums);
  }
}

#define STENTOR_TILE_ZERO(tile) tile_zero(tile)
#define STENTOR_TILE_LOAD(tile, address, stride_bytes) tile_load(tile, address, stride_bytes)
#define STENTOR_TILE_STORE(tile, address, stride_bytes) tile_store(tile, address, stride_bytes)
#define STENTOR_TILE_MULTIPLY(sum, a, b) tile_multiply(sum, a, b)

}  // namespace
}  // namespace stentor
