// The products on AMX: tdpbf16ps multiplies two tiles of 16 x 32 bf16 and adds 16 x 16 floats in 16 cycles.
//
// Compiled twice: as kAmxKernels on the processor's tiles, and in the tests' build as kEmulatedKernels on tiles
// in plain C++ (STENTOR_EMULATE_TILES), which checks every index, stride and tail on any AVX-512 processor.
#include <immintrin.h>

#include "micro.h"

#ifdef STENTOR_EMULATE_TILES
#include "tiles_emulated.h"
#else
#include "tiles_amx.h"
#endif

namespace stentor {
namespace {

constexpr int kRows = 16;  // of a tile
constexpr int kTileBytes = 64;

void enter() { configure_full_tiles(); }

// 16 or 32 rows x 32 outputs: with four sums each loaded tile is used twice.
template <bool kBothHalves>
void tile_block(const bf16* a, std::ptrdiff_t lda, const bf16* panel0, const bf16* panel1, int tiles, float* c,
                std::ptrdiff_t ldc) {
  STENTOR_TILE_ZERO(0);
  STENTOR_TILE_ZERO(1);
  if (kBothHalves) {
    STENTOR_TILE_ZERO(2);
    STENTOR_TILE_ZERO(3);
  }
  for (int k = 0; k < tiles; ++k) {
    STENTOR_TILE_LOAD(4, a + k * kTileInputs, lda * 2);
    STENTOR_TILE_LOAD(6, panel0 + k * kTileElements, kTileBytes);
    STENTOR_TILE_MULTIPLY(0, 4, 6);
    STENTOR_TILE_LOAD(7, panel1 + k * kTileElements, kTileBytes);
    STENTOR_TILE_MULTIPLY(1, 4, 7);
    if (kBothHalves) {
      STENTOR_TILE_LOAD(5, a + kRows * lda + k * kTileInputs, lda * 2);
      STENTOR_TILE_MULTIPLY(2, 5, 6);
      STENTOR_TILE_MULTIPLY(3, 5, 7);
    }
  }
  STENTOR_TILE_STORE(0, c, ldc * 4);
  STENTOR_TILE_STORE(1, c + kPanel, ldc * 4);
  if (kBothHalves) {
    STENTOR_TILE_STORE(2, c + kRows * ldc, ldc * 4);
    STENTOR_TILE_STORE(3, c + kRows * ldc + kPanel, ldc * 4);
  }
}

void block_product(const bf16* a, std::ptrdiff_t lda, int rows, const bf16* panels, std::ptrdiff_t panel_stride,
                   int tiles, int pairs, float* c, std::ptrdiff_t ldc) {
  const auto block = rows > kRows ? tile_block<true> : tile_block<false>;
  for (int pair = 0; pair < pairs; ++pair) {
    const bf16* panel = panels + 2 * pair * panel_stride;
    block(a, lda, panel, panel + panel_stride, tiles, c + pair * kPairOfPanels, ldc);
  }
}

// Queries become the right-hand operand: per group of 16, [width / 32] tiles of pairs x queries x 2.
void prepare_queries(const bf16* queries, int count, int width, bf16* prepared) {
  for (int first = 0; first < count; first += kPanel)
    for (int pair = 0; pair < width / 2; ++pair)
      for (int q = 0; q < kPanel; ++q) {
        bf16* to = prepared + static_cast<std::ptrdiff_t>(first) * width + pair * kTileInputs + 2 * q;
        const bf16* from = queries + static_cast<std::ptrdiff_t>(first + q) * width + 2 * pair;
        to[0] = first + q < count ? from[0] : 0;
        to[1] = first + q < count ? from[1] : 0;
      }
}

// Writes the transpose of a 16 x 16 block.
void store_transposed(const float* block, float* out, std::ptrdiff_t ld) {
  const __m512i rows = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                          _mm512_set1_epi32(kPanel));
  for (int q = 0; q < kPanel; ++q)
    _mm512_storeu_ps(out + q * ld, _mm512_i32gather_ps(rows, block + q, sizeof(float)));
}

void query_scores(const bf16* prepared, int count, const bf16* x, int rows, int width, float* scores,
                  std::ptrdiff_t ld) {
  alignas(64) float block[kRows * kPanel];
  for (int first = 0; first < count; first += kPanel) {
    const bf16* queries = prepared + static_cast<std::ptrdiff_t>(first) * width;
    for (int t = 0; t < rows; t += kRows) {
      STENTOR_TILE_ZERO(0);
      for (int k = 0; k < width / kTileInputs; ++k) {
        STENTOR_TILE_LOAD(4, x + static_cast<std::ptrdiff_t>(t) * width + k * kTileInputs, width * 2);
        STENTOR_TILE_LOAD(6, queries + k * kTileElements, kTileBytes);
        STENTOR_TILE_MULTIPLY(0, 4, 6);
      }
      STENTOR_TILE_STORE(0, block, kPanel * 4);
      store_transposed(block, scores + first * ld + t, ld);
    }
  }
}

// Weaves 32 rows x 64 outputs of x into four right-hand tiles.
void weave(const bf16* x, int width, bf16* woven) {
  const __m512i evens_and_odds = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                                  38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i upper = _mm512_add_epi16(evens_and_odds, _mm512_set1_epi16(16));
  for (int pair = 0; pair < kTileInputs / 2; ++pair) {
    const bf16* row = x + static_cast<std::ptrdiff_t>(2 * pair) * width;
    for (int half = 0; half < 2; ++half) {
      const __m512i a = _mm512_loadu_si512(row + 32 * half), b = _mm512_loadu_si512(row + width + 32 * half);
      bf16* to = woven + 2 * half * kTileElements + pair * kTileInputs;
      _mm512_store_si512(to, _mm512_permutex2var_epi16(a, evens_and_odds, b));
      _mm512_store_si512(to + kTileElements, _mm512_permutex2var_epi16(a, upper, b));
    }
  }
}

void add_weighted(const bf16* weights, std::ptrdiff_t ld, int count, const bf16* x, int rows, int width, float* c) {
  alignas(64) bf16 woven[4 * kTileElements];
  for (int d = 0; d < width; d += 4 * kPanel) {
    for (int t = 0; t < rows; t += kTileInputs) {
      weave(x + static_cast<std::ptrdiff_t>(t) * width + d, width, woven);
      for (int first = 0; first < count; first += kRows) {
        float* sums = c + static_cast<std::ptrdiff_t>(first) * width + d;
        STENTOR_TILE_LOAD(4, weights + first * ld + t, ld * 2);
        STENTOR_TILE_LOAD(0, sums, width * 4);
        STENTOR_TILE_LOAD(5, woven, kTileBytes);
        STENTOR_TILE_MULTIPLY(0, 4, 5);
        STENTOR_TILE_LOAD(1, sums + kPanel, width * 4);
        STENTOR_TILE_LOAD(6, woven + kTileElements, kTileBytes);
        STENTOR_TILE_MULTIPLY(1, 4, 6);
        STENTOR_TILE_LOAD(2, sums + 2 * kPanel, width * 4);
        STENTOR_TILE_LOAD(5, woven + 2 * kTileElements, kTileBytes);
        STENTOR_TILE_MULTIPLY(2, 4, 5);
        STENTOR_TILE_LOAD(3, sums + 3 * kPanel, width * 4);
        STENTOR_TILE_LOAD(6, woven + 3 * kTileElements, kTileBytes);
        STENTOR_TILE_MULTIPLY(3, 4, 6);
        STENTOR_TILE_STORE(0, sums, width * 4);
        STENTOR_TILE_STORE(1, sums + kPanel, width * 4);
        STENTOR_TILE_STORE(2, sums + 2 * kPanel, width * 4);
        STENTOR_TILE_STORE(3, sums + 3 * kPanel, width * 4);
      }
    }
  }
}

}  // namespace

#ifdef STENTOR_EMULATE_TILES
extern const MicroKernels kEmulatedKernels{"emulated tiles", 2 * kRows,       enter,        block_product,
                                           nullptr,          prepare_queries, query_scores, add_weighted};
#else
extern const MicroKernels kAmxKernels{"amx",   2 * kRows,       enter,        block_product,
                                      nullptr, prepare_queries, query_scores, add_weighted};
#endif

}  // namespace stentor
