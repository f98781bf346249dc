// Functions of 16 floats at once. For translation units compiled with AVX-512 flags only; everything is local
// to them, so that the linker cannot hand AVX-512 code to a unit that must run anywhere.
#pragma once

#include <immintrin.h>

#include "bf16.h"

namespace stentor {
namespace {

constexpr int kLanes = 16;
constexpr float kLog2E = 1.44269504f;

inline __m512 set1(float value) { return _mm512_set1_ps(value); }

// 2^x for x <= 0, relative error under 8e-5 (a 50th of a bf16 step); 0 far below. Polynomial of least
// maximal relative error over [-1/2, 1/2]. For weights that are rounded to bf16 next.
inline __m512 exp2_rough(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(x, n);
  __m512 p = set1(0.05517167f);
  p = _mm512_fmadd_ps(p, f, set1(0.24261114f));
  p = _mm512_fmadd_ps(p, f, set1(0.69326099f));
  p = _mm512_fmadd_ps(p, f, set1(0.99992807f));
  return _mm512_scalef_ps(p, n);
}

// e^x, relative error under 3e-7 + 6e-8 |x|; 0 for x = -inf. For sums whose logarithm is a result.
inline __m512 exp_fine(__m512 x) {
  const __m512 y = _mm512_max_ps(_mm512_mul_ps(x, set1(kLog2E)), set1(-200.0f));
  const __m512 n = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(y, n);
  __m512 p = set1(0.001327647f);
  p = _mm512_fmadd_ps(p, f, set1(0.009675542f));
  p = _mm512_fmadd_ps(p, f, set1(0.055507133f));
  p = _mm512_fmadd_ps(p, f, set1(0.240221197f));
  p = _mm512_fmadd_ps(p, f, set1(0.693146967f));
  p = _mm512_fmadd_ps(p, f, set1(1.000000072f));
  return _mm512_scalef_ps(p, n);
}

// x/2 (1 + erf(x / sqrt 2)), absolute error under 5e-5 |x|.
// Source: Abramowitz and Stegun 7.1.25, erfc(z) = (a1 t + a2 t^2 + a3 t^3) e^(-z^2), error under 2.5e-5.
inline __m512 gelu(__m512 x) {
  const __m512 z = _mm512_mul_ps(_mm512_abs_ps(x), set1(0.70710678f));
  const __m512 t = _mm512_rcp14_ps(_mm512_fmadd_ps(z, set1(0.47047f), set1(1.0f)));
  __m512 p = _mm512_fmadd_ps(t, set1(0.7478556f), set1(-0.0958798f));
  p = _mm512_mul_ps(_mm512_fmadd_ps(p, t, set1(0.3480242f)), t);
  const __m512 erfc = _mm512_mul_ps(p, exp2_rough(_mm512_mul_ps(_mm512_mul_ps(z, z), set1(-kLog2E))));
  const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(x));
  const __m512 one_plus_erf = _mm512_mask_mov_ps(_mm512_sub_ps(set1(2.0f), erfc), negative, erfc);
  return _mm512_mul_ps(_mm512_mul_ps(x, set1(0.5f)), one_plus_erf);
}

inline __m512 load_bf16(const bf16* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}

inline void store_bf16(bf16* p, __m512 value) { _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(value)); }

// Lanes [0, count) of 16.
inline __mmask16 first_lanes(int count) { return count >= kLanes ? 0xffff : (1u << (count > 0 ? count : 0)) - 1; }

inline int smaller(int a, int b) { return a < b ? a : b; }

}  // namespace
}  // namespace stentor
