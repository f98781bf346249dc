// What the network is computed with, above the products: each on one thread, with raw pointers.
//
// All are compiled with AVX-512 flags; call them only where cpu_features().avx512_bf16. Rows are contiguous
// runs of the last dimension; a stride counts elements from a row to the next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "micro.h"

namespace stentor {

constexpr int kHeadWidth = 64;  // of every Whisper model; source: openai/whisper, n_state / n_head

// What becomes of a product on its way out of the registers.
enum class Finish {
  bf16,         // out bf16   = product + bias
  gelu_bf16,    // out bf16   = gelu(product + bias)
  add_float,    // out float += product + bias
  gelu_float,   // out float  = gelu(product + bias) + addend
  plain_float,  // out float  = product + bias
};

// out[i][n] = finish(sum over k of a[i][k] * w[n][k] + bias[n]) for outputs n of pairs [first_pair, last_pair).
struct LinearOutput {
  int rows = 0;
  int first_pair = 0, last_pair = 0;  // of panels
  const float* bias = nullptr;        // float [outputs padded to 32], or null
  Finish finish = Finish::bf16;
  void* out = nullptr;  // bf16 or float [rows][outputs padded to 32]
  std::ptrdiff_t ldo = 0;
  const float* addend = nullptr;  // float [rows][outputs], row stride ldo; for gelu_float
};

struct Linear : LinearOutput {
  const bf16* a = nullptr;  // bf16 [rows][inputs]; readable to the next multiple of 16 rows and 32 inputs, finite
  std::ptrdiff_t lda = 0;
  const bf16* panels = nullptr;  // packed weight, see pack.h
  int tiles = 0;                 // of 32 inputs
};
void linear(const MicroKernels& micro, const Linear& product);

// The same in 8 bits, see quantized.h; where micro has a quantized_product.
struct QuantizedLinear : LinearOutput {
  const std::uint8_t* a = nullptr;     // [rows][128 * groups], contiguous
  const GroupRange* ranges = nullptr;  // [rows][groups], contiguous
  const std::uint8_t* panels = nullptr;
  int groups = 0;  // of 128 inputs
};
void linear(const MicroKernels& micro, const QuantizedLinear& product);

// Brings rows into 8 bits: bf16 [rows][width], row stride ld, width a multiple of 16, all finite, becomes
// values [rows][width padded to 128] and ranges [rows][groups]. The padding is left as it is: weights are 0 there.
void quantize(const bf16* x, std::ptrdiff_t ld, int rows, int width, std::uint8_t* values, GroupRange* ranges);

// out[i] = (x[i] - mean) / sqrt(variance + 1e-5) * gain + shift, rows of `width`, a multiple of 16.
// x float [rows][width], out bf16 [rows][width], both contiguous.
void layer_norm(const float* x, const float* gain, const float* shift, int rows, int width, bf16* out);

// out[i] = from[i], rounded to bf16.
void round_to_bf16(const float* from, std::ptrdiff_t count, bf16* out);

// One head of encoder self-attention for queries [first, last).
// qkv bf16 [frames][3][heads][64] with row stride ld; `head` points at the head's q of frame 0, its k and v lie
// `part` and 2 * part further. out bf16 [frames][heads * 64], row stride ldo, at the head.
// scratch: encoder_attention_scratch(frames) bytes, 64-byte aligned, of this thread alone.
struct EncoderAttention {
  const bf16* head;
  std::ptrdiff_t ld, part;
  int frames, first, last;
  bf16* out;
  std::ptrdiff_t ldo;
  void* scratch;
};
std::size_t encoder_attention_scratch(int frames);
void encoder_attention(const MicroKernels& micro, const EncoderAttention& task);

// One head of decoder self-attention for one row. q bf16 [64]; keys and values bf16 [track][length][64], with this
// row's own last; out bf16 [64]. length <= kMaxPositions.
constexpr int kMaxPositions = 448;  // source: openai/whisper, n_text_ctx
struct SelfAttention {
  const bf16* q;
  const bf16 *keys, *values;   // of track 0
  const std::uint8_t* tracks;  // in which track each position lies
  std::ptrdiff_t track_stride;
  int length;
  bf16* out;
};
void self_attention(const SelfAttention& task);

// Absorbed cross-attention: `count` queries, already carried into the encoder's space and scaled, over one
// copy of the encoder's output.
//   out[q][d] = sum over t of softmax_t(queries[q] . x[t]) x[t][d]
// queries, out bf16 [count][width], may be the same; x bf16 [frames rounded up to 32][width], the rows past
// frames finite; scores float [count][frames], or null: the products before the softmax, for word alignment.
// scratch: cross_attention_scratch(width) bytes, 64-byte aligned, of this thread alone.
struct CrossAttention {
  const bf16* queries;
  int count, width;
  const bf16* x;
  int frames;
  bf16* out;
  float* scores;
  void* scratch;
};
std::size_t cross_attention_scratch(int width);
void cross_attention(const MicroKernels& micro, const CrossAttention& task);

// Tokens [first, last) of a row of logits, those left out by `barred` (float [vocabulary], 0 or -inf, or null).
struct LogitRange {
  const float* logits;
  const float* barred;
  int first, last;
};

// The greatest logit (-inf if all are barred), the first token that has it, and log(sum(exp(logit * scale))).
struct LogitSummary {
  float max;
  int token;
  float log_sum;
};
LogitSummary summarize(const LogitRange& range, float scale);

struct TokenLogit {
  float logit;
  int token;
};

// Takes what is greater in the range into `top`, `count` of them, greatest first; unused ones have the logit -inf.
void take_top(const LogitRange& range, int count, TokenLogit* top);

// The first token at which the running sum of exp(logit * scale - shift) passes `mass`; -1 if none does, and
// then `mass` is what is left of it.
int find_mass(const LogitRange& range, float scale, float shift, double& mass);

}  // namespace stentor
