#include <immintrin.h>

#include "kernels.h"
#include "vector_math.h"

namespace stentor {
namespace {

constexpr int kMaxBlockRows = 32;
constexpr int kHeadTiles = kHeadWidth / kTileInputs;

constexpr int padded_frames(int frames) { return (frames + kTileInputs - 1) / kTileInputs * kTileInputs; }

// The thread's working memory: keys and values packed as weights are, then a block of scores and its weights.
struct Scratch {
  Scratch(void* memory, int frames) : padded(padded_frames(frames)) {
    keys = static_cast<bf16*>(memory);
    values = keys + static_cast<std::ptrdiff_t>(padded) * kHeadWidth;
    weights = values + static_cast<std::ptrdiff_t>(padded) * kHeadWidth;
    scores = reinterpret_cast<float*>(weights + static_cast<std::ptrdiff_t>(padded) * kMaxBlockRows);
  }
  int padded;
  bf16* keys;     // panels of 16 frames, the head's 64 channels as inputs
  bf16* values;   // panels of 16 channels, the frames as inputs
  bf16* weights;  // [kMaxBlockRows][padded]
  float* scores;  // [kMaxBlockRows][padded]
};

// Channel pairs of 16 frames, transposed: [pair][frame]. Frames past the end become zeros.
void pack_keys(const bf16* k, std::ptrdiff_t ld, int frames, const Scratch& to) {
  for (int t = 0; t < to.padded; ++t) {
    bf16* panel = to.keys + static_cast<std::ptrdiff_t>(t / kPanel) * kHeadTiles * kTileElements + t % kPanel * 2;
    for (int pair = 0; pair < kHeadWidth / 2; ++pair) {
      std::uint32_t channels = 0;
      if (t < frames) __builtin_memcpy(&channels, k + t * ld + 2 * pair, sizeof channels);
      __builtin_memcpy(panel + pair * 2 * kPanel, &channels, sizeof channels);
    }
  }
}

// Frame pairs woven: [pair of frames][channel][2], for each panel of 16 channels.
void pack_values(const bf16* v, std::ptrdiff_t ld, int frames, const Scratch& to) {
  const __m512i evens_and_odds = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                                  38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i upper = _mm512_add_epi16(evens_and_odds, _mm512_set1_epi16(16));
  const std::ptrdiff_t panel = static_cast<std::ptrdiff_t>(to.padded) * kPanel;
  for (int t = 0; t < to.padded; t += 2) {
    for (int half = 0; half < 2; ++half) {
      const bf16* row = v + t * ld + 32 * half;
      const __m512i a = t < frames ? _mm512_loadu_si512(row) : _mm512_setzero_si512();
      const __m512i b = t + 1 < frames ? _mm512_loadu_si512(row + ld) : _mm512_setzero_si512();
      bf16* out = to.values + 2 * half * panel + t * kPanel;
      _mm512_store_si512(out, _mm512_permutex2var_epi16(a, evens_and_odds, b));
      _mm512_store_si512(out + panel, _mm512_permutex2var_epi16(a, upper, b));
    }
  }
}

// Turns a row of scores into unnormalised weights and returns one over their sum. Padding weighs nothing.
float soften(float* scores, int frames, int padded, bf16* weights) {
  // Scores are q.k / sqrt(64); in powers of two, so that the exponential is one of 2.
  const __m512 scale = set1(0.125f * kLog2E);
  for (int t = frames; t < padded; ++t)
    scores[t] = -1e30f;
  __m512 max0 = _mm512_loadu_ps(scores), max1 = max0;
  for (int t = 0; t < padded; t += 2 * kLanes) {
    max0 = _mm512_max_ps(max0, _mm512_loadu_ps(scores + t));
    max1 = _mm512_max_ps(max1, _mm512_loadu_ps(scores + t + kLanes));
  }
  const __m512 shift = _mm512_mul_ps(set1(_mm512_reduce_max_ps(_mm512_max_ps(max0, max1))), scale);
  __m512 sum0 = _mm512_setzero_ps(), sum1 = sum0;
  for (int t = 0; t < padded; t += 2 * kLanes) {
    const __m512 low = exp2_rough(_mm512_fmsub_ps(_mm512_loadu_ps(scores + t), scale, shift));
    const __m512 high = exp2_rough(_mm512_fmsub_ps(_mm512_loadu_ps(scores + t + kLanes), scale, shift));
    sum0 = _mm512_add_ps(sum0, low);
    sum1 = _mm512_add_ps(sum1, high);
    _mm512_storeu_si512(weights + t, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  return 1.0f / _mm512_reduce_add_ps(_mm512_add_ps(sum0, sum1));
}

}  // namespace

std::size_t encoder_attention_scratch(int frames) {
  const std::size_t padded = static_cast<std::size_t>(padded_frames(frames));
  return padded * (2 * kHeadWidth * sizeof(bf16) + kMaxBlockRows * (sizeof(bf16) + sizeof(float)));
}

void encoder_attention(const MicroKernels& micro, const EncoderAttention& task) {
  const Scratch scratch(task.scratch, task.frames);
  pack_keys(task.head + task.part, task.ld, task.frames, scratch);
  pack_values(task.head + 2 * task.part, task.ld, task.frames, scratch);
  alignas(64) float context[kMaxBlockRows * kHeadWidth];
  for (int first = task.first; first < task.last; first += micro.block_rows) {
    const int rows = smaller(micro.block_rows, task.last - first);
    micro.block_product(task.head + first * task.ld, task.ld, rows, scratch.keys, kHeadTiles * kTileElements,
                        kHeadTiles, scratch.padded / kPairOfPanels, scratch.scores, scratch.padded);
    float one_over_sum[kMaxBlockRows];
    for (int i = 0; i < rows; ++i) {
      const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(i) * scratch.padded;
      one_over_sum[i] = soften(scratch.scores + row, task.frames, scratch.padded, scratch.weights + row);
    }
    micro.block_product(scratch.weights, scratch.padded, rows, scratch.values,
                        static_cast<std::ptrdiff_t>(scratch.padded) * kPanel, scratch.padded / kTileInputs,
                        kHeadWidth / kPairOfPanels, context, kHeadWidth);
    for (int i = 0; i < rows; ++i)
      for (int c = 0; c < kHeadWidth; c += kLanes)
        store_bf16(task.out + (first + i) * task.ldo + c,
                   _mm512_mul_ps(_mm512_load_ps(context + i * kHeadWidth + c), set1(one_over_sum[i])));
  }
}

}  // namespace stentor
