#include <immintrin.h>

#include "kernels.h"
#include "vector_math.h"

namespace stentor {
namespace {

constexpr float kEpsilon = 1e-5f;  // source: torch.nn.LayerNorm's default, which openai/whisper uses

}  // namespace

void layer_norm(const float* x, const float* gain, const float* shift, int rows, int width, bf16* out) {
  for (int row = 0; row < rows; ++row, x += width, out += width) {
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < width; i += kLanes)
      sum = _mm512_add_ps(sum, _mm512_loadu_ps(x + i));
    const __m512 mean = set1(_mm512_reduce_add_ps(sum) / static_cast<float>(width));
    // Two passes: the variance as a difference of squares would lose the digits that large means cancel.
    __m512 squares = _mm512_setzero_ps();
    for (int i = 0; i < width; i += kLanes) {
      const __m512 off = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
      squares = _mm512_fmadd_ps(off, off, squares);
    }
    const float variance = _mm512_reduce_add_ps(squares) / static_cast<float>(width);
    const __m512 scale = _mm512_div_ps(set1(1.0f), _mm512_sqrt_ps(set1(variance + kEpsilon)));
    for (int i = 0; i < width; i += kLanes) {
      const __m512 unit = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + i), mean), scale);
      store_bf16(out + i, _mm512_fmadd_ps(unit, _mm512_loadu_ps(gain + i), _mm512_loadu_ps(shift + i)));
    }
  }
}

void round_to_bf16(const float* from, std::ptrdiff_t count, bf16* out) {
  std::ptrdiff_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    store_bf16(out + i, _mm512_loadu_ps(from + i));
  for (; i < count; ++i)
    out[i] = to_bf16(from[i]);
}

}  // namespace stentor
