#include <immintrin.h>

#include "kernels.h"
#include "vector_math.h"

namespace stentor {
namespace {

constexpr int kMaxBlockRows = 32;

// One row of 32 outputs leaves the block.
template <Finish kFinish>
inline void finish_row(const float* sums, __m512 bias0, __m512 bias1, void* out, const float* addend) {
  __m512 low = _mm512_add_ps(_mm512_load_ps(sums), bias0);
  __m512 high = _mm512_add_ps(_mm512_load_ps(sums + kLanes), bias1);
  if constexpr (kFinish == Finish::gelu_bf16 || kFinish == Finish::gelu_float) {
    low = gelu(low);
    high = gelu(high);
  }
  if constexpr (kFinish == Finish::bf16 || kFinish == Finish::gelu_bf16) {
    _mm512_storeu_si512(out, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  } else {
    float* to = static_cast<float*>(out);
    if constexpr (kFinish == Finish::add_float) addend = to;
    if constexpr (kFinish != Finish::plain_float) {
      low = _mm512_add_ps(low, _mm512_loadu_ps(addend));
      high = _mm512_add_ps(high, _mm512_loadu_ps(addend + kLanes));
    }
    _mm512_storeu_ps(to, low);
    _mm512_storeu_ps(to + kLanes, high);
  }
}

template <Finish kFinish>
void run(const MicroKernels& micro, const Linear& p) {
  alignas(64) float block[kMaxBlockRows * kPairOfPanels];
  constexpr std::ptrdiff_t size =
      kFinish == Finish::bf16 || kFinish == Finish::gelu_bf16 ? sizeof(bf16) : sizeof(float);
  const std::ptrdiff_t panel_stride = static_cast<std::ptrdiff_t>(p.tiles) * kTileElements;
  // A pair of panels stays in the first-level cache while all rows pass by it.
  for (int pair = p.first_pair; pair < p.last_pair; ++pair) {
    const int n = pair * kPairOfPanels;
    const __m512 bias0 = p.bias ? _mm512_loadu_ps(p.bias + n) : _mm512_setzero_ps();
    const __m512 bias1 = p.bias ? _mm512_loadu_ps(p.bias + n + kLanes) : _mm512_setzero_ps();
    for (int first = 0; first < p.rows; first += micro.block_rows) {
      const int rows = smaller(micro.block_rows, p.rows - first);
      micro.block_product(p.a + first * p.lda, p.lda, rows, p.panels + 2 * pair * panel_stride, panel_stride, p.tiles,
                          1, block, kPairOfPanels);
      for (int i = 0; i < rows; ++i) {
        const std::ptrdiff_t at = (first + i) * p.ldo + n;
        finish_row<kFinish>(block + i * kPairOfPanels, bias0, bias1, static_cast<char*>(p.out) + at * size,
                            kFinish == Finish::gelu_float ? p.addend + at : nullptr);
      }
    }
  }
}

}  // namespace

void linear(const MicroKernels& micro, const Linear& product) {
  switch (product.finish) {
    case Finish::bf16:
      return run<Finish::bf16>(micro, product);
    case Finish::gelu_bf16:
      return run<Finish::gelu_bf16>(micro, product);
    case Finish::add_float:
      return run<Finish::add_float>(micro, product);
    case Finish::gelu_float:
      return run<Finish::gelu_float>(micro, product);
    case Finish::plain_float:
      return run<Finish::plain_float>(micro, product);
  }
}

}  // namespace stentor
