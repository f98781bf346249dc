// The products on AVX-512 BF16 and VNNI: vdpbf16ps multiplies 32 pairs and adds them to 16 floats, vpdpbusd 64 bytes
// and adds them to 16 integers.
//
// Compiled with AVX-512 flags: no standard templates here, whose code the linker might share with others.
#include <immintrin.h>

#include "micro.h"

namespace stentor {
namespace {

// 12 x 32 outputs take 24 of 32 registers: 24 products for 2 loads and 12 broadcasts, so the two
// multipliers stay busy although there are two load ports.
constexpr int kRegisterRows = 12;

// Queries and rows of x that are multiplied in registers at once, in the two products of attention.
constexpr int kQueryGroup = 6;
constexpr int kScoreRows = 4;

// Rows of x that are fetched ahead of their use. The audio of 16 sequences does not fit into the caches: with 32
// of Whisper tiny's a layer takes 73 microseconds without this, 47 with it, and 36 where all is in cache.
constexpr int kRowsAhead = 64;

inline __m512bh load(const bf16* p) { return (__m512bh)_mm512_loadu_si512(p); }

inline __m512bh broadcast_pair(const bf16* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

template <int kRows>
void register_block(const bf16* a, std::ptrdiff_t lda, const bf16* panel0, const bf16* panel1, int tiles, float* c,
                    std::ptrdiff_t ldc) {
  __m512 sum0[kRows], sum1[kRows];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
    sum0[i] = sum1[i] = _mm512_setzero_ps();
  const int pairs_of_inputs = tiles * kTileInputs / 2;
  const std::ptrdiff_t next = 2 * (panel1 - panel0);
  for (int k = 0; k < pairs_of_inputs; ++k) {
    // The next pair of panels, which lies behind this one, comes into the second-level cache meanwhile: the
    // vocabulary's 40 MB pass by in 3.0 ms instead of 4.7.
    _mm_prefetch(reinterpret_cast<const char*>(panel0 + next + k * 2 * kPanel), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(panel1 + next + k * 2 * kPanel), _MM_HINT_T1);
    const __m512bh b0 = load(panel0 + k * 2 * kPanel);
    const __m512bh b1 = load(panel1 + k * 2 * kPanel);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const __m512bh pair = broadcast_pair(a + i * lda + 2 * k);
      sum0[i] = _mm512_dpbf16_ps(sum0[i], b0, pair);
      sum1[i] = _mm512_dpbf16_ps(sum1[i], b1, pair);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    _mm512_storeu_ps(c + i * ldc, sum0[i]);
    _mm512_storeu_ps(c + i * ldc + kPanel, sum1[i]);
  }
}

using RegisterBlock = void (*)(const bf16*, std::ptrdiff_t, const bf16*, const bf16*, int, float*, std::ptrdiff_t);
constexpr RegisterBlock kRegisterBlocks[kRegisterRows + 1] = {
    nullptr,           register_block<1>, register_block<2>, register_block<3>, register_block<4>,  register_block<5>,
    register_block<6>, register_block<7>, register_block<8>, register_block<9>, register_block<10>, register_block<11>,
    register_block<12>};

void enter() {}

void block_product(const bf16* a, std::ptrdiff_t lda, int rows, const bf16* panels, std::ptrdiff_t panel_stride,
                   int tiles, int pairs, float* c, std::ptrdiff_t ldc) {
  const int blocks = (rows + kRegisterRows - 1) / kRegisterRows;
  for (int pair = 0; pair < pairs; ++pair) {
    const bf16* panel = panels + 2 * pair * panel_stride;
    // Blocks of nearly equal height: 32 rows as 11 + 11 + 10, not 12 + 12 + 8.
    for (int block = 0; block < blocks; ++block) {
      const int first = rows * block / blocks, last = rows * (block + 1) / blocks;
      kRegisterBlocks[last - first](a + first * lda, lda, panel, panel + panel_stride, tiles,
                                    c + first * ldc + pair * kPairOfPanels, ldc);
    }
  }
}

inline __m512i broadcast_quad(const void* p) {
  int quad;
  __builtin_memcpy(&quad, p, sizeof quad);
  return _mm512_set1_epi32(quad);
}

// sum += unsigned x signed bytes, four products a lane. In assembly because gcc 12 gives the intrinsic's result a new
// register and moves it back: with 24 sums that spills them all, and takes longer than bf16.
inline void add_products(__m512i& sum, __m512i quad, __m512i line) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(quad), "v"(line));
}

// Sums of a group stay in registers as integers; scaled, they go to c.
template <int kRows>
void quantized_block(const std::uint8_t* q, std::ptrdiff_t ldq, const GroupRange* ranges, const std::uint8_t* panel0,
                     int groups, float* c, std::ptrdiff_t ldc) {
  const std::ptrdiff_t panel_bytes = static_cast<std::ptrdiff_t>(groups) * kGroupBytes;
  for (int group = 0; group < groups; ++group, panel0 += kGroupBytes, q += kGroupInputs, ++ranges) {
    const std::uint8_t* panel1 = panel0 + panel_bytes;
    __m512i sum0[kRows], sum1[kRows];
    const __m512i negative0 = _mm512_load_si512(panel0 + kGroupSums);
    const __m512i negative1 = _mm512_load_si512(panel1 + kGroupSums);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const __m512i zero = _mm512_set1_epi32(ranges[i * groups].zero);
      sum0[i] = _mm512_dpwssd_epi32(_mm512_setzero_si512(), negative0, zero);
      sum1[i] = _mm512_dpwssd_epi32(_mm512_setzero_si512(), negative1, zero);
    }
    for (int k = 0; k < kGroupInputs; k += 4) {
      const std::uint8_t *line0 = panel0 + k * kPanel, *line1 = panel1 + k * kPanel;
      _mm_prefetch(reinterpret_cast<const char*>(line0 + 2 * panel_bytes), _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(line1 + 2 * panel_bytes), _MM_HINT_T1);
      const __m512i b0 = _mm512_load_si512(line0), b1 = _mm512_load_si512(line1);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        const __m512i quad = broadcast_quad(q + i * ldq + k);
        add_products(sum0[i], quad, b0);
        add_products(sum1[i], quad, b1);
      }
    }
    const __m512 scale0 = _mm512_load_ps(panel0 + kGroupScales), scale1 = _mm512_load_ps(panel1 + kGroupScales);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const __m512 scale = _mm512_set1_ps(ranges[i * groups].scale);
      float* to = c + i * ldc;
      const __m512 before0 = group ? _mm512_loadu_ps(to) : _mm512_setzero_ps();
      const __m512 before1 = group ? _mm512_loadu_ps(to + kPanel) : _mm512_setzero_ps();
      _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum0[i]), _mm512_mul_ps(scale, scale0), before0));
      _mm512_storeu_ps(to + kPanel,
                       _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum1[i]), _mm512_mul_ps(scale, scale1), before1));
    }
  }
}

