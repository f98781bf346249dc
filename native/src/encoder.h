// The encoder, one layer at a time, so that decoder steps and aborts get their turn between two layers.
#pragma once

#include <memory>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "threads.h"

namespace stentor {

// What the encoder made of 30 s of audio: bf16 [kPaddedFrames][width], rows past kFrames zero. Shared by all
// that attend over it.
using EncodedAudio = std::shared_ptr<Buffer<bf16>>;

// A window between two pieces. Its encoder can take up another window meanwhile, in another state.
struct EncoderState {
  explicit EncoderState(int width)
      : residual(static_cast<std::size_t>(kPaddedFrames) * width),
        qkv(static_cast<std::size_t>(kPaddedFrames) * 3 * width) {}

  std::size_t bytes() const { return residual.bytes() + qkv.bytes(); }

  Buffer<float> residual;  // [kPaddedFrames][width]
  Buffer<bf16> qkv;        // [kPaddedFrames][3][width]
};

class Encoder {
 public:
  Encoder(const Model& model, const MicroKernels& micro, ThreadPool& pool);

  // Layers, and one for the convolutions before them.
  int pieces() const { return model_.shape.encoder_layers + 1; }

  // Computes the next piece of a window; they come in order, 0 first.
  //   mel     float [mels][kMelFrames], read in piece 0
  //   state   of this window alone until its last piece
  //   out     written in the last piece
  void compute(int piece, const float* mel, EncoderState& state, Buffer<bf16>& out);

  std::size_t bytes() const;

 private:
  struct Workspace {
    Buffer<bf16> normed;      // [block][width]
    Buffer<bf16> inner;       // [block][inner]
    QuantizedRows quantized;  // [block][inner]
    Buffer<char> attention;
  };

  void convolve(const float* mel, EncoderState& state);
  void attend(const EncoderState& state);
  void feed_forward(int layer, EncoderState& state, Buffer<bf16>* out);
  void project_qkv(const EncoderLayer& layer, EncoderState& state, int first, int rows, Workspace& space);
  void product(const Dense& dense, const bf16* a, std::ptrdiff_t lda, int rows, Finish finish, void* out,
               std::ptrdiff_t ldo, const float* addend = nullptr) const;
  void product(const Dense& dense, const bf16* a, std::ptrdiff_t inputs, int rows, QuantizedRows& space, Finish finish,
               void* out, std::ptrdiff_t ldo) const;

  const Model& model_;
  const MicroKernels& micro_;
  ThreadPool& pool_;
  Buffer<bf16> frames_;                // mel, [frame][mel], a silent frame before and after
  Buffer<bf16> convolved_;             // after the first convolution, [frame][width], likewise
  Buffer<bf16> attended_;              // [kPaddedFrames][width]
  std::vector<Workspace> workspaces_;  // one per thread
};

}  // namespace stentor
