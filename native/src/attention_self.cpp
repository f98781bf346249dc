#include <immintrin.h>

#include "kernels.h"
#include "vector_math.h"

namespace stentor {

void self_attention(const SelfAttention& task) {
  const int length = task.length;
  const auto place = [&](int t) { return task.tracks[t] * task.track_stride + t * kHeadWidth; };
  alignas(64) float weights[kMaxPositions + kLanes];
  const __m512bh q0 = (__m512bh)_mm512_loadu_si512(task.q), q1 = (__m512bh)_mm512_loadu_si512(task.q + 32);
  float max = -1e30f;
  for (int t = 0; t < length; ++t) {
    const bf16* key = task.keys + place(t);
    __m512 sum = _mm512_dpbf16_ps(_mm512_setzero_ps(), q0, (__m512bh)_mm512_loadu_si512(key));
    sum = _mm512_dpbf16_ps(sum, q1, (__m512bh)_mm512_loadu_si512(key + 32));
    weights[t] = _mm512_reduce_add_ps(sum);
    max = weights[t] > max ? weights[t] : max;
  }
  const __m512 scale = set1(0.125f * kLog2E), shift = set1(max * 0.125f * kLog2E);
  __m512 total = _mm512_setzero_ps();
  for (int t = 0; t < length; t += kLanes) {
    const __mmask16 valid = first_lanes(length - t);
    const __m512 score = _mm512_maskz_loadu_ps(valid, weights + t);
    const __m512 weight = _mm512_maskz_mov_ps(valid, exp2_rough(_mm512_fmsub_ps(score, scale, shift)));
    total = _mm512_add_ps(total, weight);
    _mm512_store_ps(weights + t, weight);
  }
  __m512 sum[kHeadWidth / kLanes] = {};
  for (int t = 0; t < length; ++t) {
    const bf16* value = task.values + place(t);
    for (int c = 0; c < kHeadWidth / kLanes; ++c)
      sum[c] = _mm512_fmadd_ps(set1(weights[t]), load_bf16(value + c * kLanes), sum[c]);
  }
  const __m512 one_over_total = set1(1.0f / _mm512_reduce_add_ps(total));
  for (int c = 0; c < kHeadWidth / kLanes; ++c)
    store_bf16(task.out + c * kLanes, _mm512_mul_ps(sum[c], one_over_total));
}

}  // namespace stentor