using QuantizedBlock = void (*)(const std::uint8_t*, std::ptrdiff_t, const GroupRange*, const std::uint8_t*, int,
                                float*, std::ptrdiff_t);
constexpr QuantizedBlock kQuantizedBlocks[kRegisterRows + 1] = {nullptr,
                                                                quantized_block<1>,
                                                                quantized_block<2>,
                                                                quantized_block<3>,
                                                                quantized_block<4>,
                                                                quantized_block<5>,
                                                                quantized_block<6>,
                                                                quantized_block<7>,
                                                                quantized_block<8>,
                                                                quantized_block<9>,
                                                                quantized_block<10>,
                                                                quantized_block<11>,
                                                                quantized_block<12>};

void quantized_product(const std::uint8_t* q, std::ptrdiff_t ldq, const GroupRange* ranges, int rows,
                       const std::uint8_t* panels, int groups, float* c, std::ptrdiff_t ldc) {
  const int blocks = (rows + kRegisterRows - 1) / kRegisterRows;
  for (int block = 0; block < blocks; ++block) {
    const int first = rows * block / blocks, last = rows * (block + 1) / blocks;
    kQuantizedBlocks[last - first](q + first * ldq, ldq, ranges + first * groups, panels, groups, c + first * ldc, ldc);
  }
}

void prepare_queries(const bf16* queries, int count, int width, bf16* prepared) {
  __builtin_memcpy(prepared, queries, sizeof(bf16) * count * width);
}

// The sums over the lanes of four registers, side by side.
inline __m128 sum_lanes(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  const __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  const __m512 abcd = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

// Lanes are inputs: with few heads, lanes of heads would be mostly empty (6 of 16 in Whisper tiny).
template <int kQueries>
void score_group(const bf16* queries, const bf16* x, int rows, int width, float* scores, std::ptrdiff_t ld) {
  for (int t = 0; t < rows; t += kScoreRows) {
    __m512 sum[kQueries][kScoreRows];
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q)
#pragma GCC unroll 4
      for (int j = 0; j < kScoreRows; ++j)
        sum[q][j] = _mm512_setzero_ps();
    const bf16* row = x + static_cast<std::ptrdiff_t>(t) * width;
    for (int d = 0; d < width; d += 32) {
      __m512bh value[kScoreRows];
#pragma GCC unroll 4
      for (int j = 0; j < kScoreRows; ++j) {
        value[j] = load(row + j * width + d);
        _mm_prefetch(reinterpret_cast<const char*>(row + (j + kRowsAhead) * width + d), _MM_HINT_T1);
      }
#pragma GCC unroll 6
      for (int q = 0; q < kQueries; ++q) {
        const __m512bh query = load(queries + q * width + d);
#pragma GCC unroll 4
        for (int j = 0; j < kScoreRows; ++j)
          sum[q][j] = _mm512_dpbf16_ps(sum[q][j], query, value[j]);
      }
    }
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q)
      _mm_storeu_ps(scores + q * ld + t, sum_lanes(sum[q][0], sum[q][1], sum[q][2], sum[q][3]));
  }
}

