// The decoder: one step moves any number of rows, each a token at a position of some sequence.
#pragma once

#include <utility>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "threads.h"

namespace stentor {

// A token on its way through the decoder. Rows of one slot are neighbours, in the order of their positions.
struct DecoderRow {
  int slot = 0;
  int track = 0;                         // of the slot's, where this row's keys and values go
  const std::uint8_t* tracks = nullptr;  // [position + 1]: where those of each position are, with its own
  int token = 0;
  int position = 0;
  const bf16* audio = nullptr;  // what the slot attends over, see EncodedAudio
  bool wants_logits = false;
  float* alignment = nullptr;  // float [alignment heads][kFrames], or null: raw cross-attention scores
};

class Decoder {
 public:
  // slots: sequences whose keys and values are kept, each in so many tracks. alignment_heads: (layer, head), for
  // DecoderRow::alignment.
  Decoder(const Model& model, const MicroKernels& micro, ThreadPool& pool, int slots, int tracks,
          std::vector<std::pair<int, int>> alignment_heads);

  // Rows of a step: a token of every track, and room for prompts.
  int max_rows() const { return max_rows_; }
  int alignment_heads() const { return static_cast<int>(alignment_heads_.size()); }

  // Computes all rows. Afterwards logits(i) are those of the i-th row that wanted them, float [vocabulary].
  void step(const std::vector<DecoderRow>& rows);
  float* logits(int index) {
    return logits_.data() + static_cast<std::size_t>(index) * model_.shape.padded_vocabulary();
  }

  std::size_t slot_bytes() const;  // of keys and values, per slot
  std::size_t bytes() const;

 private:
  bf16* keys(int layer, int slot, int track, int head);
  std::ptrdiff_t track_stride() const;

  void embed(const std::vector<DecoderRow>& rows);
  void normalize(const Norm& norm, int rows);
  void attend_to_text(int layer, const std::vector<DecoderRow>& rows);
  void attend_to_audio(int layer, const std::vector<DecoderRow>& rows);
  void attend_group(int layer, const std::vector<DecoderRow>& rows, int first, int last, int thread);
  void feed_forward(const FeedForward& layer, int rows);
  void project(const std::vector<DecoderRow>& rows);
  void product(const PackedWeight& weight, const float* bias, const bf16* a, std::ptrdiff_t lda, int rows,
               Finish finish, void* out, std::ptrdiff_t ldo);

  const Model& model_;
  const MicroKernels& micro_;
  ThreadPool& pool_;
  int slots_, tracks_;
  int max_rows_;
  std::vector<std::pair<int, int>> alignment_heads_;
  Buffer<bf16> cache_;      // [layer][slot][track][head][keys, values][kMaxPositions][64]
  Buffer<float> residual_;  // [row][width]
  Buffer<bf16> normed_;     // [row][width]
  Buffer<bf16> wide_;       // [row][inner]: qkv, query, inner of the feed-forward part
  Buffer<bf16> attended_;   // [row][width]
  Buffer<bf16> absorbed_;   // [row][head][width]: queries in the encoder's space, then contexts
  Buffer<float> logits_;    // [row][padded vocabulary]
  struct Workspace {
    Buffer<char> attention;
    Buffer<float> scores;  // [kMaxQueries][kFrames]
  };
  std::vector<Workspace> workspaces_;  // one per thread
};

}  // namespace stentor
