// The seam between instruction sets: a few products on small blocks. Everything above is shared.
//
// Packed operands. A weight W (n_out x n_in) is packed in panels of 16 outputs; a panel is a row of 1 KB tiles,
// one per 32 inputs; a tile holds 16 pairs of inputs x 16 outputs x 2, which is what both `tdpbf16ps` and
// `vdpbf16ps` multiply. See pack.h.
//
// Rounding. Both backends multiply bf16 exactly and add in float; they differ in the order of the sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bf16.h"

namespace stentor {

constexpr int kPanel = 16;                 // outputs of a panel
constexpr int kPairOfPanels = 2 * kPanel;  // outputs of a block product
constexpr int kTileInputs = 32;            // inputs of a tile
constexpr int kTileElements = kPanel * kTileInputs;
constexpr int kMaxQueries = 32;  // rows of `query` products: heads x positions

// Operands in 8 bits, see quantized.h: a group is 128 inputs of a panel, in lines of 64 bytes.
constexpr int kGroupInputs = 128;
constexpr int kGroupSums = kGroupInputs * kPanel;  // bytes before the line of sums
constexpr int kGroupScales = kGroupSums + 64;
constexpr int kGroupBytes = kGroupScales + 64;

// What a group of a row's values stands for: x = scale (q - zero).
struct GroupRange {
  float scale;
  std::int32_t zero;  // 0 to 255
};

struct MicroKernels {
  const char* name;

  // Rows that block_product does best at once; drivers cut their rows into blocks of it.
  int block_rows;

  // Called by a thread before its first product of a loop.
  void (*enter)();

  // c[i][n] = sum over k of a[i][k] * panels[n][k], for `pairs` neighbouring pairs of panels.
  //   a       bf16 [rows][32 * tiles], row stride lda elements; rows <= block_rows;
  //           readable, with any finite or infinite content, up to the next multiple of 16 rows
  //   panels  bf16 packed, 64-byte aligned; panel_stride elements from a panel to the next
  //   c       float [rows][32 * pairs], row stride ldc elements, writable up to the next multiple of 16 rows
  void (*block_product)(const bf16* a, std::ptrdiff_t lda, int rows, const bf16* panels, std::ptrdiff_t panel_stride,
                        int tiles, int pairs, float* c, std::ptrdiff_t ldc);

  // The same for operands in 8 bits and one pair of panels; null where it is not faster than block_product.
  //   q       [rows][128 * groups], row stride ldq bytes; rows <= block_rows
  //   ranges  [rows][groups], contiguous
  //   panels  64-byte aligned, groups * kGroupBytes from a panel to the next
  //   c       float [rows][32], row stride ldc elements
  void (*quantized_product)(const std::uint8_t* q, std::ptrdiff_t ldq, const GroupRange* ranges, int rows,
                            const std::uint8_t* panels, int groups, float* c, std::ptrdiff_t ldc);

  // Brings queries, bf16 [count][width], into the form that query_scores wants: bf16 [kMaxQueries][width].
  // width is a multiple of 64; count <= kMaxQueries. The same holds below.
  void (*prepare_queries)(const bf16* queries, int count, int width, bf16* prepared);

  // scores[q][t] = sum over d of queries[q][d] * x[t][d].
  //   x       bf16 [rows][width], rows a multiple of 16
  //   scores  float [count rounded up to 16][rows], row stride ld
  void (*query_scores)(const bf16* prepared, int count, const bf16* x, int rows, int width, float* scores,
                       std::ptrdiff_t ld);

  // c[q][d] += sum over t of weights[q][t] * x[t][d].
  //   weights bf16 [count rounded up to 16][rows], row stride ld; the rows past count are zero
  //   x       bf16 [rows][width], rows a multiple of 32
  //   c       float [count rounded up to 16][width]
  void (*add_weighted)(const bf16* weights, std::ptrdiff_t ld, int count, const bf16* x, int rows, int width, float* c);
};

// Defined in micro_avx512.cpp and micro_amx.cpp. Touch them only where cpu_features() allows.
extern const MicroKernels kAvx512Kernels;
extern const MicroKernels kAmxKernels;

}  // namespace stentor
