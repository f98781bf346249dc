#include <immintrin.h>

#include "kernels.h"
#include "vector_math.h"

namespace stentor {

void quantize(const bf16* x, std::ptrdiff_t ld, int rows, int width, std::uint8_t* values, GroupRange* ranges) {
  const int groups = (width + kGroupInputs - 1) / kGroupInputs;
  for (int row = 0; row < rows; ++row)
    for (int group = 0; group < groups; ++group) {
      const bf16* from = x + row * ld + group * kGroupInputs;
      const int count = smaller(kGroupInputs, width - group * kGroupInputs);
      // Zero is always in the range, and stays exactly zero: most of what the activation lets through is near it.
      __m512 least = _mm512_setzero_ps(), greatest = least;
      for (int k = 0; k < count; k += kLanes) {
        const __m512 value = load_bf16(from + k);
        least = _mm512_min_ps(least, value);
        greatest = _mm512_max_ps(greatest, value);
      }
      const float low = _mm512_reduce_min_ps(least), high = _mm512_reduce_max_ps(greatest);
      const float scale = (high - low) / 255.0f;
      const float one_over_scale = scale > 0 ? 1.0f / scale : 0.0f;
      const int zero = _mm_cvtss_si32(_mm_set_ss(-low * one_over_scale));
      std::uint8_t* to = values + (static_cast<std::ptrdiff_t>(row) * groups + group) * kGroupInputs;
      for (int k = 0; k < count; k += kLanes) {
        const __m512i steps = _mm512_cvtps_epi32(_mm512_mul_ps(load_bf16(from + k), set1(one_over_scale)));
        _mm_storeu_si128((__m128i*)(to + k), _mm512_cvtusepi32_epi8(_mm512_add_epi32(steps, _mm512_set1_epi32(zero))));
      }
      ranges[static_cast<std::ptrdiff_t>(row) * groups + group] = {scale, zero};
    }
}

}  // namespace stentor
