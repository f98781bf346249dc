#include <immintrin.h>

#include "kernels.h"
#include "vector_math.h"

namespace stentor {
namespace {

constexpr float kBarred = -__builtin_inff();

inline __m512 at(const LogitRange& range, int first) {
  const __mmask16 valid = first_lanes(range.last - first);
  __m512 logits = _mm512_mask_loadu_ps(set1(kBarred), valid, range.logits + first);
  if (range.barred)
    logits = _mm512_mask_add_ps(logits, valid, logits, _mm512_maskz_loadu_ps(valid, range.barred + first));
  return logits;
}

}  // namespace

LogitSummary summarize(const LogitRange& range, float scale) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512 best = set1(kBarred);
  __m512i tokens = _mm512_set1_epi32(range.first);
  for (int first = range.first; first < range.last; first += kLanes) {
    const __m512 logits = at(range, first);
    const __mmask16 better = _mm512_cmp_ps_mask(logits, best, _CMP_GT_OQ);
    best = _mm512_mask_mov_ps(best, better, logits);
    tokens = _mm512_mask_add_epi32(tokens, better, lanes, _mm512_set1_epi32(first));
  }
  const float max = _mm512_reduce_max_ps(best);
  if (max == kBarred) return {max, range.first, max};
  const __mmask16 equal = _mm512_cmp_ps_mask(best, set1(max), _CMP_EQ_OQ);
  const int token = static_cast<int>(_mm512_mask_reduce_min_epu32(equal, tokens));
  __m512 sum = _mm512_setzero_ps();
  for (int first = range.first; first < range.last; first += kLanes)
    sum = _mm512_add_ps(sum, exp_fine(_mm512_mul_ps(_mm512_sub_ps(at(range, first), set1(max)), set1(scale))));
  return {max, token, max * scale + __builtin_logf(_mm512_reduce_add_ps(sum))};
}

void take_top(const LogitRange& range, int count, TokenLogit* top) {
  for (int first = range.first; first < range.last; first += kLanes) {
    const __m512 logits = at(range, first);
    __mmask16 better = _mm512_cmp_ps_mask(logits, set1(top[count - 1].logit), _CMP_GT_OQ);
    if (better == 0) continue;
    alignas(64) float values[kLanes];
    _mm512_store_ps(values, logits);
    for (; better != 0; better &= static_cast<__mmask16>(better - 1)) {
      const int lane = __builtin_ctz(better);
      int place = count - 1;
      if (!(values[lane] > top[place].logit)) continue;
      for (; place > 0 && values[lane] > top[place - 1].logit; --place)
        top[place] = top[place - 1];
      top[place] = {values[lane], first + lane};
    }
  }
}

int find_mass(const LogitRange& range, float scale, float shift, double& mass) {
  for (int first = range.first; first < range.last; first += kLanes) {
    alignas(64) float weights[kLanes];
    const __m512 power = _mm512_fmsub_ps(at(range, first), set1(scale), set1(shift));
    _mm512_store_ps(weights, exp_fine(power));
    for (int lane = 0; lane < kLanes; ++lane) {
      if (mass < weights[lane]) return first + lane;
      mass -= weights[lane];
    }
  }
  return -1;
}

}  // namespace stentor
