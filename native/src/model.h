// The network's weights, ready to multiply.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "memory.h"
#include "pack.h"
#include "quantized.h"

namespace stentor {

constexpr int kFrames = 1500;            // encoder positions; source: openai/whisper, n_audio_ctx
constexpr int kPaddedFrames = 1536;      // rows of its buffers: blocks of 96 rows, products of 16 and 32
constexpr int kMelFrames = 2 * kFrames;  // spectrogram columns
constexpr int kConvolutionTaps = 3;

// What sizes a Whisper network. All else follows: heads = width / 64, inner width = 4 * width.
struct ModelShape {
  int mels = 0;
  int width = 0;
  int encoder_layers = 0;
  int decoder_layers = 0;
  int vocabulary = 0;

  int heads() const { return width / 64; }
  int inner() const { return 4 * width; }
  int padded_vocabulary() const { return static_cast<int>(round_up(vocabulary, kPairOfPanels)); }
};

// Gives a tensor by its CTranslate2 name as float32, row-major, with exactly `count` elements; it stays valid
// until the next call. Throws where there is none.
using TensorSource = std::function<const float*(const std::string& name, std::size_t count)>;

struct Norm {
  Buffer<float> gain, shift;  // [width]
};

struct Dense {
  PackedWeight weight;
  QuantizedWeight quantized;  // in place of weight where it has groups
  Buffer<float> bias;         // [outputs padded to 32]
};

struct FeedForward {
  Norm norm;
  Dense up, down;  // width -> inner -> width
};

struct EncoderLayer {
  Norm norm;
  Dense qkv, out;  // width -> 3 width, width -> width
  FeedForward feed_forward;
};

// Cross-attention in absorbed form. With keys K = X Wk^T and values V = X Wv^T + bv of the encoder output X,
//   scores  q K^T / 8 = (q Wk / 8) X^T      (a key bias would shift all scores alike; Whisper has none)
//   context p V       = (p X) Wv^T + bv     (weights p sum to one)
// so that all layers attend over X itself and none keeps keys or values of its own.
struct AbsorbedAttention {
  Norm norm;
  Dense query;                        // width -> width
  std::vector<PackedWeight> to_keys;  // per head: 64 -> width, with the 1/8 in it
  std::vector<Dense> to_values;       // per head: width -> 64
  Dense out;                          // width -> width
};

struct DecoderLayer {
  Norm norm;
  Dense qkv, out;
  AbsorbedAttention cross;
  FeedForward feed_forward;
};

struct Model {
  // quantized: whether the encoder's layers are in 8 bits.
  Model(const ModelShape& shape, const TensorSource& tensor, bool quantized);

  std::size_t bytes() const { return bytes_; }

  ModelShape shape;
  bool quantized;

  Dense convolution1;             // taps x mels -> width; a row is three neighbouring frames
  Dense convolution2;             // taps x width -> width
  Buffer<float> frame_positions;  // [kPaddedFrames][width], zeros past kFrames
  std::vector<EncoderLayer> encoder;
  Norm encoder_norm;

  Buffer<bf16> embeddings;        // [vocabulary][width]
  Buffer<float> token_positions;  // [kMaxPositions][width]
  std::vector<DecoderLayer> decoder;
  Norm decoder_norm;
  PackedWeight projection;  // width -> vocabulary

 private:
  std::size_t bytes_ = 0;
};

}  // namespace stentor
