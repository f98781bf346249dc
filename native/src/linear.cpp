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

inline void block_of(const MicroKernels& micro, const Linear& p, int pair, int first, int rows, float* block) {
  const std::ptrdiff_t panel_stride = static_cast<std::ptrdiff_t>(p.tiles) * kTileElements;
  micro.block_product(p.a + first * p.lda, p.lda, rows, p.panels + 2 * pair * panel_stride, panel_stride, p.tiles, 1,
                      block, kPairOfPanels);
}

inline void block_of(const MicroKernels& micro, const QuantizedLinear& p, int pair, int first, int rows, float* block) {
  const std::ptrdiff_t inputs = static_cast<std::ptrdiff_t>(p.groups) * kGroupInputs;
  micro.quantized_product(p.a + first * inputs, inputs, p.ranges + static_cast<std::ptrdiff_t>(first) * p.groups, rows,
                          p.panels + 2 * static_cast<std::ptrdiff_t>(pair) * p.groups * kGroupBytes, p.groups, block,
                          kPairOfPanels);
}

template <Finish kFinish, class Product>
void run(const MicroKernels& micro, const Product& p) {
  alignas(64) float block[kMaxBlockRows * kPairOfPanels];
  constexpr std::ptrdiff_t size =
      kFinish == Finish::bf16 || kFinish == Finish::gelu_bf16 ? sizeof(bf16) : sizeof(float);
  // A pair of panels stays in the first-level cache while all rows pass by it.
  for (int pair = p.first_pair; pair < p.last_pair; ++pair) {
    const int n = pair * kPairOfPanels;
    const __m512 bias0 = p.bias ? _mm512_loadu_ps(p.bias + n) : _mm512_setzero_ps();
    const __m512 bias1 = p.bias ? _mm512_loadu_ps(p.bias + n + kLanes) : _mm512_setzero_ps();
    for (int first = 0; first < p.rows; first += micro.block_rows) {
      const int rows = smaller(micro.block_rows, p.rows - first);
      block_of(micro, p, pair, first, rows, block);
      for (int i = 0; i < rows; ++i) {
        const std::ptrdiff_t at = (first + i) * p.ldo + n;
        finish_row<kFinish>(block + i * kPairOfPanels, bias0, bias1, static_cast<char*>(p.out) + at * size,
                            kFinish == Finish::gelu_float ? p.addend + at : nullptr);
      }
    }
  }
}

template <class Product>
void run_any(const MicroKernels& micro, const Product& product) {
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

}  // namespace

void linear(const MicroKernels& micro, const Linear& product) { run_any(micro, product); }

void linear(const MicroKernels& micro, const QuantizedLinear& product) { run_any(micro, product); }

}  // namespace stentor