using ScoreGroup = void (*)(const bf16*, const bf16*, int, int, float*, std::ptrdiff_t);
constexpr ScoreGroup kScoreGroups[kQueryGroup + 1] = {nullptr,        score_group<1>, score_group<2>, score_group<3>,
                                                      score_group<4>, score_group<5>, score_group<6>};

void query_scores(const bf16* prepared, int count, const bf16* x, int rows, int width, float* scores,
                  std::ptrdiff_t ld) {
  const int groups = (count + kQueryGroup - 1) / kQueryGroup;
  for (int group = 0; group < groups; ++group) {
    const int first = count * group / groups, last = count * (group + 1) / groups;
    kScoreGroups[last - first](prepared + static_cast<std::ptrdiff_t>(first) * width, x, rows, width,
                               scores + first * ld, ld);
  }
}

// Two rows of x are woven into pairs on the fly; 64 outputs x 6 queries stay in registers.
template <int kQueries>
void weigh_group(const bf16* weights, std::ptrdiff_t ld, const bf16* x, int rows, int width, float* c) {
  const __m512i evens_and_odds = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                                  38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i upper = _mm512_add_epi16(evens_and_odds, _mm512_set1_epi16(16));
  for (int d = 0; d < width; d += 64) {
    __m512 sum[kQueries][4];
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j)
        sum[q][j] = _mm512_loadu_ps(c + static_cast<std::ptrdiff_t>(q) * width + d + 16 * j);
    for (int t = 0; t < rows; t += 2) {
      const bf16* row = x + static_cast<std::ptrdiff_t>(t) * width + d;
      const __m512i a0 = _mm512_loadu_si512(row), b0 = _mm512_loadu_si512(row + width);
      const __m512i a1 = _mm512_loadu_si512(row + 32), b1 = _mm512_loadu_si512(row + width + 32);
      const __m512bh woven[4] = {(__m512bh)_mm512_permutex2var_epi16(a0, evens_and_odds, b0),
                                 (__m512bh)_mm512_permutex2var_epi16(a0, upper, b0),
                                 (__m512bh)_mm512_permutex2var_epi16(a1, evens_and_odds, b1),
                                 (__m512bh)_mm512_permutex2var_epi16(a1, upper, b1)};
#pragma GCC unroll 6
      for (int q = 0; q < kQueries; ++q) {
        const __m512bh pair = broadcast_pair(weights + q * ld + t);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j)
          sum[q][j] = _mm512_dpbf16_ps(sum[q][j], woven[j], pair);
      }
    }
#pragma GCC unroll 6
    for (int q = 0; q < kQueries; ++q)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j)
        _mm512_storeu_ps(c + static_cast<std::ptrdiff_t>(q) * width + d + 16 * j, sum[q][j]);
  }
}

using WeighGroup = void (*)(const bf16*, std::ptrdiff_t, const bf16*, int, int, float*);
constexpr WeighGroup kWeighGroups[kQueryGroup + 1] = {nullptr,        weigh_group<1>, weigh_group<2>, weigh_group<3>,
                                                      weigh_group<4>, weigh_group<5>, weigh_group<6>};

void add_weighted(const bf16* weights, std::ptrdiff_t ld, int count, const bf16* x, int rows, int width, float* c) {
  const int groups = (count + kQueryGroup - 1) / kQueryGroup;
  for (int group = 0; group < groups; ++group) {
    const int first = count * group / groups, last = count * (group + 1) / groups;
    kWeighGroups[last - first](weights + first * ld, ld, x, rows, width,
                               c + static_cast<std::ptrdiff_t>(first) * width);
  }
}

}  // namespace

extern const MicroKernels kAvx512Kernels{"avx512",          2 * kRegisterRows, enter,        block_product,
                                         quantized_product, prepare_queries,   query_scores, add_weighted};

}  // namespace stentor
