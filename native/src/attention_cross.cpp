#include <immintrin.h>

#include "kernels.h"
#include "vector_math.h"

namespace stentor {
namespace {

// Frames that pass by at once: 32 rows of x (24 KB for Whisper tiny, 32 KB for base) are read twice, the second
// time from cache, so that x streams from memory once per layer.
constexpr int kFrames = 32;

struct Scratch {
  Scratch(void* memory, int width) {
    sums = static_cast<float*>(memory);
    scores = sums + static_cast<std::ptrdiff_t>(kMaxQueries) * width;
    prepared = reinterpret_cast<bf16*>(scores + kMaxQueries * kFrames);
    weights = prepared + static_cast<std::ptrdiff_t>(kMaxQueries) * width;
  }
  float* sums;     // [kMaxQueries][width], of what was weighed so far
  float* scores;   // [kMaxQueries][kFrames]
  bf16* prepared;  // [kMaxQueries][width]
  bf16* weights;   // [kMaxQueries][kFrames]
};

// A softmax whose end is not known yet: the greatest score so far and the sum relative to it.
struct Running {
  float max = -1e30f;
  float sum = 0;
};

void multiply(float* row, int width, float factor) {
  for (int d = 0; d < width; d += kLanes)
    _mm512_storeu_ps(row + d, _mm512_mul_ps(_mm512_loadu_ps(row + d), set1(factor)));
}

float power_of_two(float x) { return _mm512_cvtss_f32(exp2_rough(set1(x < -200.0f ? -200.0f : x))); }

// Weighs `frames` scores of one query; a new maximum shrinks what was summed before.
void weigh(const float* scores, int frames, int padded, Running& running, float* sums, int width, bf16* weights) {
  __m512 greatest = set1(running.max);
  for (int t = 0; t < frames; t += kLanes)
    greatest = _mm512_mask_max_ps(greatest, first_lanes(frames - t), greatest, _mm512_loadu_ps(scores + t));
  const float max = _mm512_reduce_max_ps(greatest);
  if (max > running.max) {
    const float factor = power_of_two((running.max - max) * kLog2E);
    running.max = max;
    running.sum *= factor;
    multiply(sums, width, factor);
  }
  const __m512 shift = set1(running.max * kLog2E);
  __m512 sum = _mm512_setzero_ps();
  for (int t = 0; t < padded; t += kLanes) {
    const __m512 power = _mm512_fmsub_ps(_mm512_loadu_ps(scores + t), set1(kLog2E), shift);
    const __m512 weight = _mm512_maskz_mov_ps(first_lanes(frames - t), exp2_rough(power));
    sum = _mm512_add_ps(sum, weight);
    store_bf16(weights + t, weight);
  }
  running.sum += _mm512_reduce_add_ps(sum);
}

}  // namespace

std::size_t cross_attention_scratch(int width) {
  return static_cast<std::size_t>(kMaxQueries) * (static_cast<std::size_t>(width) + kFrames) *
         (sizeof(float) + sizeof(bf16));
}

void cross_attention(const MicroKernels& micro, const CrossAttention& task) {
  const Scratch scratch(task.scratch, task.width);
  Running running[kMaxQueries];
  __builtin_memset(scratch.sums, 0, sizeof(float) * kMaxQueries * task.width);
  __builtin_memset(scratch.weights, 0, sizeof(bf16) * kMaxQueries * kFrames);
  micro.prepare_queries(task.queries, task.count, task.width, scratch.prepared);
  for (int first = 0; first < task.frames; first += kFrames) {
    const int frames = smaller(kFrames, task.frames - first);
    const int padded = (frames + kTileInputs - 1) / kTileInputs * kTileInputs;
    const bf16* x = task.x + static_cast<std::ptrdiff_t>(first) * task.width;
    micro.query_scores(scratch.prepared, task.count, x, padded, task.width, scratch.scores, kFrames);
    for (int q = 0; q < task.count; ++q) {
      const float* scores = scratch.scores + q * kFrames;
      if (task.scores)
        __builtin_memcpy(task.scores + static_cast<std::ptrdiff_t>(q) * task.frames + first, scores,
                         sizeof(float) * frames);
      weigh(scores, frames, padded, running[q], scratch.sums + static_cast<std::ptrdiff_t>(q) * task.width, task.width,
            scratch.weights + q * kFrames);
    }
    micro.add_weighted(scratch.weights, kFrames, task.count, x, padded, task.width, scratch.sums);
  }
  for (int q = 0; q < task.count; ++q) {
    const __m512 one_over_sum = set1(1.0f / running[q].sum);
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(q) * task.width;
    for (int d = 0; d < task.width; d += kLanes)
      store_bf16(task.out + row + d, _mm512_mul_ps(_mm512_loadu_ps(scratch.sums + row + d), one_over_sum));
  }
}

}  // namespace stentor
